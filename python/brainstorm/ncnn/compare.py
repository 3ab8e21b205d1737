"""Runs an imported network beside ncnn, on one random input, in f32: how far apart results are.

Relies on what runs models (brainstorm.open), and the `ncnn` package, neither of which need be there. Must never decide
that a difference is small.
"""

import numpy as np

from ..running import open as open_model
from .extents import Extent

SEED, SIDE = 1, 96  # of the random input; rows and columns of a frame that is free, about


def concrete(blob, of):
    """A shape in numbers, with a number for each symbol."""
    return [(d.times * of[d.symbol] + d.add) // d.over if isinstance(d, Extent) else d for d in blob.shape]


def random_inputs(made, seed=SEED, frame=(SIDE, SIDE + 32)):
    """{input: array} and {output: shape} for a frame of about that size, no more than is allowed."""
    most = {symbol: made.most[symbol] for symbol in made.most}
    of = {symbol: max(1, min(most[symbol], side // made.multiple))
          for symbol, side in zip(("height", "width"), frame) if symbol in most}
    random = np.random.default_rng(seed)
    inputs = {name: random.random(concrete(blob, of), np.float32) for name, blob in made.inputs.items()}
    return inputs, {name: concrete(blob, of) for name, blob in made.outputs.items()}


FAST = ("use_winograd_convolution", "use_sgemm_convolution", "use_packing_layout")  # and not quite as exact


def ncnn_net(param, bin, threads=1, plain=False):
    """Loaded, with all arithmetic in f32. plain: by its plain loops, whose rounding is less."""
    import ncnn

    net = ncnn.Net()
    net.opt.num_threads = threads
    for option in ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage",
                   "use_vulkan_compute", *(FAST if plain else ())):
        if hasattr(net.opt, option):
            setattr(net.opt, option, False)
    if net.load_param(param) != 0 or net.load_model(bin) != 0:
        raise ValueError("ncnn cannot load it")
    return net


def ncnn_run(net, inputs, outputs):
    import ncnn

    extractor = net.create_extractor()
    for name, x in inputs.items():  # a clone: layers work in place
        extractor.input(name, ncnn.Mat(np.ascontiguousarray(x)).clone())
    made = {}
    for name in outputs:
        status, mat = extractor.extract(name)
        if status != 0:
            raise ValueError(f"ncnn cannot make {name!r}")
        made[name] = np.array(mat)
    return made


def compare(param, bin, path, made):
    """What to print: the largest differences, or why there are none."""
    try:
        import ncnn  # noqa: F401
    except ImportError:
        return "not compared with ncnn: pip install ncnn"
    inputs, outputs = random_inputs(made)
    try:
        ours = open_model(path).run(inputs)
    except ImportError as missing:
        return f"not compared with ncnn: {missing}"
    theirs = ncnn_run(ncnn_net(param, bin, plain=True), inputs, outputs)
    lines = []
    for name, y in theirs.items():
        if y.shape != ours[name].shape:
            raise ValueError(f"{name!r} is {list(ours[name].shape)}, and of ncnn {list(y.shape)}")
        apart = float(np.abs(y - ours[name]).max())
        lines.append(f"{name}: at most {apart:.3g} from ncnn's, whose largest is {float(np.abs(y).max()):.3g}")
    return "\n".join(lines)
