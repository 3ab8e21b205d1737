"""What the library takes: numbers of its enums, its limits, ops with their parameters; and the checks by them.

For graph.py, whose methods make the nodes. `brainstorm ops` prints the same of the library; a test compares
them. Must never: know of shapes.
"""

import numpy as np

from .lists import PADDINGS

OPSET = 4               # BS_MODEL_OPSET
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

_SOURCE = "dtype rank dim0 dim1 dim2 dim3"
_ROUTER = "router path"
_OF_LOOP = "router mode"
_WINDOW = "stride_h stride_w dilation_h dilation_w pad_top pad_left pad_bottom pad_right"

# op: parameters in the order of its descriptor (a trailing ~ marks f32), and how many values it makes.
OPS = {
    "input": (_SOURCE, 1), "state": (_SOURCE, 1), "state_write": ("", 0), "output": ("", 0),
    "patches": ("size like", 1), "assemble": ("", 1), "rows": ("", 1), "collect": ("", 1),
    "route": ("protocol paths k threshold~ fallback capacity normalise floor spill", 0),
    "scatter": (_ROUTER, 1), "gather": ("router mode", 1), "route_price": (_ROUTER, 1), "route_score": (_ROUTER, 1),
    "look_ahead": ("", 0),
    "conv2d": ("out kernel kernel_h kernel_w stride pad dilation groups no_bias batch_norm act act_param~ padding "
               + _WINDOW, 1),
    "deconv2d": ("out kernel stride pad output_pad no_bias act act_param~ padding", 1),
    "linear": ("out no_bias act act_param~", 1),
    "matmul": ("transpose_b scale~", 1),
    "pixel_shuffle": ("r", 1), "pixel_unshuffle": ("r", 1),
    "add": ("", 1), "sub": ("", 1), "mul": ("", 1),
    "activation": ("act param~", 1), "prelu": ("", 1), "clip": ("low~ high~", 1), "affine": ("scale~ offset~", 1),
    "convert": ("dtype scale~ code_bits", 1),
    "concat": ("axis", 1), "slice": ("axis start length", 1), "reshape": ("rank dim0 dim1 dim2 dim3 dim4 dim5", 1),
    "transpose": ("order0 order1 order2 order3 order4 order5", 1), "pad": ("top bottom left right value~ edge", 1),
    "softmax": ("", 1), "layer_norm": ("epsilon~", 1), "batch_norm": ("epsilon~", 1),
    "pool2d": ("kind kernel stride pad global count_pad padding kernel_h kernel_w " + _WINDOW, 1),
    "resize": ("kind factor cubic_a~ code_bits den height width centres antialias", 1),
    "reduce": ("kind axis keep axes", 1), "argmax": ("", 1), "topk": ("k", 2), "gather_rows": ("", 1),
    "constant": (_SOURCE, 1), "patch_features": ("buckets code_bits", 1),
    "segments": ("", 1), "state_append": ("", 0), "segment_spread": ("", 1), "segment_reduce": ("mode to_rows", 1),
    "attention": ("heads alibi kv_heads bidirectional scale~", 1),
    "rms_norm": ("epsilon~", 1),
    "argmin": ("", 1),
    "cumsum": ("axis exclusive reverse", 1),
    "rope": ("heads dims base~ interleaved", 1),
    "segment_index": ("", 1),
    "lrn": ("size alpha~ beta~ bias~", 1),
    "select": ("axis", 1), "gather_elements": ("axis", 1), "scatter_elements": ("axis update", 1),
    "scatter_rows": ("axis update", 1), "roll": ("axis shift", 1),
    "lstm": ("no_bias projected", 2), "gru": ("no_bias projected", 1),
    "unary": ("kind", 1), "binary": ("kind", 1), "compare": ("kind", 1), "where": ("", 1),
    "arange": ("maximum", 1), "nonzero": ("maximum", 1), "unique": ("maximum", 4),
    "nms": ("maximum max_each iou_threshold~ score_above~ centre", 1),
    "loop": ("bound in_turn grows no_lift", 0), "loop_carry": (_OF_LOOP, 1), "loop_trip": (_OF_LOOP, 1),
    "loop_slice": (_OF_LOOP, 1), "loop_next": (_OF_LOOP, 1),
    "loop_collect": (_OF_LOOP, 1), "loop_again": (_OF_LOOP, 0), "loop_rows": (_OF_LOOP, 1),
    "loop_parent": (_OF_LOOP, 1),
    "children": ("slots", 1), "levels": ("", 1),
}
NONE_STANDS = ("gather", "loop", "loop_next", "loop_collect", "loop_again")  # whose operands may be none

