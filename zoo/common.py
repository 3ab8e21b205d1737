"""What the networks of the zoo share: weights from a seed, both forms of a network, exports, running ours, float64.

Each network has a folder with plain.py (ordinary PyTorch), dynamic.py (the same file with our markers) and setup.py:

    VARIANTS   {variant: Variant}, of what sizes, and of what the network decides; "small" is for tests
    Variant.plain(), Variant.dynamic(plain)   modules in eval mode with the same weights, and gates that are calibrated
    Variant.inputs()                          tensors
    Variant.rows                              axis 0 is free in our file, up to so many; 0: it is as long as in inputs()

Needs torch; onnxscript to export, and the brainstorm package with its extension module to run. Must never: give both
forms other weights.
"""

import contextlib
import copy
import importlib.util
import inspect
import os
import re
import sys

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.environ.get("ZOO", "build/zoo")  # where exports are kept
IMAGES = ("livesr", "msdnet", "dynamic_routing")
NAMES = [name for name in sorted(os.listdir(HERE)) if os.path.exists(os.path.join(HERE, name, "setup.py"))]


def loaded(name, part):
    """zoo/NAME/PART.py as a module."""
    key = f"zoo_{name}_{part}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, os.path.join(HERE, name, f"{part}.py"))
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


def variants(name):
    return loaded(name, "setup").VARIANTS


def named(word):
    """(network, variant) of NETWORK:VARIANT."""
    name, _, variant = word.partition(":")
    variant = variant or "small"
    if name not in NAMES:
        sys.exit(f"{word}: the networks are {', '.join(NAMES)}")
    if variant not in variants(name):
        sys.exit(f"{word}: the variants of {name} are {', '.join(variants(name))}")
    return name, variant


def seeded(net, seed, gains=None):
    """Weights that keep the size of what goes through (He et al. 2015), and statistics of batch norms that are not
    those of a start. gains: {end of a module's name: factor of its weights}."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, module in net.named_modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                fan = module.weight[0].numel()
                gain = next((g for end, g in (gains or {}).items() if name.endswith(end)), 1.0)
                module.weight.copy_(torch.randn(module.weight.shape, generator=random) * gain * (2 / fan)**0.5)
                if module.bias is not None:
                    module.bias.copy_(torch.randn(module.bias.shape, generator=random) * 0.05)
            if isinstance(module, nn.BatchNorm2d):
                for tensor, low, high in ((module.running_mean, -0.2, 0.2), (module.running_var, 0.7, 1.4),
                                          (module.weight, 0.8, 1.2), (module.bias, -0.1, 0.1)):
                    tensor.copy_(torch.rand(tensor.shape, generator=random) * (high - low) + low)
    return net.eval()


def of_net(net):
    return [*net.parameters(), *net.buffers()]


def with_weights_of(net, other):
    """net, whose parameters and buffers come in the same order."""
    ours, theirs = of_net(net), of_net(other)
    if [x.shape for x in ours] != [x.shape for x in theirs]:
        raise ValueError("the two forms of the network have other weights")
    with torch.no_grad():
        for a, b in zip(ours, theirs):
            a.copy_(b)
    return net.eval()


def eager(net, inputs):
    with torch.no_grad():
        return net(*inputs)


def double(net, inputs):
    """What the network gives in float64."""
    net = copy.deepcopy(net).double()
    return eager(net, [x.double() if x.is_floating_point() else x for x in inputs])


def exported(net, inputs, path, rows=0):
    """An ONNX file. rows: axis 0 of all inputs is free."""
    free = tuple({0: torch.export.Dim("rows", min=2)} for _ in inputs) if rows else None
    if rows and inputs[0].shape[0] < 2:  # one would be taken for a constant
        inputs = [torch.cat([x, x]) for x in inputs]
    with torch.no_grad(), quiet():
        torch.onnx.export(net, tuple(inputs), dynamo=True, opset_version=20, verbose=False, output_names=["y"],
                          dynamic_shapes=free).save(path)
    return path


@contextlib.contextmanager
def quiet():
    """Without what the exporter says on the way."""
    import logging
    import warnings
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    logging.disable(level)


def written(onnx_path, path, rows=0, **options):
    """Our file of it."""
    from brainstorm.onnx import imported
    result = imported(onnx_path, dims=[f"rows=..{rows}"] if rows else None, **options)
    result.walk.graph.write(path)
    return result


def stem_of(name, variant, folder):
    return os.path.join(folder, f"{name}.{re.sub('[^A-Za-z0-9.]+', '_', variant)}")


def onnx_of(name, variant, net, folder):
    """The export of a variant, made once: it takes minutes. net: makes its dynamic form."""
    made, stem = variants(name)[variant], stem_of(name, variant, folder)
    if not os.path.exists(f"{stem}.onnx"):
        if hasattr(made, "onnx"):
            made.onnx(net(), f"{stem}.export", folder)
        else:
            exported(net(), made.inputs(), f"{stem}.export", made.rows)
        os.replace(f"{stem}.export", f"{stem}.onnx")
    return f"{stem}.onnx"


def file_of(name, variant, net, folder):
    """Our file of a variant, made once."""
    made, path = variants(name)[variant], f"{stem_of(name, variant, folder)}.gguf"
    if not os.path.exists(path):
        source = onnx_of(name, variant, net, folder)
        written(source, f"{path}.part", made.rows)
        os.replace(f"{path}.part", path)
        if not hasattr(made, "dense"):
            os.remove(source)
    return path


def dense_file_of(name, variant, net, folder):
    """Our file of a variant in which every cell is computed, and gates multiply."""
    import onnx
    made, path = variants(name)[variant], f"{stem_of(name, variant, folder)}.dense.gguf"
    if not os.path.exists(path):
        onnx.save(made.dense(onnx.load(onnx_of(name, variant, net, folder))), f"{path}.onnx")
        written(f"{path}.onnx", f"{path}.part", made.rows)
        os.replace(f"{path}.part", path)
        os.remove(f"{path}.onnx")
    return path


def tried(variant):
    """(inputs, rows at most) that tests run: where a variant has several images, all of them in a batch, which decide
    differently."""
    if hasattr(variant, "images"):
        return [torch.cat([variant.inputs(number)[0] for number in range(variant.images)])], variant.images
    return variant.inputs(), variant.rows


def switches(wanted):
    """Those of Model.plan that this build has."""
    import brainstorm
    there = inspect.signature(brainstorm.Model.plan).parameters
    return [switch for switch in wanted if switch in there]


def missing(wanted):
    """What is not there of {switch: what it is called}."""
    return [called for switch, called in wanted.items() if switch not in switches(wanted)]


def fed(model, inputs):
    """Arrays of an open file's inputs."""
    return {port: x.numpy().astype(model.inputs[port].numpy_dtype) for port, x in zip(model.inputs, inputs)}


