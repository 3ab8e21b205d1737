#!/usr/bin/env python3
"""Writes tests/vectors/extents.bin: ops whose result is as long as data say, of op set 4, computed by PyTorch.

Run with a Python that has torch: python3 tools/make_extent_vectors.py
The file: vector_file.py.
"""

import torch

from vector_file import put, write

torch.manual_seed(20261202)


def ranged(case, limit, start, step, dtype):
    of = [torch.tensor([x], dtype=dtype) for x in (limit, start, step)]
    y = torch.arange(start, limit, step, dtype=torch.float64).to(dtype)
    assert len(y) == 13
    put(case, x0=of[0], x1=of[1], x2=of[2], y0=y)


ranged("arange_f32", -2.75, 3.5, -0.5, torch.float32)
ranged("arange_i32", 2**31 - 1, 2**31 - 38, 3, torch.int32)
put("arange_limit", x0=torch.tensor([6.5]), y0=torch.arange(6.5))


def found(case, x, count):
    """With `count` elements that are not 0."""
    flat = torch.zeros(x.numel(), dtype=x.dtype)
    at = torch.randperm(x.numel())[:count]
    flat[at] = x.flatten()[at]
    x = flat.reshape(x.shape)
    y = torch.nonzero(x).to(torch.int32)
    assert len(y) == count
    put(case, x0=x, y0=y)


x = torch.randn(3, 2, 4, 5)
x[0] = float("nan")
x[1] = 1e-42  # not normal, and not 0
found("nonzero_f32", x, 19)
found("nonzero_u8", torch.randint(1, 256, (4, 7, 3), dtype=torch.uint8), 19)
found("nonzero_bf16", torch.randn(40).to(torch.bfloat16), 19)
put("nonzero_all", x0=torch.full((2, 3), -1, dtype=torch.int32), y0=torch.ones(2, 3).nonzero().to(torch.int32))



def told(case, x):
    """What differs in x, where each of it comes first, which one stands where, and how often."""
    y, inverse, counts = torch.unique(x, sorted=True, return_inverse=True, return_counts=True)
    first = torch.stack([(inverse.flatten() == i).nonzero()[0, 0] for i in range(len(y))])
    y = x.flatten()[first]  # its sign of 0
    put(case, x0=x, y0=y, y1=first.to(torch.int32), y2=inverse.to(torch.int32), y3=counts.to(torch.int32))
    return len(y)


of = torch.tensor([-float("inf"), -2.5, -1e-42, 0.0, -0.0, 1e-42, 1.0, 1.0000001, 7.0, 3e38, float("inf"), -3e38])
assert told("unique_f32", of[torch.cat([torch.arange(12), torch.randint(0, 12, (48,))])[torch.randperm(60)]].reshape(
    3, 2, 2, 5)) == 11
of = torch.tensor([-2**31, 2**31 - 1, -1, 0, 1, 2, 3, 2**30, -(2**30), 7, -7], dtype=torch.int32)
assert told("unique_i32", of[torch.cat([torch.arange(11), torch.randint(0, 11, (24,))])[torch.randperm(35)]].reshape(
    5, 7)) == 11
assert told("unique_one", torch.full((1, 6), 2.5)) == 1
assert told("unique_each", torch.randperm(37).to(torch.int32)) == 37

write("extents.bin")
