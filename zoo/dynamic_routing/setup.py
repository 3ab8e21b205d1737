"""DynamicRouting in its size, with gates that take as many multiplications of an image as each form was reported to.

A form's gates that are off are drawn from a seed until the budget is met; biases of gates then are what makes them so.
"""

from dataclasses import dataclass, replace

import common
import derive
import numpy as np
import torch

BUDGETS = {"A": 52.5e9, "B": 58.9e9, "C": 59.8e9, "Raw": 114.9e9}  # multiplications and additions, as reported


@dataclass(frozen=True)
class Variant:
    budget: float       # of multiplications; below 1: a share of those of all cells
    shrink: int = 4     # of what gates look at
    layers: int = 16
    width: int = 64
    classes: int = 19
    height: int = 1024
    breadth: int = 2048
    seed: int = 7

    def onnx(self, net, path, folder):
        """Of one size there is one export; gates are written into it, which may look at the whole image."""
        import onnx
        kept = tuple(name for name in net.state_dict() if ".gate.last." not in name)  # norms are part of their convs
        shrunk = replace(self, shrink=4) if self.shrink == 1 else self
        model = derive.base(folder, f"dynamic_routing.{self.layers}_{self.width}_{self.height}", shrunk.dynamic,
                            self.inputs(), self.rows)
        if self.shrink == 1:
            model = derive.bypassed(model, "AveragePool")
        onnx.save(derive.with_weights(model, net, kept), path)

    dense = staticmethod(lambda model: dense(model))
    rows = 1  # axis 0 is free in our file, up to so many

    @property
    def config(self):
        return dict(layers=self.layers, width=self.width, shrink=self.shrink, classes=self.classes)

    def inputs(self, number=0):
        random = torch.Generator().manual_seed(200 + number)
        coarse = torch.randn(1, 3, self.height // 32, self.breadth // 32, generator=random)
        image = torch.nn.functional.interpolate(coarse, scale_factor=32, mode="bilinear")
        return [image + 0.1 * torch.randn(image.shape, generator=random)]

    def plain(self):
        net = common.seeded(common.loaded("dynamic_routing", "plain").DynamicRouting(**self.config), 3)
        calibrated(self, net)
        return net

    def dynamic(self, plain=None):
        made = common.loaded("dynamic_routing", "dynamic").DynamicRouting(**self.config)
        return common.with_weights_of(made, plain or self.plain())


def cells(net):
    return [net.first, *(cell for layer in net.layers for cell in layer)]


def dense(model):
    """An ONNX model of dynamic.py in which every cell is computed, and gates multiply: the same numbers. Exporting
    plain.py so would take a quarter of an hour more."""
    from onnx import helper, numpy_helper
    constants = {"zoo.axes": np.array([2, 3]), "zoo.none": np.zeros((1, 1, 1, 1), np.float32)}
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        if node.op_type != "Gated":
            model.graph.node.append(node)
            continue
        told = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        score, made, y = node.input[1], node.input[-1], node.output[0]
        constants[f"{y}.off"] = np.full((1, 1, 1, 1), told["threshold"], np.float32)
        model.graph.node.append(helper.make_node("Unsqueeze", [score, "zoo.axes"], [f"{y}.gate"]))
        model.graph.node.append(helper.make_node("Greater", [f"{y}.gate", f"{y}.off"], [f"{y}.on"]))
        if told["otherwise"]:
            model.graph.node.append(helper.make_node("Where", [f"{y}.on", made, node.input[2]], [y]))
            continue
        model.graph.node.append(helper.make_node("Where", [f"{y}.on", f"{y}.gate", "zoo.none"], [f"{y}.times"]))
        model.graph.node.append(helper.make_node("Mul", [made, f"{y}.times"], [y]))
    model.graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in constants.items())
    return model


def of_convs(module, height, breadth):
    """Multiplications of a chain of convolutions for an image of that size."""
    total = 0
    for conv in (m for m in module.modules() if isinstance(m, torch.nn.Conv2d)):
        height, breadth = height // conv.stride[0], breadth // conv.stride[1]
        total += conv.weight.numel() * height * breadth
    return total


def costs(variant, net):
    """(what every run costs, [(operation, {path: cost}) of each cell])."""
    height, breadth = variant.height, variant.breadth
    scale = lambda cell: (cell.operation.convs[0][0].in_channels // variant.width).bit_length() + 1
    fixed = of_convs(net.stem, height, breadth) + of_convs(net.head, height // 4, breadth // 4)
    fixed += sum(of_convs(conv, height >> s, breadth >> s) for s, conv in enumerate(net.merge, 3))
    found = []
    for cell in cells(net):
        size = height >> scale(cell), breadth >> scale(cell)
        fixed += of_convs(cell.gate.conv, size[0] // variant.shrink, size[1] // variant.shrink)
        paths = [0] + [of_convs(path, *size) for path in (cell.up, cell.down) if path is not None]
        found.append((of_convs(cell.operation, *size), paths))
    return fixed, found


def total(fixed, parts, on):
    return fixed + sum((operation if any(wanted) else 0) + sum(cost for cost, w in zip(paths, wanted) if w)
                       for (operation, paths), wanted in zip(parts, on))


def gates_on(variant, net):
    """Of each cell which gates are on."""
    fixed, parts = costs(variant, net)
    on = [[True] * len(paths) for _, paths in parts]
    budget = variant.budget if variant.budget >= 1 else variant.budget * total(fixed, parts, on)
    random = torch.Generator().manual_seed(variant.seed)
    order = [(cell, path) for cell, wanted in enumerate(on) for path in range(len(wanted))]
    for number in torch.randperm(len(order), generator=random).tolist():
        if total(fixed, parts, on) <= budget:
            break
        cell, path = order[number]
        on[cell][path] = cell == 0
    return on, total(fixed, parts, on)


def calibrated(variant, net):
    """Sets weights and biases of gates, cell after cell, as the image goes through. What the weights give is of the
    size of a gate, however large activations are: else a bias would have to cancel it, and rounding would decide."""
    random = torch.Generator().manual_seed(variant.seed + 1)

    def settle(wanted):
        def hook(module, inputs, made):
            size = 0.3 + 0.7 * torch.rand(len(wanted), generator=random)
            seen = made.reshape(-1) - module.bias
            scale = 0.5 / seen.abs().max().clamp_min(0.5)
            module.weight.mul_(scale)
            module.bias.copy_(torch.where(torch.tensor(wanted), size, -size) - scale * seen)
            return (scale * seen + module.bias).reshape(1, -1, 1, 1)
        return hook

    on, _ = gates_on(variant, net)
    hooks = [cell.gate.last.register_forward_hook(settle(wanted)) for cell, wanted in zip(cells(net), on)]
    common.eager(net, variant.inputs())
    for hook in hooks:
        hook.remove()


VARIANTS = {name: Variant(budget, 1 if name == "Raw" else 4) for name, budget in BUDGETS.items()}
VARIANTS["A, half"] = Variant(0.366, width=32, height=512, breadth=1024)  # half as wide, high and broad
VARIANTS["small"] = Variant(0.6, 2, layers=4, width=4, classes=5, height=64, breadth=128)
