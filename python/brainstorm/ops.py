"""What the library takes: numbers of its enums, its limits; and the checks by them.

For graph.py, whose methods make the nodes. What it takes of every op is in table.py. Must never: know of shapes.
"""

import numpy as np

from .lists import PADDINGS
from .table import NONE_STANDS, OPS, OPSET, OPSET_OF  # noqa: F401: for others
from .table import RANGES as FIELD_RANGES

MAX_NAME = 63           # bytes of a name
# Limits of the library: what is beyond them would be refused when the file is opened.
MAX_PATHS = 32767       # of a router: BS_MAX_PATHS
MAX_FLOOR = 2**24       # of a budget
MAX_TRIPS = 2**24       # of a loop
MAX_ALL_PATHS = 2**28   # of all routers
MAX_ENTRIES = 2**24     # nodes, blocks, weights
MAX_OPERANDS = 2**26    # of all nodes
MAX_CONCAT = 8          # BS_MAX_OPERANDS
MAX_SYMBOLS = 65535
MAX_FACTOR = 1024       # of a symbol
MAX_EXTENT = 2**30
MAX_ELEMENTS = 2**40
MAX_RANK = 4
MAX_AXES = 6  # of what reshape, transpose and slice make for each other
MAX_SCALE = 64          # of a model

# Numbers of enums in brainstorm.h are stored in files and never change: others are in lists.py.
PROTOCOLS = {"top1": 0, "topk": 1, "threshold": 2, "residual_threshold": 3, "binary": 4, "label": 5, "table": 6,
             "capacity": 7, "budget": 8, "callback": 9}
DEPTHWISE = -1
REST = -2**31  # reshape: what is left over

_WINDOW = "stride_h stride_w dilation_h dilation_w pad_top pad_left pad_bottom pad_right"
# What numbers may be, where the library refuses others whatever the shapes and its table does not say so; 0 is a
# default, if there is one.
_AXIS = (-MAX_RANK, MAX_RANK - 1)
RANGES = {
    **FIELD_RANGES,
    ("patches", "size"): (0, 8192),
    ("resize", "factor"): (0, 2**15),
    ("slice", "axis"): (-MAX_AXES, MAX_AXES - 1), ("slice", "start"): (0, MAX_EXTENT),
    ("slice", "length"): (0, MAX_EXTENT),
    **{(op, "axis"): _AXIS for op in ("concat", "reduce", "cumsum", "select", "gather_elements", "scatter_elements",
                                      "scatter_rows", "roll")},
    ("topk", "k"): (1, MAX_EXTENT),
    ("patch_features", "buckets"): (0, 128), ("patch_features", "code_bits"): (0, 16),
    ("attention", "heads"): (0, MAX_EXTENT), ("attention", "kv_heads"): (0, MAX_EXTENT),
}
INT32 = (-2**31, 2**31 - 1)

# The op set that brought a parameter, a last one of its op: where it is 0 it is left out, and older libraries read the
# file.
OPSET_OF_PARAM = {("conv2d", "padding"): 3, ("deconv2d", "padding"): 3, ("pool2d", "padding"): 3,
                  ("route", "floor"): 3, ("route", "spill"): 4,
                  ("attention", "kv_heads"): 4, ("attention", "bidirectional"): 4, ("attention", "scale"): 4,
                  ("reduce", "axes"): 4, ("segment_reduce", "to_rows"): 4,
                  **{("conv2d", field): 4 for field in _WINDOW.split()},
                  **{("pool2d", field): 4 for field in ("kernel_h kernel_w " + _WINDOW).split()},
                  ("reshape", "dim4"): 4, ("reshape", "dim5"): 4, ("transpose", "order4"): 4,
                  ("transpose", "order5"): 4,
                  **{("resize", field): 4 for field in ("den", "height", "width", "centres", "antialias")}}
# The same of numbers: those beyond the first are of the set that stands second.
OPSET_OF_NUMBER = {("reduce", "kind"): (3, 4), ("pad", "edge"): (1, 4), ("resize", "kind"): (2, 4),
                   **{("conv2d", field): (255, 4) for field in "kernel kernel_h kernel_w stride dilation".split()},
                   ("pool2d", "kernel"): (255, 4), ("pool2d", "stride"): (255, 4)}


def number_of(table, what, kind):
    if what in table.values():
        return what
    if what not in table:
        raise ValueError(f"unknown {kind} {what!r}: one of {', '.join(table)}")
    return table[what]


def within(what, number, low, high):
    if not low <= number <= high or number != int(number):
        raise ValueError(f"{what} is {number}, expected {low} .. {high}")
    return int(number)


def all_within(what, numbers, low, high):
    for number in (numbers.min(), numbers.max()):
        within(what, number, low, high)


def padding_of(padding, pad, most=2**15):
    """The fields of a padding. pad: a number, (down, across), or (top, left, bottom, right)."""
    number = number_of(PADDINGS, padding, "padding")
    all_within("pad", np.ravel(pad), 0, most)
    if np.any(pad) and number != PADDINGS["explicit"]:
        raise ValueError(f"pad is {pad}, expected 0 where padding is not \"explicit\"")
    if np.ndim(pad) == 0:
        return {"padding": number, "pad": pad}
    names = "pad_top", "pad_left", "pad_bottom", "pad_right"
    return {"padding": number, **dict(zip(names, tuple(pad) * (4 // len(pad)), strict=True))}


def axes_of(what, numbers):
    """The fields of a number for both axes, or of two: down and across."""
    if np.ndim(numbers) == 0:
        return {what: numbers}
    return dict(zip((what + "_h", what + "_w"), numbers, strict=True))


def one_each(name, n, arrays):
    """The weights that have one number for each of n channels."""
    for suffix, array in arrays.items():
        if array is not None and np.shape(array) != (n,):
            raise ValueError(f"weight {name}.{suffix} has shape {np.shape(array)}, expected ({n},)")
    return arrays


def gates_each(name, gates, weight_ih, weight_hh, bias_ih, bias_hh):
    """The weights of an lstm or a gru."""
    lines = gates * np.shape(weight_hh)[-1]
    if weight_ih is None:
        if np.shape(weight_hh)[0] != lines or bias_ih is not None:
            raise ValueError(f"{name} has no weight_ih: expected no bias_ih, and {gates} lines for each column of "
                             "weight_hh")
        return {"weight_hh": weight_hh, **one_each(name, lines, {"bias_hh": bias_hh})}
    if (np.shape(weight_ih)[0], np.shape(weight_hh)[0]) != (lines, lines):
        raise ValueError(f"weights {name}.weight_ih and weight_hh have shapes {np.shape(weight_ih)} and "
                         f"{np.shape(weight_hh)}, expected {gates} lines for each column of weight_hh")
    if (bias_ih is None) != (bias_hh is None):
        raise ValueError(f"{name} has one bias, expected two or none")
    return {"weight_ih": weight_ih, "weight_hh": weight_hh,
            **one_each(name, lines, {"bias_ih": bias_ih, "bias_hh": bias_hh})}


def reshaped(d):
    if isinstance(d, str):
        return -1 - within(f"the number of {d!r}", int(d[1:]), 0, MAX_AXES - 1)
    return REST if d in (-1, REST) else within("a dimension", d, 1, MAX_EXTENT)
