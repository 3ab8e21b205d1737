#!/usr/bin/env python3
"""Writes tests/vectors/lines.bin: as make_op_vectors.py, for the ops on lines of op set 4.

Run with a Python that has torch (made with 2.15). Results are computed in float64 and rounded once.
"""

import torch
import torch.nn.functional as F

from vector_file import put, write

torch.manual_seed(20261123)


def rnd(*shape):
    return torch.randn(*shape)


x, weight = rnd(2, 3, 7) * 4, rnd(7)
put("rms_norm", x0=x, weight=weight, y0=F.rms_norm(x.double(), (7,), weight.double(), 1e-5).float())

write("lines.bin")
