"""LiveSR: patches of a frame, each enlarged four times by the subnet whose centre is nearest.

A ResNet-18 up to its 512 pooled features; distances to centres; of the subnets (NAS-MDSR: 80
residual blocks of a few channels) the one with the highest score, 1 / squared distance.
"""

import torch
from torch import nn


class BasicBlock(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.short = nn.Identity() if stride == 1 and channels == out else nn.Sequential(
            nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        return (y + self.short(x)).relu()


class Classifier(nn.Module):
    """ResNet-18 without its last layer."""

    def __init__(self, width=64):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width),
                                  nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = [width, width, 2 * width, 4 * width, 8 * width]
        self.stages = nn.Sequential(*(
            nn.Sequential(BasicBlock(a, b, 1 if a == b else 2), BasicBlock(b, b, 1))
            for a, b in zip(widths, widths[1:])))

    def forward(self, x):
        return self.stages(self.stem(x)).mean((2, 3))


class Residual(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(n, n, 3, 1, 1), nn.Conv2d(n, n, 3, 1, 1)

    def forward(self, x):
        return self.conv2(self.conv1(x).relu()) + x


class Subnet(nn.Module):
    def __init__(self, n, blocks):
        super().__init__()
        self.head = nn.Conv2d(3, n, 3, 1, 1)
        self.body = nn.Sequential(*(Residual(n) for _ in range(blocks)), nn.Conv2d(n, n, 3, 1, 1))
        self.tail = nn.Sequential(nn.Conv2d(n, 4 * n, 3, 1, 1), nn.PixelShuffle(2),
                                  nn.Conv2d(n, 4 * n, 3, 1, 1), nn.PixelShuffle(2),
                                  nn.Conv2d(n, 3, 3, 1, 1))

    def forward(self, x):
        x = self.head(x)
        return self.tail(self.body(x) + x)


class LiveSR(nn.Module):
    def __init__(self, subnets=10, n=8, blocks=80, width=64):
        super().__init__()
        self.classifier = Classifier(width)
        self.centres = nn.Parameter(torch.zeros(subnets, 8 * width))
        self.subnets = nn.ModuleList(Subnet(n, blocks) for _ in range(subnets))

    def scores(self, x):
        apart = self.classifier(x).unsqueeze(1) - self.centres
        return 1 / (apart * apart).sum(-1)

    def forward(self, x):
        chosen = self.scores(x).argmax(-1)
        y = x.new_empty(x.shape[0], 3, 4 * x.shape[2], 4 * x.shape[3])
        for number, subnet in enumerate(self.subnets):
            rows = (chosen == number).nonzero().squeeze(-1)
            if len(rows):
                y[rows] = subnet(x[rows])
        return y
