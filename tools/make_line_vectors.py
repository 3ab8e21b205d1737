#!/usr/bin/env python3
"""Writes tests/vectors/lines.bin: as make_op_vectors.py, for the ops on lines of op set 4.

Run with a Python that has torch (made with 2.15). Results are computed in float64 and rounded once.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from vector_file import put, write

torch.manual_seed(20261123)


def rnd(*shape):
    return torch.randn(*shape)


x, weight = rnd(2, 3, 7) * 4, rnd(7)
put("rms_norm", x0=x, weight=weight, y0=F.rms_norm(x.double(), (7,), weight.double(), 1e-5).float())

x = rnd(2, 3, 4, 5)
d = x.double()
put("reduce_prod", x0=x, y0=d.prod(2).float())
put("reduce_squares", x0=x, y0=(d * d).sum(1).float())
put("reduce_l1", x0=x, y0=d.abs().sum((2, 3), keepdim=True).float())
put("reduce_l2", x0=x, y0=(d * d).sum((1, 2)).sqrt().float())
put("reduce_l2_root", x0=x[0, 0], y0=(d[0, 0] * d[0, 0]).sum().sqrt().float().reshape(1))
x = x * 30
x[0, 0, 1, 2:4] = torch.tensor([-math.inf, 0])
x[0, 1, 2] = -math.inf
x[1, 1, 3, 4] = math.inf
put("reduce_log", x0=x, y0=x.double().logsumexp(3).float())
x = x[:, :, :2, :2].abs() + 100  # beyond what e^x can be
put("reduce_log_all", x0=x, y0=x.double().logsumexp((1, 2, 3)).float().reshape(2, 1))
x = rnd(3, 2, 70, 3)
put("reduce_mean_last", x0=x, y0=x.double().mean((2, 3)).float())
put("reduce_max_first", x0=x, y0=x.amax((1, 2)))
put("reduce_max_four", x0=x, y0=x.amax((0, 1)))
x = torch.tensor([[[1.0, -5, -5, 2], [3, 3, 3, 3]], [[-1, -2, -3, -1], [9, 0, 1, 0]]])
put("argmin", x0=x, y0=torch.tensor([[1, 0], [2, 1]], dtype=torch.int32))
x = torch.tensor([[[0, -2**31, 2**31 - 1]], [[2**31 - 1, 2**31 - 1, 2**31 - 2]]], dtype=torch.int32)
put("argmin_i32", x0=x, y0=torch.tensor([[1], [2]], dtype=torch.int32))

x = rnd(2, 3, 4, 37)
d = x.double()
put("cumsum", x0=x, y0=d.cumsum(3).float())
put("cumsum_first", x0=x, y0=(d.cumsum(1) - d).float())
put("cumsum_back", x0=x, y0=d.flip(2).cumsum(2).flip(2).float())
x = torch.randint(-2**31, 2**31 - 1, (2, 40), dtype=torch.int64)
sums = x.flip(1).cumsum(1).flip(1) - x
put("cumsum_after", x0=x.to(torch.int32), y0=((sums + 2**31) % 2**32 - 2**31).to(torch.int32))


def rope(x, positions, dims=0, base=10000, interleaved=False):
    """x [rows, heads, features]; angles in long double."""
    x, p = x.double().numpy(), positions.numpy().astype(np.longdouble).reshape(-1, 1, 1)
    dims = dims or x.shape[2]
    m = dims // 2
    angle = p * np.longdouble(base) ** (-np.arange(m, dtype=np.longdouble) / m)
    c, s = np.cos(angle), np.sin(angle)
    first, second = (slice(0, dims, 2), slice(1, dims, 2)) if interleaved else (slice(0, m), slice(m, dims))
    y = x.astype(np.longdouble)
    y[..., first], y[..., second] = x[..., first] * c - x[..., second] * s, x[..., second] * c + x[..., first] * s
    return y.astype(np.float32)


near = torch.tensor([0, 1, 2, 7, 100, 4095, 131071, 2**20 - 1, 2**20], dtype=torch.int32)
x = rnd(9, 3, 16)
put("rope", x0=x.reshape(9, 48), x1=near, y0=rope(x, near).reshape(9, 48))
far = torch.tensor([2**24 + 1, 2**27 - 3, 2**30 - 1, 2**30], dtype=torch.int32)
put("rope_far", x0=x[:4].reshape(4, 48), x1=far, y0=rope(x[:4], far).reshape(4, 48))
put("rope_pairs", x0=x, x1=near.reshape(9, 1), y0=rope(x, near, 6, 500000, True))
put("rope_part", x0=x, x1=near, y0=rope(x, near, 10))


def lrn(x, size, alpha, beta, bias):
    """As the definition of ONNX reads; PyTorch has other windows where the size is even."""
    squares = F.pad(x.double()**2, (0, 0, 0, 0, (size - 1) // 2, size // 2)).unfold(1, size, 1).sum(-1)
    return (x.double() / (bias + alpha / size * squares)**beta).float()


x = rnd(2, 7, 3, 4) * 30
assert torch.allclose(lrn(x, 5, 1e-4, 0.75, 1), F.local_response_norm(x, 5))
put("lrn", x0=x, y0=lrn(x, 5, 1e-4, 0.75, 1))
put("lrn_even", x0=x, y0=lrn(x, 4, 0.5, 0.6, 2))
put("lrn_wide", x0=x[:, :6], y0=lrn(x[:, :6], 9, 2, 0.75, 1))

write("lines.bin")
