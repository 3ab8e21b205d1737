#!/usr/bin/env python3
"""Writes tests/vectors/ops.bin: inputs, weights and results of every op, computed by PyTorch (or exact integers).

Run with a Python that has torch (made with 1.13):  /usr/bin/python3 tools/make_op_vectors.py
The file: vector_file.py.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F

from vector_file import put, write

torch.manual_seed(20240607)


def rnd(*shape):
    return torch.randn(*shape)


# ------------------------------------------------------------------ convolutions


def conv(case, channels, out, kernel, size, act=None, bias=True, norm=False, groups=1, sides=(0, 0, 0, 0), **options):
    kh, kw = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    x = rnd(2, channels, *size)
    w = rnd(out, channels // groups, kh, kw) / math.sqrt(channels // groups * kh * kw)
    b = rnd(out) if bias else None
    tensors = dict(x0=x, weight=w)
    if bias:
        tensors["bias"] = b
    y = F.conv2d(F.pad(x, sides), w, b, groups=groups, **options)
    if norm:
        weight, shift, mean, var = rnd(out), rnd(out), rnd(out), torch.rand(out) + 0.1
        tensors.update(bn__weight=weight, bn__bias=shift, bn__mean=mean, bn__var=var)
        y = F.batch_norm(y, mean, var, weight, shift, eps=1e-5)
    if act == "prelu":
        tensors["prelu"] = slopes = rnd(out) * 0.3
        y = F.prelu(y, slopes)
    elif act:
        y = act(y)
    put(case, y0=y, **tensors)


conv("conv2d_plain", 5, 7, 3, (9, 8), padding=1)
conv("conv2d_stride", 3, 6, 3, (9, 10), padding=1, stride=2)
conv("conv2d_dilated", 4, 5, 5, (11, 9), padding=4, dilation=2)
conv("conv2d_groups", 6, 4, 3, (6, 7), padding=1, groups=2)
conv("conv2d_depthwise", 6, 6, 3, (6, 7), padding=1, groups=6, act=F.relu)
conv("conv2d_norm", 4, 9, 3, (6, 7), padding=1, norm=True, bias=False, act="prelu")
conv("conv2d_norm_wide", 12, 16, 3, (7, 9), padding=1, norm=True, act=F.relu)
conv("conv2d_rect", 3, 4, (1, 5), (5, 9), padding=(0, 2), act=lambda y: F.leaky_relu(y, 0.01))
conv("conv2d_valid", 2, 3, 4, (7, 8), bias=False, act=lambda y: y.clamp(0, 0.5))
conv("conv2d_wide", 16, 16, 3, (13, 10), padding=1, act=F.relu)
conv("conv2d_sigmoid", 3, 17, 1, (4, 5), act=torch.sigmoid)


def deconv(case, channels, out, kernel, size, act=None, bias=True, **options):
    x, w, b = rnd(2, channels, *size), rnd(channels, out, kernel, kernel) / kernel, rnd(out)
    y = F.conv_transpose2d(x, w, b if bias else None, **options)
    put(case, x0=x, weight=w, y0=act(y) if act else y, **(dict(bias=b) if bias else {}))


deconv("deconv2d_k4", 5, 3, 4, (5, 6), stride=2, padding=1)
deconv("deconv2d_k9", 4, 1, 9, (6, 5), stride=2, padding=4, output_padding=1, act=F.relu)
deconv("deconv2d_sparse", 3, 2, 2, (3, 4), stride=3, act=torch.tanh)
deconv("deconv2d_default", 2, 3, 3, (4, 4), bias=False)

# ------------------------------------------------------------------ matrices

x, w, b = rnd(7, 11), rnd(9, 11), rnd(9)
put("linear_rows", x0=x, weight=w, bias=b, y0=F.linear(x, w, b))
x, w = rnd(2, 5, 13), rnd(20, 13)
put("linear_gelu", x0=x, weight=w, y0=F.gelu(F.linear(x, w)))
slopes = rnd(6)
w, b = rnd(6, 4), rnd(6)
x = rnd(3, 2, 5, 4)
put("linear_prelu", x0=x, weight=w, bias=b, prelu=slopes,
    y0=F.prelu(F.linear(x, w, b).flatten(0, 2), slopes).view(3, 2, 5, 6))
a, b = rnd(2, 5, 7), rnd(2, 7, 70)
put("matmul_plain", x0=a, x1=b, y0=a @ b)
a, b = rnd(2, 3, 4, 6), rnd(2, 3, 5, 6)
put("matmul_transposed", x0=a, x1=b, y0=a @ b.transpose(-1, -2) * 0.25)
a, b = rnd(2, 3, 4), rnd(4, 5)
put("matmul_captured", x0=a, x1=b, y0=a @ b)

# ------------------------------------------------------------------ element by element

x = rnd(2, 8, 3, 4)
put("pixel_shuffle", x0=x, y0=F.pixel_shuffle(x, 2))
x = (torch.rand(2, 2, 6, 9) * 255).to(torch.uint8)
put("pixel_unshuffle", x0=x, y0=F.pixel_unshuffle(x.float(), 3).to(torch.uint8))
a, b = rnd(2, 3, 4, 5), rnd(2, 3, 4, 5)
put("add", x0=a, x1=b, y0=a + b)
b = rnd(2, 1, 4, 1)
put("sub_broadcast", x0=a, x1=b, y0=a - b)
b = rnd(3, 1, 1)
put("mul_captured", x0=a, x1=b, y0=a * b)
b = rnd(2, 3)
put("mul_channel", x0=a, x1=b, y0=a * b[:, :, None, None])
i, j = (torch.randint(-2**31, 2**31 - 1, (2, 6), dtype=torch.int32) for _ in range(2))
put("add_i32", x0=i, x1=j, y0=i + j)
put("mul_i32", x0=i, x1=j, y0=i * j)
x = rnd(2, 3, 5) * 2
for name, f in dict(relu=F.relu, leaky=lambda v: F.leaky_relu(v, 0.2), sigmoid=torch.sigmoid, tanh=torch.tanh,
                    gelu=F.gelu, silu=F.silu, clip=lambda v: v.clamp(0, 1.5)).items():
    put("act_" + name, x0=x, y0=f(x))
x, slopes = rnd(2, 3, 4, 5), rnd(3)
put("prelu", x0=x, prelu=slopes, y0=F.prelu(x, slopes))
put("clip", x0=x, y0=x.clamp(-0.5, 0.7))
put("affine", x0=x, y0=x * 2.5 - 0.75)
weight, shift, mean, var = rnd(3), rnd(3), rnd(3), torch.rand(3)
put("batch_norm", x0=x, weight=weight, bias=shift, mean=mean, var=var,
    y0=F.batch_norm(x, mean, var, weight, shift, eps=1e-3))

x = torch.arange(256, dtype=torch.uint8).view(1, 256)
put("convert_u8_f32", x0=x, y0=x.float() / 255)
x = torch.cat([torch.arange(-4, 260).float() + 0.5, torch.tensor([-1e9, 1e9, 0.49999997, 254.5, 255.4])]).view(1, -1)
put("convert_f32_u8", x0=x, y0=x.round().clamp(0, 255).to(torch.uint8))
x = torch.tensor([[-0.1, 0.0, 0.25, 0.5, 1.0, 1.2, 0.000488, 0.0004889]])
put("convert_f32_u10", x0=x, y0=(x * 1023).round().clamp(0, 1023).to(torch.int32).numpy().astype(np.uint16))
x = torch.tensor([[-3e9, 3e9, 2147483520.0, 2147483648.0, -2147483648.0, -1.5, 2.5, 3.5, 16777217.0]])
put("convert_f32_i32", x0=x, y0=x.double().round().clamp(-2**31, 2**31 - 1).to(torch.int32))
x = torch.tensor([[2**31 - 1, -2**31, 200, -200, 7, 127, -128, 128]], dtype=torch.int32)
put("convert_i32_i8", x0=x, y0=x.clamp(-128, 127).to(torch.int8))
bits = torch.randint(-2**31, 2**31 - 1, (1500,), dtype=torch.int32)
edges = torch.tensor([0, 1, 2, 3, 0x33000000, 0x33000001, 0x33800000, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000,
                      0x38801000, 0x38803000, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x7f800000, 0x3f801000,
                      0x3f803000, 0x3f808000, 0x3f818000, 0x7f7fffff], dtype=torch.int32)
middle = torch.randint(0x32000000, 0x48000000, (1500,), dtype=torch.int32)  # where f16 lives
x = torch.cat([bits, edges, middle, -middle]).view(torch.float32)
x = x[~torch.isnan(x)].view(1, -1)
put("convert_f32_f16", x0=x, y0=x.half())
put("convert_f32_bf16", x0=x, y0=x.bfloat16())
h = np.arange(65536, dtype=np.uint16)
h = np.concatenate([h[:1100:11], h[1000:64512:1021], h[31700:31745:2], h[64300:64513:7]])  # subnormal, normal, infinite
h = h[((h >> 10) & 31 != 31) | (h & 1023 == 0)]
put("convert_f16_f32", x0=h.view(np.float16)[None], y0=h.view(np.float16).astype(np.float32)[None])

# ------------------------------------------------------------------ moves

a, b, c = rnd(2, 3, 4, 5), rnd(2, 2, 4, 5), rnd(2, 1, 4, 5)
put("concat_channels", x0=a, x1=b, x2=c, y0=torch.cat([a, b, c], 1))
a, b = rnd(2, 3, 4, 5), rnd(2, 3, 4, 2)
put("concat_width", x0=a, x1=b, y0=torch.cat([a, b], 3))
b = rnd(2, 3, 7, 5)
put("concat_height", x0=a, x1=b, y0=torch.cat([a, b], 2))
put("slice", x0=a, y0=a[:, :, 1:3])
put("slice_rest", x0=a, y0=a[:, :, :, 2:])
put("reshape", x0=a, y0=a.reshape(2, 4, 15))
a = torch.randint(-128, 127, (2, 3, 4, 5), dtype=torch.int8)
put("transpose_root", x0=a, y0=a.permute(2, 0, 3, 1))
a = rnd(2, 3, 4, 5)
put("transpose_default", x0=a, y0=a.transpose(-1, -2))
put("pad_value", x0=a, y0=F.pad(a, (3, 0, 1, 2), value=1.5))
put("pad_edge", x0=a, y0=F.pad(a, (2, 1, 0, 3), mode="replicate"))
table, index = rnd(6, 3, 2), torch.tensor([[5, 0, 3], [3, 3, 1]], dtype=torch.int32)
put("gather_rows", x0=table, x1=index, y0=table[index.long()])
table = torch.randint(0, 255, (2, 4, 3), dtype=torch.uint8)
index = torch.tensor([[3, 0], [1, 1]], dtype=torch.int32)
put("gather_rows_own", x0=table, x1=index, y0=torch.stack([table[n][index[n].long()] for n in range(2)]))
values = torch.randint(-9, 9, (2, 3, 4), dtype=torch.int32)
put("constant", **{"": values}, y0=values)

# ------------------------------------------------------------------ lines

x = rnd(2, 3, 7) * 4
put("softmax", x0=x, y0=F.softmax(x, -1))
weight, shift = rnd(7), rnd(7)
put("layer_norm", x0=x, weight=weight, bias=shift, y0=F.layer_norm(x, (7,), weight, shift))
x = rnd(2, 3, 4, 5)
put("reduce_sum", x0=x, y0=x.sum(1, keepdim=True))
put("reduce_mean", x0=x, y0=x.mean(3))
put("reduce_max", x0=x, y0=x.amax(2))
put("reduce_min", x0=x[:, 0, 0], y0=x[:, 0, 0].amin(1, keepdim=True))
x = torch.tensor([[[1.0, 5, 5, 2], [3, 3, 3, 3]], [[-1, -2, -3, -1], [0, 9, 1, 9]]])
put("argmax", x0=x, y0=torch.tensor([[1, 0], [0, 1]], dtype=torch.int32))
put("topk", x0=x, y0=torch.tensor([[[5.0, 5, 2], [3, 3, 3]], [[-1, -1, -2], [9, 9, 1]]]),
    y1=torch.tensor([[[1, 2, 3], [0, 1, 2]], [[0, 3, 1], [1, 3, 2]]], dtype=torch.int32))

# ------------------------------------------------------------------ images

x = rnd(2, 3, 7, 8)
put("pool_average", x0=x, y0=F.avg_pool2d(x, 2))
put("pool_average_pad", x0=x, y0=F.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
put("pool_average_count", x0=x, y0=F.avg_pool2d(x, 3, 1, 1, count_include_pad=True))
put("pool_max", x0=x, y0=F.max_pool2d(x, 3, 2, 1))
put("pool_global", x0=x, y0=x.mean((2, 3)))
put("pool_global_max", x0=x, y0=x.amax((2, 3)))
x = rnd(2, 2, 5, 4)
put("resize_nearest", x0=x, y0=F.interpolate(x, scale_factor=3, mode="nearest"))
put("resize_bilinear", x0=x, y0=F.interpolate(x, scale_factor=3, mode="bilinear", align_corners=False))
put("resize_bilinear2", x0=x, y0=F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False))
put("resize_bicubic", x0=x, y0=F.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False))  # a = -0.75
put("resize_bicubic4", x0=x, y0=F.interpolate(x, scale_factor=4, mode="bicubic", align_corners=False))


def bicubic2_axis(x, axis):
    """Exact: weights of a = -0.5 at distances 1.75 .75 .25 1.25, times 128."""
    n = x.shape[axis]
    take = lambda offset: np.take(x, np.clip(np.arange(n) + offset, 0, n - 1), axis)
    even = -3 * take(-2) + 29 * take(-1) + 111 * take(0) - 9 * take(1)
    odd = -9 * take(-1) + 111 * take(0) + 29 * take(1) - 3 * take(2)
    stacked = np.stack([even, odd], axis + 1)
    shape = list(x.shape)
    shape[axis] *= 2
    return stacked.reshape(shape)


def bicubic2(x, top):
    return np.clip((bicubic2_axis(bicubic2_axis(x.astype(np.int64), 2), 3) + 8192) >> 14, 0, top)


x = np.random.default_rng(3).choice([0, 1, 17, 128, 200, 254, 255], (2, 1, 6, 7)).astype(np.uint8)
put("resize_u8", x0=x, y0=bicubic2(x, 255).astype(np.uint8))
x = np.random.default_rng(7).integers(0, 256, (2, 1, 1, 150)).astype(np.uint8)  # one row: sums that end in a half
assert (np.abs(bicubic2_axis(x.astype(np.int64), 3)) % 128 == 64).sum() > 2
put("resize_ties", x0=x, y0=bicubic2(x, 255).astype(np.uint8))
x = np.random.default_rng(4).choice([0, 3, 500, 1000, 1023], (2, 2, 5, 6)).astype(np.uint16)
put("resize_u10", x0=x, y0=bicubic2(x, 1023).astype(np.uint16))
x = np.random.default_rng(5).choice([0, 30000, 65535], (1, 1, 5, 6)).astype(np.uint16)
put("resize_u16", x0=x, y0=bicubic2(x, 65535).astype(np.uint16))


def bucket(v, buckets):
    if v == 0:
        return 0
    return min(1 + (v**4).bit_length() - 1, buckets - 1)


def features(x, reference, shift, buckets=64):
    x = x.astype(np.int64) >> shift
    area = x[0].size
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    lap = 4 * x - padded[:, :, :-2, 1:-1] - padded[:, :, 2:, 1:-1] - padded[:, :, 1:-1, :-2] - padded[:, :, 1:-1, 2:]
    energy = [16 * int((row**2).sum()) // area for row in lap]
    change = [0] * len(x)
    if reference is not None:
        change = [16 * int((row**2).sum()) // area for row in x - (reference.astype(np.int64) >> shift)]
    return np.array([[bucket(e, buckets), bucket(c, buckets)] for e, c in zip(energy, change)], np.int32)


g = np.random.default_rng(6)
amplitude = np.array([0, 1, 2, 6, 25, 120])[:, None, None, None]  # from flat to noise
x = (128 + g.integers(-1, 2, (6, 1, 9, 11)) * amplitude).astype(np.uint8)
reference = np.roll(x, 1, 0)
put("patch_features", x0=x, x1=reference, y0=features(x, reference, 0))
steps = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)  # 16 d^2 of every difference d
put("patch_features_steps", x0=steps, x1=np.zeros_like(steps), y0=features(steps, np.zeros_like(steps), 0))
thirds = g.integers(0, 256, (300, 1, 1, 3)).astype(np.uint8)
put("patch_features_thirds", x0=thirds, x1=thirds[::-1].copy(), y0=features(thirds, thirds[::-1], 0))
put("patch_features_alone", x0=x, y0=features(x, None, 0, 20))
x = (512 + g.integers(-1, 2, (6, 2, 4, 5)) * amplitude * 4).astype(np.uint16)
put("patch_features_u10", x0=x, x1=x[::-1].copy(), y0=features(x, x[::-1], 2))

# ------------------------------------------------------------------ recurrent


def recurrent(case, kind, shape, inputs, hidden, bias=True):
    torch.manual_seed(len(case) * 1000 + hidden)  # its own: cases before it stay as they are
    made = kind(inputs, hidden, bias=bias)
    x, h, c = (rnd(*shape, n) for n in (inputs, hidden, hidden))
    lines = [t.reshape(-1, t.shape[-1]) for t in (x, h, c)]
    if kind is torch.nn.LSTMCell:
        y = made(lines[0], (lines[1], lines[2]))
        results = dict(x2=c, y0=y[0].view(*shape, hidden), y1=y[1].view(*shape, hidden))
    else:
        results = dict(y0=made(lines[0], lines[1]).view(*shape, hidden))
    put(case, x0=x, x1=h, **results, **dict(made.named_parameters()))


def projected(case, kind, gates, hidden, bias):
    """x is what the cell's first product gives."""
    torch.manual_seed(len(case) * 1000 + hidden)
    made = kind(3, hidden, bias=bias)
    x, h, c = rnd(5, 3), rnd(5, hidden), rnd(5, hidden)
    y = made(x, (h, c)) if gates == 4 else (made(x, h),)
    weights = {n: w for n, w in made.named_parameters() if n.endswith("hh")}
    others = {"x2": c, "y1": y[1]} if gates == 4 else {}
    put(case, x0=torch.nn.functional.linear(x, made.weight_ih, made.bias_ih), x1=h, y0=y[0], **others, **weights)


