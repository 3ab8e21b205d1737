"""What an imported network gives in float64.

Of ONNX: the model with all its floats widened, by onnx.reference; convolutions and what else is slow there by torch
where it is installed. Of ncnn: the layers that the networks of imports.py have, by torch. A result is kept in the cache
under a hash of the file and the inputs. Must never: round to f32 in between.
"""

import hashlib

import numpy as np


def kept(cache, net, path, feeds, make):
    """[array] of the outputs; made once for a file and what this one says."""
    digest = hashlib.sha256()
    for source in (path, __file__):
        with open(source, "rb") as file:
            digest.update(file.read())
    for name, array in sorted(feeds.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    place = cache.path(f"truth_{digest.hexdigest()[:24]}.npz")
    try:
        with np.load(place) as file:
            return [file[f"y{i}"] for i in range(len(file.files))]
    except OSError:
        made = make()
        np.savez(place, **{f"y{i}": a for i, a in enumerate(made)})
        return made


# ------------------------------------------------------------------------------------------------------------- ONNX

def wide(tensor):
    """A TensorProto of floats, as doubles."""
    from onnx import numpy_helper
    array = numpy_helper.to_array(tensor)
    name = tensor.name
    if array.dtype.kind == "f":
        tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float64), name))


def widen(graph):
    from onnx import TensorProto, helper
    for tensor in graph.initializer:
        wide(tensor)
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and not node.attribute:
            zero = helper.make_tensor("", TensorProto.DOUBLE, [1], [0.0])
            node.attribute.append(helper.make_attribute("value", zero))
        for a in node.attribute:
            if a.HasField("t"):
                wide(a.t)
            if a.HasField("g"):
                widen(a.g)
            if node.op_type == "Cast" and a.name == "to" and a.i in (TensorProto.FLOAT, TensorProto.FLOAT16):
                a.i = TensorProto.DOUBLE
            if node.op_type == "Constant" and a.name in ("value_float", "value_floats"):
                from onnx import numpy_helper
                numbers = np.array(a.f if a.name == "value_float" else list(a.floats), np.float64)
                a.Clear()
                a.name, a.type = "value", 4
                a.t.CopyFrom(numpy_helper.from_array(numbers))
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        kind.elem_type = TensorProto.DOUBLE if kind.elem_type == TensorProto.FLOAT else kind.elem_type
    del graph.value_info[:]


