"""DynamicRouting: segmentation by 16 layers of cells at four scales, of which an image takes some.

A cell decides by gates what it gives to the same scale, the next finer and the next coarser one;
where all gates are off it does nothing, and what came in stays as it is. One image at a time.
"""

import torch
from brainstorm.torch import Gated
from torch import nn
from torch.nn import functional as F

OFF = 1e-4  # a gate that is no more than this


def conv(channels, out, stride=1, kernel=1):
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(out))


def separable(channels, stride=1):
    return nn.Sequential(nn.Conv2d(channels, channels, 3, stride, 1, groups=channels, bias=False),
                         conv(channels, channels), nn.ReLU())


class Operation(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.convs = nn.Sequential(separable(channels), separable(channels))

    def forward(self, x):
        return self.convs(x) + x


class Gate(nn.Module):
    """[images, paths], from 0 to 1."""

    def __init__(self, channels, paths, shrink):
        super().__init__()
        self.shrink = shrink
        self.conv, self.last = conv(channels, channels // 2), nn.Conv2d(channels // 2, paths, 1)

    def forward(self, x):
        if self.shrink > 1:
            x = F.avg_pool2d(x, self.shrink)
        x = self.conv(x).relu().mean((2, 3), keepdim=True)
        return self.last(x).flatten(1).tanh().relu()


class Cell(nn.Module):
    def __init__(self, channels, up, down, shrink):
        super().__init__()
        self.gate = Gate(channels, 1 + up + down, shrink)
        self.operation = Gated(Operation(channels), OFF, weighted=False)
        self.keep = Gated(nn.Identity(), OFF)
        self.up = self.down = None
        if up:
            wider = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
            self.up = Gated(nn.Sequential(conv(channels, channels // 2), wider), OFF)
        if down:
            self.down = Gated(conv(channels, 2 * channels, 2), OFF)

    def forward(self, x):
        """What goes to the finer, the same and the coarser scale; None: nothing."""
        gates, up, down = self.gate(x), None, None
        top = gates.amax(1, keepdim=True)
        h = self.operation(x, top, x)
        keep = self.keep(h, torch.where(top > OFF, gates[:, :1], 1.0))
        if self.up is not None:
            up = self.up(h, gates[:, 1:2])
        if self.down is not None:
            down = self.down(h, gates[:, -1:])
        return up, keep, down


def added(values, like):
    """Their sum; None counts as nothing."""
    values = [value for value in values if value is not None]
    return sum(values[1:], values[0]) if values else like


class DynamicRouting(nn.Module):
    def __init__(self, layers=16, width=64, scales=4, shrink=4, classes=19):
        super().__init__()
        self.stem = nn.Sequential(conv(3, width, 2, 3), nn.ReLU(), separable(width, 2),
                                  separable(width))
        self.first = Cell(width, False, True, shrink)
        self.layers, self.width = nn.ModuleList(), width
        for number in range(layers):
            last = number == layers - 1
            self.layers.append(nn.ModuleList(
                Cell(width << scale, 0 < scale and not last, scale < scales - 1 and not last,
                     shrink)
                for scale in range(min(number + 2, scales))))
        self.merge = nn.ModuleList(conv(width << scale, width << scale - 1)
                                   for scale in range(1, scales))
        self.head = nn.Conv2d(width, classes, 3, 1, 1)

    def forward(self, x):
        x = self.stem(x)
        finer, same, coarser = [[y] for y in self.first(x)]
        into = [same, coarser]
        for layer in self.layers:
            came = [added(values, self.nothing(x, scale)) for scale, values in enumerate(into)]
            into = [[] for _ in range(len(self.merge) + 1)]
            for scale, (cell, value) in enumerate(zip(layer, came)):
                for to, y in zip(range(scale - 1, scale + 2), cell(value)):
                    if 0 <= to < len(into):
                        into[to].append(y)
            into = into[:len(layer) + 1]
        return self.decode([added(values, self.nothing(x, s)) for s, values in enumerate(into)])

    def nothing(self, x, scale):
        return x.new_zeros(x.shape[0], self.width << scale, x.shape[2] >> scale,
                           x.shape[3] >> scale)

    def decode(self, scales):
        y = scales[-1]
        for conv, finer in zip(list(self.merge)[::-1], scales[-2::-1]):
            y = F.interpolate(conv(y).relu(), scale_factor=2.0, mode="bilinear") + finer
        return self.head(y)
