"""ncnn_shapes.py - cases of test_ncnn_layers.py: layers that move elements, and what they do, in NumPy."""

import numpy as np

from ncnn_layers import Case, numbers, raw

IMAGE = (4, 6, 8)


def cuts():
    def case(name, params, cut, shapes=(IMAGE,), **how):
        Case(name, "Crop", params, list(shapes), lambda x, *_: x[cut], **{"patches": False, **how})

    inner = (slice(None), slice(1, -2), slice(2, -1))
    case("Crop by starts and ends", {9: [1, 2], 10: [-2, -1], 11: [-2, -1]}, inner)
    case("Crop of channels", {9: [1], 10: [3], 11: [0]}, slice(1, 3), patches=True)
    case("Crop to an end that is far", {9: [1, 2], 10: [5, 99], 11: [1, 2]}, (slice(None), slice(1, 5), slice(2, None)),
         free=False)
    case("Crop by offsets on both sides", {0: 2, 1: 1, 2: 1, 3: -233, 4: -233, 5: -233, 6: 1, 7: 2, 8: 0},
         (slice(1, None), slice(1, -2), slice(2, -1)))
    case("Crop to a size", {0: 2, 1: 1, 2: 1, 3: 5, 4: 3, 5: 2}, (slice(1, 3), slice(1, 4), slice(2, 7)), free=False)
    case("Crop to a reference", {0: 2, 1: 1}, (slice(None), slice(1, 4), slice(2, 7)), [IMAGE, (4, 3, 5)], free=False)
    Case("Slice in three", "Slice", {0: [1, -233, -233], 1: 0}, [(5, 6, 8)], lambda x: [x[:1], x[1:3], x[3:]],
         outputs=3)
    Case("Slice by indices", "Slice", {2: [2, -3], 1: 2}, [IMAGE], lambda x: [x[..., :2], x[..., 2:-3], x[..., -3:]],
         outputs=3, patches=False, free=False)
    Case("Split", "Split", {}, [IMAGE], lambda x: [x, x], outputs=2)


def joins():
    for axis in range(3):
        Case(f"Concat over {axis}", "Concat", {0: axis}, [IMAGE, IMAGE], lambda x, y, a=axis: np.concatenate([x, y], a),
             patches=axis == 0, free=axis == 0)
    Case("Concat of ten", "Concat", {}, [IMAGE] * 2, lambda *x: np.concatenate(x * 5), again=5)


def borders():
    pads = ((0, 0), (1, 2), (3, 0))
    for kind, mode in enumerate(("constant", "edge", "reflect")):
        Case(f"Padding, {mode}", "Padding", {0: 1, 1: 2, 2: 3, 3: 0, 4: kind, 5: 0.5}, [IMAGE],
             lambda x, m=mode: np.pad(x, pads, m, **({"constant_values": 0.5} if m == "constant" else {})),
             patches=False)


def orders():
    def shuffled(x, r, last):
        c, h, w = x.shape
        y = x.reshape(c // r // r, r, r, h, w) if last else x.reshape(r, r, c // r // r, h, w).transpose(2, 0, 1, 3, 4)
        return y.transpose(0, 3, 1, 4, 2).reshape(c // r // r, h * r, w * r)
    for mode in (0, 1):
        Case(f"PixelShuffle, mode {mode}", "PixelShuffle", {0: 2, 1: mode}, [(8, 3, 5)],
             lambda x, m=mode: shuffled(x, 2, m == 0), patches=mode == 0)
    Case("Reorg", "Reorg", {0: 2}, [IMAGE],
         lambda x: x.reshape(4, 3, 2, 4, 2).transpose(0, 2, 4, 1, 3).reshape(16, 3, 4))
    Case("ShuffleChannel", "ShuffleChannel", {0: 2}, [(6, 3, 4)],
         lambda x: x.reshape(2, 3, 3, 4).transpose(1, 0, 2, 3).reshape(6, 3, 4), patches=False)
    Case("ShuffleChannel back", "ShuffleChannel", {0: 2, 1: 1}, [(6, 3, 4)],
         lambda x: x.reshape(3, 2, 3, 4).transpose(1, 0, 2, 3).reshape(6, 3, 4), patches=False)
    for kind, order in enumerate(((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))):
        Case(f"Permute {kind}", "Permute", {0: kind}, [IMAGE], lambda x, o=order: x.transpose(o), patches=kind == 0)
    Case("Permute of a table", "Permute", {0: 1}, [(3, 5)], lambda x: x.T, patches=False, free=False)
    for params, shape in (({0: 192}, (192,)), ({0: 48, 1: 4}, (4, 48)), ({0: 8, 1: -1, 2: 2}, (2, 12, 8)),
                          ({0: 0, 1: 0, 2: -1}, IMAGE)):
        Case(f"Reshape {params}", "Reshape", params, [IMAGE], lambda x, s=shape: x.reshape(s), patches=False,
             free=False)
    Case("Flatten", "Flatten", {}, [IMAGE], lambda x: x.ravel(), patches=False, free=False)
    Case("Squeeze", "Squeeze", {3: [1]}, [(4, 1, 8)], lambda x: x[:, 0], patches=False, free=False)
    Case("ExpandDims", "ExpandDims", {3: [0]}, [(4, 8)], lambda x: x[None], patches=False, free=False)


def taps(out, scale, extent, kind, corners):
    """Weights of one axis, [out, in]; those beyond the edge count for the edge's pixel."""
    weights = np.zeros((out, extent))
    for i in range(out):
        at = i * (extent - 1) / (out - 1) if corners else (i + 0.5) * scale - 0.5
        if kind == 1:
            weights[i, min(int(i * scale), extent - 1)] = 1
            continue
        first = int(np.floor(at))
        t = at - first
        if kind == 2:
            of = [(first, 1 - t), (first + 1, t)]
        else:
            cubic = lambda d, a=-0.75: ((a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1
                                        else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a)
            of = [(first + k, cubic(abs(t - k))) for k in (-1, 0, 1, 2)]
        for where, weight in of:
            weights[i, min(max(where, 0), extent - 1)] += weight
    return weights


def sizes():
    def case(name, kind, to, params, scale=None, corners=0, **how):
        def reference(x):
            down, across = (taps(n, 1 / scale if scale else x.shape[i + 1] / n, x.shape[i + 1], kind, corners)
                            for i, n in enumerate(to))
            return np.einsum("oh,chw,pw->cop", down, x.astype(np.float64), across)
        Case(name, "Interp", {0: kind, **params, 6: corners}, [IMAGE], reference, **how)

    for kind in (1, 2, 3):
        case(f"Interp {kind} by 2", kind, (12, 16), {1: 2.0, 2: 2.0}, 2)
        case(f"Interp {kind} by 0.5", kind, (3, 4), {1: 0.5, 2: 0.5}, 0.5)
        case(f"Interp {kind} by 1.5", kind, (9, 12), {1: 1.5, 2: 1.5}, 1.5)
        case(f"Interp {kind} to a size", kind, (9, 10), {3: 9, 4: 10}, patches=False)
    case("Interp 2 to a size, corners aligned", 2, (11, 15), {3: 11, 4: 15}, corners=1, patches=False)


def data():
    table = numbers(3, 5)
    Case("MemoryData", "MemoryData", {0: 5, 1: 3}, [], lambda: table, raw(table), patches=False, free=False)


cuts()
joins()
borders()
orders()
sizes()
data()