def normed(x, size, alpha, beta, bias):
    """LRN, of which onnx.reference does as many channels as there are images."""
    squares = np.zeros((x.shape[0], x.shape[1] + size - 1, *x.shape[2:]))
    squares[:, (size - 1) // 2:(size - 1) // 2 + x.shape[1]] = x * x
    total = sum(squares[:, i:i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * total) ** beta


def replaced():
    """Ops of onnx.reference that are wrong there; and by torch those that are loops in Python, or products of huge
    matrices."""
    from onnx.reference.op_run import OpRun

    class LRN(OpRun):
        op_domain = ""

        def _run(self, x, alpha=None, beta=None, bias=None, size=None):
            return (normed(x, size, alpha, beta, bias),)

    return [LRN, *faster()]


def faster():
    try:
        import torch
        import torch.nn.functional as F
    except ImportError:
        return []
    from onnx.reference.op_run import OpRun

    def tensor(array):
        return torch.from_numpy(np.array(array, order="C"))

    def padded(x, pads, auto, kernel, strides, dilations, value):
        """pads as ONNX has them; SAME is reckoned."""
        axes = x.dim() - 2
        pads = list(pads or [0] * 2 * axes)
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            for i in range(axes):
                n = x.shape[2 + i]
                more = max(0, (-(-n // strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - n)
                low = more // 2 if auto == "SAME_UPPER" else more - more // 2
                pads[i], pads[i + axes] = low, more - low
        turned = [n for i in reversed(range(axes)) for n in (pads[i], pads[i + axes])]
        return F.pad(x, turned, value=value) if any(turned) else x

    class Conv(OpRun):
        op_domain = ""

        def _run(self, x, w, b=None, auto_pad=None, dilations=None, group=None, kernel_shape=None, pads=None,
                 strides=None):
            x, w = tensor(x), tensor(w)
            axes = x.dim() - 2
            strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
            x = padded(x, pads, auto_pad, w.shape[2:], strides, dilations, 0.0)
            b = None if b is None else tensor(b)
            conv = F.conv1d if axes == 1 else F.conv2d
            return (conv(x, w, b, strides, 0, dilations, group or 1).numpy(),)

    class MaxPool(OpRun):
        op_domain = ""

        def _run(self, x, auto_pad=None, ceil_mode=None, dilations=None, kernel_shape=None, pads=None,
                 storage_order=None, strides=None):
            if ceil_mode:
                raise NotImplementedError("MaxPool with ceil_mode")
            x = tensor(x)
            axes = x.dim() - 2
            strides, dilations = list(strides or [1] * axes), list(dilations or [1] * axes)
            x = padded(x, pads, auto_pad, kernel_shape, strides, dilations, -np.inf)
            pool = F.max_pool1d if axes == 1 else F.max_pool2d
            return (pool(x, list(kernel_shape), strides, 0, dilations).numpy(),)

    class Erf(OpRun):
        op_domain = ""

        def _run(self, x):
            return (torch.erf(tensor(x)).numpy(),)

    class Gelu(OpRun):
        op_domain = ""

        def _run(self, x, approximate=None):
            x = tensor(x)
            return (F.gelu(x, approximate=approximate or "none").numpy(),)

    return [Conv, MaxPool, Erf, Gelu]


def of_onnx(model, feeds):
    """model: with functions written out, and ops of set 18 or later."""
    import onnx
    from onnx.reference import ReferenceEvaluator
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    widen(copy.graph)
    doubles = {k: a.astype(np.float64) if a.dtype.kind == "f" else a for k, a in feeds.items()}
    made = ReferenceEvaluator(copy, new_ops=replaced()).run(None, doubles)
    for name, array in zip((v.name for v in copy.graph.output), made):
        if array.dtype == np.float32:
            raise ValueError(f"{name} was rounded to f32 on its way")
    return made


# ------------------------------------------------------------------------------------------------------------- ncnn

def of_ncnn(param, inputs):
    """By the layers' definitions, in torch."""
    import torch
    import torch.nn.functional as F
    from brainstorm.ncnn.param import read_param
    from brainstorm.ncnn.weights import read_weights
    layers = read_param(param)
    weights = read_weights(layers, param[:-6] + ".bin")
    values = {k: torch.from_numpy(x.astype(np.float64))[None] for k, x in inputs.items()}
    last = None
    for layer in layers:
        xs = [values[name] for name in layer.inputs]
        if layer.kind == "Input":
            continue
        w = {k: torch.from_numpy(a.astype(np.float64)) for k, a in weights.get(layer, {}).items()}
        if layer.kind == "Split":
            y = xs[0]
        elif layer.kind == "Convolution":
            kernel = layer.whole(1, 1)
            y = F.conv2d(xs[0], w["weight"].reshape(layer.whole(0), -1, kernel, kernel), w["bias"], layer.whole(3, 1),
                         layer.whole(4, 0))
        elif layer.kind == "PReLU":
            y = F.prelu(xs[0], w["slope"])
        elif layer.kind == "PixelShuffle":
            y = F.pixel_shuffle(xs[0], layer.whole(0, 1))
        elif layer.kind == "Interp":
            mode = {1: "nearest", 2: "bilinear", 3: "bicubic"}[layer.whole(0)]
            y = F.interpolate(xs[0], scale_factor=layer.real(1, 1.0), mode=mode)
        elif layer.kind == "BinaryOp":
            y = xs[0] + xs[1]
        else:
            raise ValueError(f"no definition of {layer.kind} here")
        for name in layer.outputs:
            values[name] = y
        last = y
    return [last[0].numpy()]