def decisions(net, inputs, margins=None):
    """(result, {module: rows of each path}) in eager mode; of exits behind each other rows that left before count as
    leaving. margins: becomes {module: how near a score of a gate or an exit was to its threshold}."""
    from brainstorm.torch import Exit, Gated, Routed
    counts, rows, margins = {}, inputs[0].shape[0], {} if margins is None else margins

    def see(name, of):
        def hook(module, given):
            if not isinstance(module, Routed):
                score = module.confidence(module.head(given[0])) if isinstance(module, Exit) else given[1]
                margins[name] = float((score - module.threshold).abs().min())
            counts[name] = of(module, given).tolist()
        return hook

    def of_routed(module, given):
        score = given[1] if given[1].is_floating_point() else module.scores[given[1]]
        gates, chosen = score.topk(module.k, -1)
        gates = gates / gates.sum(-1, keepdim=True) if module.normalise else gates
        chosen = module.within(chosen, gates) if getattr(module, "capacity", None) else chosen
        return torch.bincount(chosen[chosen >= 0], minlength=len(module.paths))

    def of_exit(module, given):
        stays = int((module.confidence(module.head(given[0])) < module.threshold).sum())
        return torch.tensor([rows - stays, stays])

    kinds = {Routed: of_routed, Exit: of_exit, Gated: lambda module, given: module.chosen(given[1]).sum(0)}
    hooks = []
    for name, module in net.named_modules():
        if type(module) in kinds:
            counts[name] = [rows, 0] if isinstance(module, Exit) else None  # of an exit that nobody reaches
            hooks.append(module.register_forward_pre_hook(see(name, kinds[type(module)])))
    y = eager(net, inputs)
    for hook in hooks:
        hook.remove()
    return y, counts


def apart(made, wanted):
    """The largest difference, in parts of the largest magnitude."""
    made, wanted = np.asarray(made, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(made - wanted).max() / np.abs(wanted).max())
