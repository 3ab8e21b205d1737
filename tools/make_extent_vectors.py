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

write("extents.bin")
