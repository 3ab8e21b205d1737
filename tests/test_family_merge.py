# tags: needs:torch,numpy,PIL
"""test_family_merge.py: what training/nets.py exports is the net that was trained, and deepened() changes no picture.

In float64 a convolution that was trained as a sum of branches gives what the branches give on the pixels, one after the
other, borders included. Weights and pictures are from a seed.
"""

import sys

from family_rig import end, report  # first: it finds training/

import numpy as np
import torch
import torch.nn.functional as F

import nets
from family_net import RECIPES

CLOSE = 1e-12  # of values around 1, after up to 13 layers


def unlike(net):
    """Every parameter away from where it starts: some start at nothing."""
    with torch.no_grad():
        for value in net.parameters():
            value.add_(0.1 * torch.randn(value.shape, dtype=value.dtype) / max(1, value[0].numel()) ** 0.5)
    return net


def branches(convolution, x):
    """Its branches on the pixels."""
    kernel = convolution.weight.shape[2]
    y = F.conv2d(x, convolution.weight, convolution.bias, padding=kernel // 2)
    if convolution.wide is None:
        return y
    x = F.conv2d(x, convolution.wide, padding=kernel // 2)
    return y + F.conv2d(x, convolution.narrow[:, :, None, None])


def block(part, x):
    return F.prelu(branches(part.convolution, x), part.slope)


def on_pixels(net, x):
    """The picture of the last end, by branches."""
    y = block(net.head, x)
    for part in net.body:
        y = block(part, y)
    return F.pixel_shuffle(net.base(x) + branches(net.tails[-1], y), nets.SCALE)


def plain_net(name, weights):
    net = nets.ExitNet(name).double()
    net.load_plain(weights)
    return net


def same(a, b):
    return float((a - b).abs().max()) <= CLOSE


def merged(name, expand, x):
    net = unlike(nets.ExitNet(name, expand).double())
    trained, wanted = net(x)[-1], on_pixels(net, x)
    exported = plain_net(name, net.plain())(x)[-1]
    label = f"{name}, products of {expand}"
    report(f"{label}: trained as its branches are", same(trained, wanted), (trained - wanted).abs().max())
    report(f"{label}: exported as trained", same(exported, wanted), (exported - wanted).abs().max())
    report(f"{label}: not bicubic alone", not same(wanted, F.pixel_shuffle(net.base(x), nets.SCALE)))


def deepened(x):
    old = unlike(nets.ExitNet("large").double())
    weights = {name: value.float().numpy() for name, value in old.plain().items()}
    old = plain_net("large", weights)
    new = plain_net("teacher", nets.deepened(weights, "teacher"))
    report("a deeper net from a shallower one: the same pictures", same(new(x)[-1], old(x)[-1]))


def main():
    torch.manual_seed(11)
    x = torch.from_numpy(np.random.default_rng(11).random((2, 1, 9, 12)))
    with torch.no_grad():
        for name, recipe in RECIPES.items():
            merged(name, recipe.expand, x)
        merged("large", 16, x)
        deepened(x)
    return end()


if __name__ == "__main__":
    sys.exit(main())
