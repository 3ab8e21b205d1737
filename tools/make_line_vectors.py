#!/usr/bin/env python3
"""Writes tests/vectors/lines.bin: as make_op_vectors.py, for the ops on lines of op set 4.

Run with a Python that has torch (made with 2.15). Results are computed in float64 and rounded once.
"""

import math

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

write("lines.bin")
