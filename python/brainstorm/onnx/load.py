"""Opens an ONNX file, checks it, and brings it to the form that the walk takes.

Hostile files come in here: whatever is wrong with one is a Refused with a message. Relies on the onnx package: its
checker, its converter of op sets, its inliner of functions.
"""

import contextlib
import os

import onnx
import onnx.external_data_helper
import onnx.inliner
import onnx.version_converter

from . import budget, resizing
from .refused import Refused

OPSET = 18  # the handlers know ops from here on


def opset_of(model):
    return max([o.version for o in model.opset_import if o.domain in ("", "ai.onnx")], default=0)


@contextlib.contextmanager
def shaped(model):
    """Ports without a shape, which the checker wants and nobody needs, have one meanwhile."""
    bare = [v.type.tensor_type for v in [*model.graph.input, *model.graph.output]
            if v.type.HasField("tensor_type") and not v.type.tensor_type.HasField("shape")]
    for tensor in bare:
        tensor.shape.SetInParent()
    yield
    for tensor in bare:
        tensor.ClearField("shape")


def opened(path):
    """The model of a file, with its external data; checked."""
    try:
        model = onnx.load(path)
        with shaped(model):
            onnx.checker.check_model(model if model.ByteSize() < 2**31 - 2**20 else path)
    except OSError as why:
        raise Refused(f"{path}: {why.strerror or why}") from None
    except Exception as why:  # protobuf, the checker and external data raise errors of many kinds
        raise Refused(f"{path} is not a sound ONNX model: {first_line(why)}") from None
    return model


def files_of(path):
    """The files that a model is read from: itself, and those of its external data."""
    try:
        model = onnx.load(path, load_external_data=False)
        tensors = onnx.external_data_helper._get_all_tensors(model)
        places = {entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location"}
    except Exception:  # opened() says what is wrong
        return [path]
    return [path, *(os.path.join(os.path.dirname(path), place) for place in places)]


def first_line(why):
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    return (lines or [type(why).__name__])[0][:300]


def prepared(model, told=None):
    """With functions written out, and ops of set 18 or later."""
    told, newest = [] if told is None else told, onnx.defs.onnx_opset_version()
    if opset_of(model) > newest:
        raise Refused(f"ops of set {opset_of(model)}: the onnx package that is installed knows them up to {newest}")
    try:
        if model.functions:
            budget.written_out(model)
            model = onnx.inliner.inline_local_functions(model)
        if opset_of(model) < OPSET:
            placed = resizing.found(model) if opset_of(model) < resizing.FIRST else {}
            model = resizing.said(onnx.version_converter.convert_version(model, OPSET), placed)
    except Refused:
        raise
    except Exception as why:  # the converter's own, of many kinds
        if opset_of(model) < 13:
            raise Refused(f"ops of set {opset_of(model)} could not be brought to {OPSET}: {first_line(why)}") from None
        told.append(f"ops stay of set {opset_of(model)}: {first_line(why)}")
    return model


def baked(model, arrays):
    """A copy with inputs made constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for name, array in arrays.items():
        copy.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    kept = [v for v in copy.graph.input if v.name not in arrays]
    del copy.graph.input[:]
    copy.graph.input.extend(kept)
    return copy


def file_stem(path):
    return os.path.splitext(os.path.basename(path))[0]