# What numbers may be, where the library refuses others whatever the shapes; 0 is a default, if there is one.
_AXIS = (-MAX_RANK, MAX_RANK - 1)
RANGES = {
    ("patches", "size"): (0, 8192),
    ("conv2d", "out"): (1, 2**20), ("conv2d", "groups"): (DEPTHWISE, 2**20),
    **{(op, field): (0, 2**15) for op in ("conv2d", "pool2d")
       for field in ("kernel kernel_h kernel_w stride " + _WINDOW).split()},
    ("conv2d", "dilation"): (0, 2**15),
    ("deconv2d", "out"): (1, 2**20), ("deconv2d", "kernel"): (0, 255), ("deconv2d", "stride"): (0, 16),
    ("deconv2d", "output_pad"): (0, 15),
    ("linear", "out"): (1, 2**24),
    ("pixel_shuffle", "r"): (1, 64), ("pixel_unshuffle", "r"): (1, 64),
    ("convert", "code_bits"): (0, 16), ("resize", "code_bits"): (0, 16), ("resize", "factor"): (0, 2**15),
    ("resize", "den"): (0, 2**15), ("resize", "height"): (0, MAX_EXTENT), ("resize", "width"): (0, MAX_EXTENT),
    ("resize", "antialias"): (0, 1),
    ("concat", "axis"): _AXIS, ("slice", "axis"): (-MAX_AXES, MAX_AXES - 1), ("reduce", "axis"): _AXIS,
    ("reduce", "axes"): (0, MAX_RANK),
    ("rope", "heads"): (0, MAX_EXTENT), ("rope", "dims"): (0, MAX_EXTENT), ("rope", "interleaved"): (0, 1),
    ("lrn", "size"): (0, 2**20),
    ("cumsum", "axis"): _AXIS, ("cumsum", "exclusive"): (0, 1), ("cumsum", "reverse"): (0, 1),
    ("slice", "start"): (0, MAX_EXTENT), ("slice", "length"): (0, MAX_EXTENT),
    ("reshape", "rank"): (1, MAX_AXES),
    ("pad", "top"): (0, 2**15), ("pad", "bottom"): (0, 2**15), ("pad", "left"): (0, 2**15),
    ("pad", "right"): (0, 2**15), ("pad", "edge"): (0, 2),
    ("topk", "k"): (1, MAX_EXTENT),
    ("patch_features", "buckets"): (0, 128), ("patch_features", "code_bits"): (0, 16),
    ("select", "axis"): _AXIS, ("gather_elements", "axis"): _AXIS, ("scatter_elements", "axis"): _AXIS,
    ("scatter_rows", "axis"): _AXIS, ("roll", "axis"): _AXIS,
    ("arange", "maximum"): (1, MAX_EXTENT), ("nonzero", "maximum"): (0, MAX_EXTENT),
    ("unique", "maximum"): (0, MAX_EXTENT), ("nms", "maximum"): (0, MAX_EXTENT),
    ("nms", "max_each"): (0, MAX_EXTENT), ("nms", "centre"): (0, 1),
    ("attention", "heads"): (0, MAX_EXTENT), ("attention", "alibi"): (0, 1),
    ("attention", "kv_heads"): (0, MAX_EXTENT), ("attention", "bidirectional"): (0, 1),
    ("segment_reduce", "to_rows"): (0, 1),
    ("loop", "bound"): (0, MAX_TRIPS), ("loop", "in_turn"): (0, 1), ("loop", "grows"): (0, 1),
    ("loop", "no_lift"): (0, 1),
    ("children", "slots"): (1, 2**15),
}
INT32 = (-2**31, 2**31 - 1)

# The op set that brought an op, where it is not the first. A file names the lowest that has all it uses.
OPSET_OF = {"segments": 2, "state_append": 2, "segment_spread": 2, "segment_reduce": 2, "attention": 2,
            "look_ahead": 2,
            "rms_norm": 4, "argmin": 4, "cumsum": 4, "rope": 4, "segment_index": 4,
            "lrn": 4,
            "select": 4, "gather_elements": 4, "scatter_elements": 4, "scatter_rows": 4, "roll": 4,
            "lstm": 4, "gru": 4,
            "unary": 4, "binary": 4, "compare": 4, "where": 4, "arange": 4, "nonzero": 4,
            "loop": 4, "loop_carry": 4, "loop_trip": 4, "loop_slice": 4, "loop_next": 4,
            "loop_collect": 4, "loop_again": 4, "loop_rows": 4, "loop_parent": 4,
            "children": 4, "levels": 4,
            "unique": 4, "nms": 4}
# The same of parameters, last ones of their op: where they are 0 they are left out, and older libraries read the file.
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
