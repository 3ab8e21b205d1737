"""What the networks of the zoo share: weights from a seed, both forms of a network, exports, running ours, float64.

Each network has a folder with plain.py (ordinary PyTorch), dynamic.py (the same file with our markers) and setup.py:

    VARIANTS   {variant: Variant}, of what sizes, and of what the network decides
    Variant.plain(), Variant.dynamic()    modules in eval mode with the same weights, and gates that are calibrated
    Variant.inputs()                      tensors

Needs torch; onnxscript to export, and the brainstorm package with its extension module to run. Must never: give both
forms other weights.
"""

import contextlib
import copy
import importlib.util
import os
import sys

import numpy as np
import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
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


def exported(net, inputs, path, names=None, rows=False):
    """An ONNX file. rows: axis 0 of all inputs is free."""
    free = tuple({0: torch.export.Dim("rows", min=2)} for _ in inputs) if rows else None
    with torch.no_grad(), quiet():
        torch.onnx.export(net, tuple(inputs), dynamo=True, opset_version=20, verbose=False, input_names=names,
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
    """Our file of it; how many bytes of weights it has."""
    from brainstorm.onnx import imported
    result = imported(onnx_path, dims=[f"rows=..{rows}"] if rows else None, **options)
    result.walk.graph.write(path)
    return result


def apart(made, wanted):
    """The largest difference, in parts of the largest magnitude."""
    made, wanted = np.asarray(made, np.float64), np.asarray(wanted, np.float64)
    return float(np.abs(made - wanted).max() / np.abs(wanted).max())
