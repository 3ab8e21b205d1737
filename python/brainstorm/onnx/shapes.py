"""What the inputs of a model are: their shapes, all of whose dimensions are pinned, but for those that a run brings.

    --shape x=1,3,320,320      every dimension of one input
    --dim batch=4              a dimension that the model calls so
    --value sr=16000           an input that is a constant from now on
    --most 100, NAME=100       how many elements or trips a node can have, where that is computed in a run
    --dim batch=..16           free in a run, 16 at most (or ..16 in --shape)
    --dim H=..1080/32          a multiple of 32
    --dim T=100..4000          100 at least

One name that leads all inputs is a batch, all else a frame: sizes of images, lengths of audio, counts of steps.

Must never: guess a dimension.
"""

import math

import numpy as np
import onnx

from .refused import Refused


# Sizes with which a model is imported, or as far above the least: which must not matter. They leave other remainders by
# 2, 3, 4, 5 and 8, and are no numbers of channels.
PROBES = (76, 101, 87, 118, 110)
UNSEEN = 3  # other sizes that are compared
SMALL = 2**18  # elements of inputs of which the largest size is compared as well


class Free:
    """A dimension that a run brings: a multiple of `step`, `least` or more. option: what says it."""

    def __init__(self, name, maximum, step=1, least=1, option=""):
        self.name, self.maximum, self.step, self.option = name, maximum, step, option
        self.least = -(-least // step) * step

    def probes(self):
        """Extents about PROBES, each another one as far as there are so many. One step alone is told from none."""
        most, found = self.maximum // self.step, []
        low = min(max(self.least // self.step, 2), most)
        above = max(self.least - min(PROBES), 0)
        for size in PROBES:
            count = min(max((size + above) // self.step, low), most)
            others = [*range(count, most + 1)[:len(PROBES)], *range(count, low - 1, -1)[:len(PROBES)]]
            found.append(next((n for n in others if n not in found), count))
        return [n * self.step for n in found]

    def unseen(self, random):
        """Extents that are none of these, of about their size."""
        probes = self.probes()
        most = min(self.maximum, max(probes) * 5 // 4 + UNSEEN * self.step)
        counts = range(min(probes) // self.step, most // self.step + 1)
        others = [n * self.step for n in counts if n * self.step not in probes] or probes
        return [int(n) for n in np.resize(random.permutation(others), UNSEEN)]


class Batch:
    """A leading dimension that a run brings: the inputs that have it, its name and the most that it is. frame: the same
    as sizes of any other kind, where rows are not computed each by itself."""

    def __init__(self, symbol, maximum, inputs, frame):
        self.symbol, self.maximum, self.inputs, self.frame = symbol, maximum, inputs, frame


class Frame:
    """Sizes that a run brings. inputs: {name: numbers and Frees}."""

    def __init__(self, inputs):
        self.inputs = inputs
        self.free = {d.name: d for dims in inputs.values() for d in dims if isinstance(d, Free)}

    probes = len(PROBES)

    def sizes(self, turn):
        """{name: extent} of a probe."""
        return {name: f.probes()[(turn + i) % self.probes] for i, (name, f) in enumerate(self.free.items())}

    def unseen(self, seed):
        """Sizes with which the model was not imported."""
        random = np.random.default_rng(seed)
        each = {name: f.unseen(random) for name, f in self.free.items()}
        found = [{name: each[name][turn] for name in each} for turn in range(UNSEEN)]
        elements = sum(math.prod(d.maximum if isinstance(d, Free) else d for d in dims)
                       for dims in self.inputs.values())
        return found + [{name: f.maximum for name, f in self.free.items()}] * (elements <= SMALL)

    def small(self):
        """Sizes far below those with which the model was imported."""
        return {name: max(f.least, min(f.probes()) // 4 // f.step * f.step) for name, f in self.free.items()}

    def changed(self, change):
        """Another one; None: nothing changes."""
        made = {name: change(f) for name, f in self.free.items()}
        if all(made[name] is f for name, f in self.free.items()):
            return None
        return Frame({name: tuple(made[d.name] if isinstance(d, Free) else d for d in dims)
                      for name, dims in self.inputs.items()})

    def from_least(self, least):
        """With sizes that are larger."""
        return self.changed(lambda f: f if f.least >= least or f.maximum < 2 * least else
                            Free(f.name, f.maximum, f.step, least, f.option))

    def in_steps(self, step):
        """With sizes that are multiples of a number."""
        return self.changed(lambda f: f if f.step % step == 0 or f.maximum < 4 * step or step % f.step else
                            Free(f.name, f.maximum // step * step, step, f.least, f.option))


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


def most(texts):
    """{node or "": number} of "100" and "NAME=100"."""
    found = {}
    for text in texts or ():
        name, _, figure = str(text).rpartition("=")
        found[name] = number(figure, f"--most {text}")
    return found


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
    """({input: (shape, type)}, Batch, Frame or None). shapes, dims: texts as above. With free dimensions shapes have 1
    in the place of a batch, and the first probe in that of a frame."""
    shapes, dims = assignments(shapes, "--shape"), assignments(dims, "--dim")
    values = inputs_of(model)
    for name in set(shapes) - {v.name for v in values}:
        raise Refused(f"--shape: there is no input {name!r}; there are " + ", ".join(repr(v.name) for v in values))
    missing, used = [], set()
    found = {v.name: (dims_of(v, shapes, dims, missing, used), element_type(v)) for v in values}
    if missing:
        raise Refused("dimensions are not known: " + "; ".join(missing)
                      + ". Give them by --shape INPUT=D,D,... or --dim NAME=D")
    for name in set(dims) - used:
        raise Refused(f"--dim: no dimension is called {name!r}")
    free = free_of(found)
    if isinstance(free, Frame):
        return sized(found, free.sizes(0)), free
    return {name: (tuple(1 if isinstance(d, Free) else d for d in shape), dtype)
            for name, (shape, dtype) in found.items()}, free


def sized(found, sizes):
    """Shapes with a frame's extents in them."""
    return {name: (tuple(sizes[d.name] if isinstance(d, Free) else d for d in shape), dtype)
            for name, (shape, dtype) in found.items()}


def resized(found, frame, sizes):
    """Shapes of a frame of other extents."""
    again = dict(found)
    for name, dims in frame.inputs.items():
        dtype = found[name][1]
        again[name] = (tuple(sizes[d.name] if isinstance(d, Free) else d for d in dims), dtype)
    return again


def free_of(found):
    """What is free of the inputs."""
    places = [(name, i, d) for name, (shape, _) in found.items() for i, d in enumerate(shape) if isinstance(d, Free)]
    if not places:
        return None
    frame = Frame({name: shape for name, (shape, _) in found.items() if any(isinstance(d, Free) for d in shape)})
    leading = all(i == 0 for _, i, _ in places) and len(places) == len(found)
    if leading and len({d.maximum for _, _, d in places}) == 1:
        return Batch(places[0][2].name, places[0][2].maximum, list(found), frame)
    return frame


def dimension(text, what, name, option):
    least, free, rest = text.partition("..")
    if not free:
        return number(text, what)
    most, _, step = rest.partition("/")
    step, least = number(step, what) if step else 1, number(least, what) if least else 1
    if step > 1024:
        raise Refused(f"{what}: a step of {step}, expected 1024 at most")
    most = number(most, what) // step * step
    if most < max(step, least):
        raise Refused(f"{what}: no multiple of {step} is within the maximum" if most < step else
                      f"{what}: at least {least}, at most {most}")
    return Free(name, most, step, least, option)


def dims_of(value, shapes, dims, missing, used):
    """Numbers and Frees."""
    tensor = value.type.tensor_type
    stored = tensor.shape.dim if tensor.HasField("shape") else None
    if value.name in shapes:
        return given_dims(value.name, shapes[value.name], stored, used)
    if stored is None:
        missing.append(f"{value.name!r} has no shape at all")
        return ()
    shape = []
    for i, dim in enumerate(stored):
        name = dim.dim_param
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            shape.append(dim.dim_value)
        elif name in dims:
            used.add(name)
            shape.append(dimension(dims[name], f"--dim {name}", name, f"--dim {name}="))
        else:
            missing.append(f"{value.name!r} dimension {i}" + (f" ({name})" if name else ""))
    return tuple(shape)


def given_dims(name, text, stored, used):
    given = [dimension(t, f"--shape {name}", f"{name}.{i}", f"--shape {name}=, dimension {i}: ")
             for i, t in enumerate(text.split(",")) if t]
    if stored is not None and len(stored) != len(given):
        raise Refused(f"--shape {name}: {len(given)} dimensions, the model has {len(stored)}")
    for i, (have, wanted) in enumerate(zip(given, stored or ())):
        if wanted.HasField("dim_value") and wanted.dim_value > 0 and wanted.dim_value != have:
            have = f"..{have.maximum}" if isinstance(have, Free) else have
            raise Refused(f"--shape {name}: dimension {i} is {have}, the model has {wanted.dim_value}")
        used.add(wanted.dim_param)
    return tuple(given)
