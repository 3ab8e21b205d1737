"""What the inputs of a model are: their shapes, all of whose dimensions are pinned, but for a free leading one.

    --shape x=1,3,320,320      every dimension of one input
    --dim batch=4              a dimension that the model calls so
    --value sr=16000           an input that is a constant from now on
    --dim batch=..16           the same, free in a run, 16 at most: it must lead all inputs, and be the batch

Must never: guess a dimension.
"""

import numpy as np
import onnx

from .refused import Refused


class Batch:
    """A leading dimension that a run brings: the inputs that have it, its name and the most that it is."""

    def __init__(self, symbol, maximum, inputs):
        self.symbol, self.maximum, self.inputs = symbol, maximum, inputs


def number(text, what):
    if not text.isdigit() or not 1 <= int(text) <= 2**30:
        raise Refused(f"{what}: {text!r} is no number from 1 on")
    return int(text)


def assignments(texts, what):
    pairs = {}
    for text in texts or ():
        name, equals, value = text.rpartition("=")
        if not equals or not name:
            raise Refused(f"{what} {text!r}: expected NAME=...")
        pairs[name] = value
    return pairs


def inputs_of(model):
    """Inputs that a run brings."""
    known = {t.name for t in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in known]


def element_type(value):
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        raise Refused(f"input {value.name!r} is no tensor ({kind or 'of no type'})")
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    except KeyError:
        raise Refused(f"input {value.name!r} has element type {value.type.tensor_type.elem_type}") from None


def fixed(model, texts):
    """{input: array} of inputs that are given as numbers: one, or as many as the model says, separated by commas."""
    arrays, known = {}, {v.name: v for v in inputs_of(model)}
    for name, text in assignments(texts, "--value").items():
        if name not in known:
            raise Refused(f"--value: there is no input {name!r}")
        dtype = element_type(known[name])
        try:
            numbers = np.array([float(t) if dtype.kind not in "iub" else int(t) for t in text.split(",")]).astype(dtype)
        except (ValueError, OverflowError):
            raise Refused(f"--value {name}: {text!r} is no {dtype}") from None
        tensor = known[name].type.tensor_type
        dims = [d.dim_value for d in tensor.shape.dim] if tensor.HasField("shape") else [numbers.size]
        if np.prod(dims, dtype=np.int64) != numbers.size:
            if len(dims) != 1:
                raise Refused(f"--value {name}: {numbers.size} numbers, the model has the shape {dims}")
            dims = [numbers.size]
        arrays[name] = numbers.reshape(dims)
    return arrays


def pinned(model, shapes=None, dims=None):
    """({input: (shape, type)}, Batch or None). shapes, dims: texts as above. With a free dimension shapes have 1 in its
    place."""
    shapes, dims = assignments(shapes, "--shape"), assignments(dims, "--dim")
    values = inputs_of(model)
    for name in set(shapes) - {v.name for v in values}:
        raise Refused(f"--shape: there is no input {name!r}; there are " + ", ".join(repr(v.name) for v in values))
    free = {name: number(text[2:], f"--dim {name}") for name, text in dims.items() if text.startswith("..")}
    if len(free) > 1:
        raise Refused("more than one dimension is free: " + ", ".join(free))
    found, missing, batched, used = {}, [], [], set()
    for value in values:
        shape = shape_of(value, shapes, dims, free, missing, batched, used)
        found[value.name] = (shape, element_type(value))
    if missing:
        raise Refused("dimensions are not known: " + "; ".join(missing)
                      + ". Give them by --shape INPUT=D,D,... or --dim NAME=D")
    for name in set(dims) - used:
        raise Refused(f"--dim: no dimension is called {name!r}")
    if free and set(batched) != {v.name for v in values}:
        raise Refused(f"the free dimension {next(iter(free))!r} must lead every input")
    return found, Batch(*next(iter(free.items())), batched) if free else None


def shape_of(value, shapes, dims, free, missing, batched, used):
    tensor = value.type.tensor_type
    stored = tensor.shape.dim if tensor.HasField("shape") else None
    if value.name in shapes:
        text = shapes[value.name]
        given = [number(t, f"--shape {value.name}") for t in text.split(",") if t] if text else []
        if stored is not None and len(stored) != len(given):
            raise Refused(f"--shape {value.name}: {len(given)} dimensions, the model has {len(stored)}")
        for i, (have, wanted) in enumerate(zip(given, stored or ())):
            if wanted.HasField("dim_value") and wanted.dim_value > 0 and wanted.dim_value != have:
                raise Refused(f"--shape {value.name}: dimension {i} is {have}, the model has {wanted.dim_value}")
            used.add(wanted.dim_param)
        return tuple(given)
    if stored is None:
        missing.append(f"{value.name!r} has no shape at all")
        return ()
    shape = []
    for i, dim in enumerate(stored):
        name = dim.dim_param
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
        elif name in free:
            used.add(name)
            if i != 0:
                raise Refused(f"the free dimension {name!r} is dimension {i} of {value.name!r}, expected the first")
            batched.append(value.name)
            shape.append(1)
        elif name in dims:
            used.add(name)
            shape.append(number(dims[name], f"--dim {name}"))
        else:
            missing.append(f"{value.name!r} dimension {i}" + (f" ({name})" if name else ""))
            shape.append(1)
    return tuple(shape)
