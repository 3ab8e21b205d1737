#!/usr/bin/env python3
"""Writes tests/vectors/elements.bin: ops that go element by element, of op set 4, computed by PyTorch.

Run with a Python that has torch: python3 tools/make_element_vectors.py
The file: vector_file.py.
"""

import torch

from vector_file import put, write

torch.manual_seed(20240608)


def rnd(*shape):
    return torch.randn(*shape)


# ------------------------------------------------------------------ unary

x = rnd(2, 3, 5) * 3
ties = torch.tensor([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.0, 8388609.0, -1e9, 0.49999997]])
for name, f in dict(abs=torch.abs, neg=torch.neg, sign=torch.sign, exp=torch.exp, erf=torch.erf, sin=torch.sin,
                    cos=torch.cos, tan=torch.tan, atan=torch.atan).items():
    put("unary_" + name, x0=x, y0=f(x.double()).float())
for name, f in dict(floor=torch.floor, ceil=torch.ceil, round=torch.round).items():
    put("unary_" + name, x0=ties, y0=f(ties))
positive = x.abs() + 0.01
for name, f in dict(sqrt=torch.sqrt, rsqrt=torch.rsqrt, reciprocal=torch.reciprocal, log=torch.log).items():
    put("unary_" + name, x0=positive, y0=f(positive.double()).float())
x = torch.rand(2, 3, 5) * 2 - 1
for name, f in dict(asin=torch.asin, acos=torch.acos).items():
    put("unary_" + name, x0=x, y0=f(x.double()).float())
i = torch.cat([torch.tensor([0, 1, -1, 2**31 - 1, -2**31 + 1, -2**31]), torch.randint(-9, 9, (10,))]).int().view(2, 8)
for name, f in dict(abs=torch.abs, neg=torch.neg, sign=torch.sign).items():
    put(f"unary_{name}_i32", x0=i, y0=f(i))
put("unary_not_i32", x0=i, y0=(i == 0).int())

# ------------------------------------------------------------------ operands of several shapes

a, b = rnd(2, 3, 1, 5), rnd(2, 1, 4, 1)
put("add_both_ways", x0=a, x1=b, y0=a + b)
a, b = rnd(2, 1, 1), rnd(2, 3, 4)
put("sub_wider", x0=a, x1=b, y0=a - b)
a, b = rnd(2, 4, 5), rnd(2, 3, 4, 5)
put("sub_of_more_dimensions", x0=a, x1=b, y0=a[:, None] - b)
a, b = rnd(2, 3), rnd(2, 3, 4, 5)
put("mul_by_an_image", x0=a, x1=b, y0=a[:, :, None, None] * b)
a, b = rnd(2, 3, 4, 5), rnd(4, 1)
put("mul_captured_lines", x0=a, x1=b, y0=a * b)

# ------------------------------------------------------------------ binary, compare, where

a, b = rnd(2, 3, 1, 5), rnd(2, 1, 4, 5)
put("binary_div", x0=a, x1=b, y0=a / b)
put("binary_min", x0=a, x1=b, y0=torch.minimum(a, b))
put("binary_max", x0=a, x1=b, y0=torch.maximum(a, b))
b = rnd(2, 3, 1, 5) * 3
put("binary_pow", x0=a.abs(), x1=b, y0=(a.abs().double() ** b.double()).float())
i = torch.cat([torch.tensor([0, 1, -1, 2**31 - 1, -2**31]), torch.randint(-2, 3, (25,))]).int().view(2, 3, 5)
j = i.flip(-1) - i.flip(1) // 2
put("binary_min_i32", x0=i, x1=j, y0=torch.minimum(i, j))
put("binary_max_i32", x0=i, x1=j, y0=torch.maximum(i, j))
x = (rnd(2, 3, 5) * 2).round()
x[0, 0] = torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0, -0.0])
y = x.flip(1)
y[0, 0] = torch.tensor([float("inf"), float("inf"), float("nan"), -0.0, float("nan")])
for name, f in dict(equal=torch.eq, not_equal=torch.ne, less=torch.lt, less_equal=torch.le, greater=torch.gt,
                    greater_equal=torch.ge).items():
    put("compare_" + name, x0=x, x1=y, y0=f(x, y).int())
    put(f"compare_{name}_i32", x0=i, x1=j[:, :, :1], y0=f(i, j[:, :, :1]).int())
for name, f in {"and": torch.logical_and, "or": torch.logical_or, "xor": torch.logical_xor}.items():
    put("compare_" + name, x0=i, x1=j, y0=f(i, j).int())
a, b, c = rnd(2, 1, 4, 5), rnd(2, 3, 4, 1), torch.randint(-1, 2, (2, 3, 1, 5)).int()
put("where", x0=c, x1=a, x2=b, y0=torch.where(c != 0, a, b))
put("where_i32", x0=j, x1=i, x2=i[:, :1], y0=torch.where(j != 0, i, i[:, :1]))

write("elements.bin")
