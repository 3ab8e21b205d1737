"""The ops that kernels compute, as methods of a graph (graph.py), each the twin of a builder function: those that have
more than operands and numbers. (The others: plain.py.)"""

import functools

import numpy as np

from .file import STORED, stored_array
from .lists import ACTS, CENTRES, DTYPES, POOLS, REDUCES, RESIZES, UPDATES
from .ops import MAX_CONCAT, axes_of, gates_each, number_of, one_each, padding_of, reshaped, within
from .plain import Plain


class Kernels(Plain):
    def _activation(self, act, prelu=None):
        number = number_of(ACTS, "prelu" if prelu is not None else act, "activation")
        if number == ACTS["prelu"] and prelu is None:
            raise ValueError("prelu has slopes: a layer's argument prelu, or the op prelu")
        return number

    def conv2d(self, x, name, weight, bias=None, stride=0, pad=0, dilation=0, groups=0, batch_norm=None, act="none",
               act_param=0.0, prelu=None, padding="default"):
        """weight: [out, in / groups, kh, kw]. batch_norm: {"weight", "bias", "mean", "var"}. stride, dilation: a number
        or (down, across). padding: "default" keeps the size at stride 1, "valid" is none, "explicit" reads pad:
        PyTorch's padding=p is padding="explicit", pad=p, with p a number or (down, across); or pad is what ONNX has,
        (top, left, bottom, right)."""
        out, _, kernel_h, kernel_w = np.shape(weight)
        if groups > 0 and out % groups != 0:
            raise ValueError(f"conv2d {name!r}: {out} channels are not divisible by {groups} groups")
        norm = {f"bn.{key}": array for key, array in (batch_norm or {}).items()}
        each = one_each(name, out, {"bias": bias, **norm, "prelu": prelu})
        return self.node("conv2d", [x], name, {"weight": weight, **each}, out=out, kernel_h=kernel_h, kernel_w=kernel_w,
                         groups=groups, no_bias=bias is None, batch_norm=batch_norm is not None,
                         act=self._activation(act, prelu), act_param=act_param, **axes_of("stride", stride),
                         **axes_of("dilation", dilation), **padding_of(padding, pad))

    def conv1d(self, x, name, weight, bias=None, stride=1, pad=0, dilation=1, padding="default", **fields):
        """Of [C, L]. weight: [out, in / groups, k]; pad: a number or (left, right); what else conv2d has."""
        out, inputs, kernel = np.shape(weight)
        side = dilation * (kernel - 1) // 2
        padding_of(padding, pad)
        left, right = np.broadcast_to(side if padding == "default" else pad, 2).tolist()
        y = self.reshape(x, ["a0", 1, "a1"])
        y = self.pad(y, left=left, right=right) if left or right else y
        y = self.conv2d(y, name, np.reshape(weight, (out, inputs, 1, kernel)), bias, (1, stride), 0, (1, dilation),
                        padding="valid", **fields)
        return self.reshape(y, ["a0", "a2"])

    def pool1d(self, x, kind="average", kernel=2, stride=0, pad=0, padding="default", **fields):
        """Of [C, L]. pad: a number or (left, right); what else pool2d has."""
        left, right = np.broadcast_to(pad, 2).tolist()
        y = self.pool2d(self.reshape(x, ["a0", 1, "a1"]), kind, (1, kernel), (1, stride), (0, left, 0, right),
                        padding=padding, **fields)
        return y if fields.get("everything") else self.reshape(y, ["a0", "a2"])

    def deconv2d(self, x, name, weight, bias=None, stride=0, pad=0, output_pad=0, act="none", act_param=0.0, prelu=None,
                 padding="default"):
        """weight: [in, out, k, k]. padding: by default none, "explicit" reads pad."""
        _, out, kernel, width = np.shape(weight)
        if kernel != width:
            raise ValueError(f"deconv2d {name!r}: a kernel of {kernel} x {width}, expected a square one")
        if output_pad >= (stride or 1):
            raise ValueError(f"deconv2d {name!r}: output_pad {output_pad} is not below stride {stride or 1}")
        each = one_each(name, out, {"bias": bias, "prelu": prelu})
        return self.node("deconv2d", [x], name, {"weight": weight, **each}, out=out, kernel=kernel, stride=stride,
                         output_pad=output_pad, no_bias=bias is None,
                         act=self._activation(act, prelu), act_param=act_param, **padding_of(padding, pad, 255))

    def linear(self, x, name, weight, bias=None, act="none", act_param=0.0, prelu=None):
        """weight: [out, in]."""
        out, _ = np.shape(weight)
        each = one_each(name, out, {"bias": bias, "prelu": prelu})
        return self.node("linear", [x], name, {"weight": weight, **each}, out=out, no_bias=bias is None,
                         act=self._activation(act, prelu), act_param=act_param)

    def lstm(self, x, h, c, name, weight_ih, weight_hh, bias_ih=None, bias_hh=None):
        """The new h and c. Weights as of PyTorch's LSTMCell; weight_ih None: x is its product, with its bias."""
        weights = gates_each(name, 4, weight_ih, weight_hh, bias_ih, bias_hh)
        return self.node("lstm", [x, h, c], name, weights, no_bias=bias_hh is None, projected=weight_ih is None)

    def gru(self, x, h, name, weight_ih, weight_hh, bias_ih=None, bias_hh=None):
        """The new h. Weights as of PyTorch's GRUCell; weight_ih None: x is its product, with its bias."""
        weights = gates_each(name, 3, weight_ih, weight_hh, bias_ih, bias_hh)
        return self.node("gru", [x, h], name, weights, no_bias=bias_hh is None, projected=weight_ih is None)

    def activation(self, x, act, param=0.0):
        return self.node("activation", [x], act=self._activation(act), param=param)

    def prelu(self, x, name, slopes):
        return self.node("prelu", [x], name, {"prelu": slopes})

    def clip(self, x, low, high):
        if not low <= high:
            raise ValueError(f"clip: low {low} is not <= high {high}")
        return self.node("clip", [x], low=low, high=high)

    def concat(self, values, axis):
        within("the number of values", len(values), 1, MAX_CONCAT)
        return self.node("concat", values, axis=axis)

    def slice(self, x, axis, start, length):
        return self.node("slice", [x], axis=axis, start=start, length=length)

    def roll(self, x, axis, shift):
        return self.node("roll", [x], axis=axis, shift=shift)

    def reshape(self, x, shape):
        """shape: constants; "a" followed by a number, such as "a1", copies that dimension of x; -1: what is left."""
        codes = [reshaped(d) for d in shape]
        if any(codes.count(code) > 1 for code in codes if code < 0):
            raise ValueError(f"reshape: a dimension is taken twice in {list(shape)}")
        return self.node("reshape", [x], rank=len(codes), **{f"dim{i}": code for i, code in enumerate(codes)})

    def transpose(self, x, order=()):
        if sorted(order) != list(range(len(order))):
            raise ValueError(f"transpose: order {list(order)}, expected each of 0 .. {len(order) - 1} once")
        return self.node("transpose", [x], **{f"order{i}": axis for i, axis in enumerate(order)})

    def layer_norm(self, x, name, weight, bias, epsilon=0.0):
        each = one_each(name, np.size(weight), {"weight": weight, "bias": bias})
        return self.node("layer_norm", [x], name, each, epsilon=epsilon)

    def rms_norm(self, x, name, weight, epsilon=0.0):
        return self.node("rms_norm", [x], name, one_each(name, np.size(weight), {"weight": weight}), epsilon=epsilon)

    def batch_norm(self, x, name, weight, bias, mean, var, epsilon=0.0):
        each = one_each(name, np.size(weight), {"weight": weight, "bias": bias, "mean": mean, "var": var})
        return self.node("batch_norm", [x], name, each, epsilon=epsilon)

    def pool2d(self, x, kind="average", kernel=0, stride=0, pad=0, everything=0, count_pad=0, padding="default",
               dilation=(0, 0)):
        """everything: 1 for one value a channel (the descriptor's `global`). kernel, stride, dilation: a number or
        (down, across). padding: by default none, "explicit" reads pad, as of conv2d."""
        fields = padding_of(padding, pad)
        for i, (size, apart) in enumerate(zip(np.broadcast_to(kernel, 2), np.broadcast_to(dilation, 2))):
            for side in np.ravel(pad)[i::2] if np.ndim(pad) else [pad]:
                within("pad", side, 0, ((size or 2) - 1) * (apart or 1))
        return self.node("pool2d", [x], kind=number_of(POOLS, kind, "pool"), count_pad=count_pad,
                         **axes_of("kernel", kernel), **axes_of("stride", stride),
                         **axes_of("dilation", np.broadcast_to(dilation, 2)), **fields, **{"global": everything})

    def resize(self, x, kind="bicubic", factor=2, cubic_a=0.0, code_bits=0, den=0, height=0, width=0,
               centres="half_pixel", antialias=0):
        within("factor", factor, 0, min(16 * (den or 1), 2**15))
        return self.node("resize", [x], kind=number_of(RESIZES, kind, "resize"), factor=factor, cubic_a=cubic_a,
                         code_bits=code_bits, den=den, height=height, width=width,
                         centres=number_of(CENTRES, centres, "kind of centres"), antialias=antialias)

    def reduce(self, x, kind, axis, keep=0, axes=0):
        """axes: how many dimensions, from `axis` on; 0 is one."""
        return self.node("reduce", [x], kind=number_of(REDUCES, kind, "reduction"), axis=axis, keep=keep, axes=axes)

    def topk(self, x, k):
        """Values and indices."""
        return self.node("topk", [x], k=k)

    def gather_rows(self, table, indices):
        return self.node("gather_rows", [indices, table])  # stored so: what may be captured comes last

    def select(self, x, indices, axis=0, op="select"):
        return self.node(op, [x, indices], axis=axis)
    gather_elements = functools.partialmethod(select, op="gather_elements")

    def scatter_elements(self, x, indices, updates, axis=0, update="write", op="scatter_elements"):
        return self.node(op, [x, indices, updates], axis=axis, update=number_of(UPDATES, update, "update"))
    scatter_rows = functools.partialmethod(scatter_elements, op="scatter_rows")

    def arange(self, limit, maximum, start=None, step=None, name=""):
        """start, start + step, ... below limit, `maximum` of them at most: values with one element, f32 or i32. A step
        wants a start. name: of the dimension as well."""
        operands = [limit, start, step]
        while operands[-1] is None:
            operands.pop()
        if None in operands:
            raise ValueError(f"arange {name!r} has a step, and no start")
        return self.node("arange", operands, name, maximum=maximum)

    def nonzero(self, x, maximum=0, name=""):
        """The indices of all elements that are not 0, `maximum` at most (0: as many as x has)."""
        return self.node("nonzero", [x], name, maximum=maximum)

    def unique(self, x, maximum=0, name=""):
        """The different elements in rising order, where each comes first, which one stands at each place of x, and how
        often each is there."""
        return self.node("unique", [x], name, maximum=maximum)

    def nms(self, boxes, scores, maximum=0, max_each=0, iou_threshold=0, score_above=0, centre=0, name=""):
        """Of boxes [B, N, 4] that overlap those with the best scores [B, C, N]: rows of batch, class, box."""
        if not 0 <= iou_threshold <= 1:
            raise ValueError(f"nms {name!r}: iou_threshold is {iou_threshold}, expected 0 .. 1")
        return self.node("nms", [boxes, scores], name, maximum=maximum, max_each=max_each,
                         iou_threshold=iou_threshold, score_above=score_above, centre=centre)

    def constant(self, name, array):
        """f32 or i32; its weight has the constant's own name."""
        stored = stored_array(name, array)
        dims = {f"dim{i}": n for i, n in enumerate(stored.shape)}
        dtype = STORED[stored.dtype.newbyteorder("=")]
        if not name or dtype not in ("f32", "i32"):
            raise ValueError(f"constant {name!r} is {dtype}, expected f32 or i32 and a name")
        return self.node("constant", (), name, {"": stored}, dtype=DTYPES[dtype], rank=stored.ndim, **dims)

    def patch_features(self, cells, reference=None, buckets=0, code_bits=0):
        if buckets == 1 or 0 < code_bits < 8:
            raise ValueError(f"patch_features: {buckets} buckets of {code_bits} bits, expected 2 or more of 8 or more")
        return self.node("patch_features", [cells] if reference is None else [cells, reference], buckets=buckets,
                         code_bits=code_bits)
