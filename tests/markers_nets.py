"""markers_nets.py - networks in plain PyTorch that decide by brainstorm.torch; exports, with what eager mode gives.

    python3 tests/markers_nets.py tests/markers      writes NAME.onnx and NAME.npz of each

so that tests without torch have them. Each class says which lines make it dynamic. Needs torch and onnxscript.
"""

import os
import sys

import numpy as np
import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from brainstorm.torch import Exit, Patches, Routed

WIDTH, EXPERTS = 8, 16


def expert():
    return nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))


class Mixture(nn.Module):
    """Two layers of 16 experts, the best two of each row."""

    def __init__(self):
        super().__init__()
        self.gates = nn.ModuleList(nn.Linear(WIDTH, EXPERTS) for _ in range(2))
        self.moes = nn.ModuleList(Routed([expert() for _ in range(EXPERTS)], k=2, normalise=True)  # one line,
                                  for _ in range(2))

    def forward(self, x):
        for gate, moe in zip(self.gates, self.moes):
            x = x + moe(x, gate(x).softmax(-1))  # and another
        return x


class Block(nn.Module):
    """Of a ResNet."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.beside = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        return (y + self.beside(x)).relu()


def head(channels):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 5))


class EarlyExits(nn.Module):
    """A ResNet of three stages, of which an image takes as many as it needs."""

    def __init__(self, thresholds=(0.5, 0.5)):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.ReLU(), Block(4, 4, 1))
        last = nn.Sequential(Block(8, 8, 2), head(8))
        second = nn.Sequential(Block(4, 8, 2), Exit(head(8), last, thresholds[1]))  # one line,
        self.rest = Exit(head(4), second, thresholds[0])                            # and another

    def forward(self, x):
        return self.rest(self.stem(x))


class Tiles(nn.Module):
    """Doubles an image; runs in tiles."""

    def __init__(self):
        super().__init__()
        body = nn.Sequential(nn.Conv2d(1, 8, 3, 1, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 1, 1), nn.ReLU(),
                             nn.Conv2d(8, 4, 3, 1, 1), nn.PixelShuffle(2))
        self.body = Patches(body, size=16)

    def forward(self, x):
        return self.body(x)


def settled(net):
    """With statistics of batch norms and weights that are not those of a start."""
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 1.5)
            if isinstance(module, nn.Linear):
                module.weight.mul_(2.0)
    return net.eval()


def amid(confidences):
    """Between the two in the middle, and equal to none: so that no rounding decides."""
    ordered = confidences.flatten().sort().values
    return float(ordered[len(ordered) // 2 - 1:len(ordered) // 2 + 1].mean())


def early_exits(x):
    """With thresholds amid what images have, so that some leave everywhere."""
    net = settled(EarlyExits())
    with torch.no_grad():
        stem = net.stem(x)
        net.rest.threshold = amid(net.rest.confidence(net.rest.head(stem)))
        inner = net.rest.rest[1]
        second = net.rest.rest[0](stem)
        inner.threshold = amid(inner.confidence(inner.head(second)))
    return net


def networks():
    """{name: (network, inputs)}."""
    torch.manual_seed(11)
    rows, images = torch.randn(23, WIDTH), torch.randn(9, 3, 12, 12)
    return {"mixture": (settled(Mixture()), rows), "exits": (early_exits(images), images),
            "tiles": (settled(Tiles()), torch.rand(1, 1, 40, 56))}


def taken(net, x):
    """What every Routed and Exit was asked for in eager mode: {module: how many rows each path had}."""
    counts = {}

    def of_routed(name):
        def see(module, inputs):
            chosen = inputs[1].topk(module.k, -1).indices
            counts[name] = np.bincount(chosen.ravel().numpy(), minlength=len(module.paths))
        return see

    def of_exit(name):
        def see(module, inputs):
            leaves = int((module.confidence(module.head(inputs[0])) >= module.threshold).sum())
            counts[name] = np.array([leaves, len(inputs[0]) - leaves])
        return see

    hooks = [m.register_forward_pre_hook((of_routed if isinstance(m, Routed) else of_exit)(name))
             for name, m in net.named_modules() if isinstance(m, (Routed, Exit))]
    with torch.no_grad():
        y = net(x)
    for hook in hooks:
        hook.remove()
    return y, counts


def export(net, x, path):
    """An ONNX file without what torch writes of this machine: where its sources lie."""
    import onnx

    free = x.shape[0] > 1
    program = torch.onnx.export(net, (x,), dynamo=True, opset_version=20, verbose=False,
                                dynamic_shapes=({0: torch.export.Dim("n", min=2)},) if free else None)
    program.save(path)
    model = onnx.load(path)
    for holder in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output,
                   *model.graph.value_info, *model.graph.initializer]:
        kept = [e for e in holder.metadata_props if e.key == "pkg.torch.onnx.name_scopes"]
        held = [(e.key, e.value) for e in kept]
        del holder.metadata_props[:]
        for key, value in held:
            holder.metadata_props.add(key=key, value=value)
    del model.graph.value_info[:]
    onnx.save(model, path)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, (net, x) in networks().items():
        y, counts = taken(net, x)
        export(net, x, os.path.join(folder, f"{name}.onnx"))
        np.savez(os.path.join(folder, f"{name}.npz"), x=x.numpy(), y=y.numpy(), **counts)
        print(name, {key: count.tolist() for key, count in counts.items()})


if __name__ == "__main__":
    main(sys.argv[1])
