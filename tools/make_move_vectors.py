#!/usr/bin/env python3
"""Writes tests/vectors/moves.bin: ops that move elements, of op set 4, computed by PyTorch.

Run with a Python that has torch: python3 tools/make_move_vectors.py
The file: vector_file.py.
"""

import torch
import torch.nn.functional as F

from vector_file import put, write

torch.manual_seed(20261123)


def rnd(*shape):
    return torch.randn(*shape)


# ------------------------------------------------------------------ elements by index, roll

def indices(below, *shape):
    return torch.randint(0, below, shape, dtype=torch.int32)


a, i = rnd(2, 3, 5, 4), indices(5, 2, 3)
put("select", x0=a, x1=i, y0=a[:, :, i.long().flatten()].reshape(2, 3, 2, 3, 4))
i = indices(4, 2)
put("select_one", x0=a, x1=i, y0=torch.stack([a[n][..., int(i[n])] for n in range(2)]))
a, i = rnd(3, 6, 2), indices(6, 4, 5)
put("select_table", x0=a, x1=i, y0=torch.stack([a[:, i[n].long()] for n in range(4)]))
a, i = torch.randint(0, 255, (2, 4, 6, 3), dtype=torch.uint8), indices(6, 2, 3, 9, 3)
put("gather_elements", x0=a, x1=i, y0=torch.gather(a, 2, i.long()))
a, i = rnd(3, 7), indices(7, 4, 2, 5)
put("gather_elements_root", x0=a, x1=i, y0=torch.stack([torch.gather(a, 1, n.long()) for n in i]))
a, u = rnd(2, 5, 4), rnd(2, 3, 4)
i = torch.stack([torch.stack([torch.randperm(5)[:3] for _ in range(4)], 1) for _ in range(2)]).to(torch.int32)
put("scatter_elements", x0=a, x1=i, x2=u, y0=a.scatter(1, i.long(), u))
a, i, u = (torch.randint(-2**31, 2**31 - 1, (2, 3, 5), dtype=torch.int32), indices(5, 2, 9),
           torch.randint(-2**31, 2**31 - 1, (2, 2, 9), dtype=torch.int32))
put("scatter_elements_add", x0=a, x1=i, x2=u,
    y0=torch.stack([a[n].scatter_add(1, i.long(), u[n]) for n in range(2)]))
a, u = torch.randint(0, 255, (6, 2, 3), dtype=torch.uint8), torch.randint(0, 255, (2, 4, 2, 3), dtype=torch.uint8)
i = torch.stack([torch.randperm(6)[:4] for _ in range(2)]).to(torch.int32)
put("scatter_rows", x0=a, x1=i, x2=u, y0=torch.stack([a.index_copy(0, i[n].long(), u[n]) for n in range(2)]))
a, i, u = rnd(2, 3, 4, 5), indices(4, 2, 7), rnd(2, 3, 7, 5)
put("scatter_rows_add", x0=a, x1=i, x2=u, y0=torch.stack([a[n].index_add(1, i[n], u[n]) for n in range(2)]))
a = rnd(2, 3, 4, 5)
put("roll_height", x0=a, y0=a.roll(3, 2))
put("roll_width", x0=a, y0=a.roll(-1, 3))
put("pad_reflect", x0=a, y0=F.pad(a, (0, 4, 3, 1), mode="reflect"))

write("moves.bin")
