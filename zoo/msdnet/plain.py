"""MSDNet for ImageNet: feature maps of four scales, with an exit after each block of layers.

A layer adds to each scale what it makes of that scale and of the next finer one. The finest scale
is given up after every quarter of the layers ("max" pruning), with a transition that halves the
channels.
"""

import math

import torch
from torch import nn


def conv(channels, out, kernel, stride=1):
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(out), nn.ReLU())


def bottleneck(channels, out, factor, stride=1):
    inner = min(channels, factor * out)
    return nn.Sequential(conv(channels, inner, 1), conv(inner, out, 3, stride))


class First(nn.Module):
    def __init__(self, stem, factors):
        super().__init__()
        outs = [stem * factor for factor in factors]
        self.finest = nn.Sequential(conv(3, outs[0], 7, 2), nn.MaxPool2d(3, 2, 1))
        self.down = nn.ModuleList(conv(a, b, 3, 2) for a, b in zip(outs, outs[1:]))

    def forward(self, x):
        scales = [self.finest(x)]
        for down in self.down:
            scales.append(down(scales[-1]))
        return scales


class Layer(nn.Module):
    """From scales `first` .. to scales `offset` .., where offset is first, or one more."""

    def __init__(self, channels, growth, factors, first, offset):
        super().__init__()
        self.first, self.offset = first, offset
        self.same, self.down = nn.ModuleList(), nn.ModuleList()
        for scale in range(offset, len(factors)):
            both = scale > first
            out = growth * factors[scale] // (2 if both else 1)
            self.same.append(bottleneck(channels * factors[scale], out, factors[scale]))
            if both:
                finer = factors[scale - 1]
                self.down.append(bottleneck(channels * finer, out, finer, 2))

    def forward(self, x):
        made, finer = [], [None] * (len(self.same) - len(self.down)) + list(self.down)
        for number, (same, down) in enumerate(zip(self.same, finer)):
            at = number + self.offset - self.first
            new = [same(x[at])] if down is None else [down(x[at - 1]), same(x[at])]
            made.append(torch.cat([x[at], *new], 1))
        return made


class Transition(nn.Module):
    def __init__(self, channels, out, factors):
        super().__init__()
        self.convs = nn.ModuleList(conv(channels * f, out * f, 1) for f in factors)

    def forward(self, x):
        return [conv(scale) for conv, scale in zip(self.convs, x)]


class Head(nn.Module):
    """Of the coarsest scale."""

    def __init__(self, channels, classes):
        super().__init__()
        self.convs = nn.Sequential(conv(channels, channels, 3, 2), conv(channels, channels, 3, 2))
        self.pool, self.linear = nn.AvgPool2d(2), nn.Linear(channels, classes)

    def forward(self, x):
        return self.linear(self.pool(self.convs(x[-1])).flatten(1))


class MSDNet(nn.Module):
    def __init__(self, blocks=5, layers=4, growth=16, stem=32, factors=(1, 2, 4, 4), classes=1000,
                 thresholds=(2.0, 2.0, 2.0, 2.0)):
        super().__init__()
        self.first = First(stem, factors)
        self.blocks, self.heads = nn.ModuleList(), nn.ModuleList()
        channels, interval, number, first = stem, math.ceil(blocks * layers / len(factors)), 0, 0
        for _ in range(blocks):
            block = nn.Sequential()
            for _ in range(layers):
                offset = number // interval
                block.append(Layer(channels, growth, factors, first, offset))
                channels += growth
                if offset > first:
                    block.append(Transition(channels, channels // 2, factors[offset:]))
                    channels //= 2
                number, first = number + 1, offset
            self.blocks.append(block)
            self.heads.append(Head(channels * factors[-1], classes))
        self.thresholds = [*thresholds, 0.0]

    def forward(self, x):
        x = self.first(x)
        for block, head, threshold in zip(self.blocks, self.heads, self.thresholds):
            x = block(x)
            logits = head(x)
            if logits.softmax(-1).max() >= threshold:
                break
        return logits