recurrent("lstm", torch.nn.LSTMCell, (5,), 7, 30)
recurrent("lstm_lines", torch.nn.LSTMCell, (2, 3, 2), 5, 9, bias=False)
recurrent("gru", torch.nn.GRUCell, (5,), 7, 34)
projected("gru_projected", torch.nn.GRUCell, 3, 10, True)
projected("lstm_projected", torch.nn.LSTMCell, 4, 9, False)
recurrent("gru_lines", torch.nn.GRUCell, (2, 3, 2), 5, 9, bias=False)

# ------------------------------------------------------------------ windows that differ by axis

conv("conv2d_row", 5, 6, (1, 7), (6, 15), padding=(0, 3))
conv("conv2d_column", 4, 9, (7, 1), (11, 6), padding=(3, 0), act=F.relu)
conv("conv2d_strides", 3, 6, (3, 1), (9, 10), padding=(1, 0), stride=(2, 1))
conv("conv2d_dilations", 8, 12, 3, (6, 9), padding=(1, 2), dilation=(1, 2))
SIDES = 1, 3, 0, 2  # left, right, top, bottom
conv("conv2d_pads", 3, 4, 3, (6, 7), sides=SIDES)
conv("conv2d_long", 2, 3, (1, 300), (1, 310), sides=(2, 1, 0, 0))
conv("conv2d_depthwise_strides", 6, 6, (3, 5), (6, 9), padding=(1, 2), stride=(1, 2), groups=6)
x = rnd(2, 3, 7, 8)
put("pool_average_axes", x0=x, y0=F.avg_pool2d(x, (3, 2), (2, 1), (1, 0), count_include_pad=False))
put("pool_average_axes_count", x0=x, y0=F.avg_pool2d(x, (3, 2), (1, 2), 1, count_include_pad=True))
put("pool_average_sides", x0=x, y0=F.avg_pool2d(F.pad(x, SIDES), 4, 3))
put("pool_max_axes", x0=x, y0=F.max_pool2d(x, (2, 3), (1, 2), 1, (2, 1)))
put("pool_max_sides", x0=x, y0=F.max_pool2d(F.pad(x, SIDES, value=-math.inf), 4, (4, 3)))
y = F.max_pool2d(F.pad(x, (4, 5, 0, 0), value=-math.inf), 2, 1, dilation=(1, 9))
put("pool_max_apart", x0=x, y0=y.masked_fill(y.isinf(), 0))  # here a window of which nothing is in the frame gives 0

write("ops.bin")
