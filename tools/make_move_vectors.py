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

# ------------------------------------------------------------------ images of another size


def resized(case, x, **options):
    put(case, x0=x, y0=F.interpolate(x, **options))


x = rnd(2, 2, 7, 6)
resized("resize_nearest_ratio", x, scale_factor=1.25, mode="nearest-exact")
resized("resize_nearest_floor", x, size=(5, 9), mode="nearest")
resized("resize_bilinear_ratio", x, scale_factor=0.75, mode="bilinear", align_corners=False)
resized("resize_bicubic_ratio", x, scale_factor=1.5, mode="bicubic", align_corners=False)
resized("resize_bilinear_size", x, size=(10, 4), mode="bilinear", align_corners=False)
resized("resize_bilinear_corners", x, size=(10, 4), mode="bilinear", align_corners=True)
resized("resize_bicubic_corners", x, size=(4, 11), mode="bicubic", align_corners=True)
resized("resize_one_corner", x, size=(1, 1), mode="bilinear", align_corners=True)
resized("resize_area", x, size=(3, 4), mode="area")
x = rnd(2, 2, 17, 13)
resized("resize_area_half", x[:, :, :16, :12], scale_factor=0.5, mode="area")
resized("resize_antialias_size", x, size=(5, 3), mode="bilinear", align_corners=False, antialias=True)
resized("resize_antialias_ratio", x, scale_factor=0.4, mode="bicubic", align_corners=False, antialias=True)
resized("resize_antialias_up", x, scale_factor=1.5, mode="bicubic", align_corners=False, antialias=True)
y = torch.full((1,), 0.5)
while ((y - y.floor() - 0.5).abs() < 1e-3).any():  # results that would be rounded either way
    x = torch.randint(0, 256, (2, 1, 9, 8), dtype=torch.uint8)
    y = F.interpolate(x.double(), scale_factor=0.75, mode="bilinear", align_corners=False)
put("resize_u8_ratio", x0=x, y0=y.round().to(torch.uint8))

write("moves.bin")
