"""ONNX Attention and what stands around it: written out in products, a softmax and masks.

The library's own attention is for segments of rows; here all sequences of a batch have one length.
"""

import math

import numpy as np

from .refused import Refused
from .table import op
from .tensors import Tensor


def heads_apart(n, x, heads):
    """[B, S, H D] -> [B, H, S, D]; what has four axes stays."""
    if x.rank == 4:
        return x
    if not heads or x.shape[2] % heads:
        raise Refused(f"{heads} heads of {list(x.shape)}")
    parts = n.m.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    return n.m.transpose(parts, (0, 2, 1, 3))


class Bias:
    """What is added to scores [B, H, S, T]: 0 where a key may be attended to, -infinity where not, or a number."""

    def __init__(self, m):
        self.m, self.total = m, None

    def add(self, t):
        self.total = t if self.total is None else self.m.add(self.total, t)

    def allow(self, condition):
        self.add(self.m.where(condition, self.m.scalar(0.0), self.m.scalar(-np.inf)))


def mask_of(n, mask, steps):
    """A mask, continued to all keys."""
    m, short = n.m, steps - mask.shape[-1]
    if short > 0:
        sides = [[0] * mask.rank, [0] * mask.rank]
        sides[1][-1] = short
        mask = m.pad(mask, *sides, False if mask.dtype == bool else -np.inf)
    return mask


def positions_allowed(n, bias, rows, steps, before, lengths):
    """Causal and window bounds: key j of query i, whose position is i + before."""
    n.m.room(rows * steps)
    m, diff = n.m, np.arange(rows)[:, None] - np.arange(steps)[None]
    bounds = [(0, 1)] if n.attr("is_causal", 0) else []
    bounds += [(n.attr("left_window_size", -1), -1), (n.attr("right_window_size", -1), 1)]
    for bound, side in bounds:
        if bound < 0:
            continue
        if lengths is None:
            allowed = (diff + before <= bound) if side < 0 else (-(diff + before) <= bound)
            bias.allow(m.array(allowed, bool))
            continue
        offset = m.sub(lengths, m.scalar(rows, lengths.dtype))
        place = m.add(offset, m.array(diff.reshape(1, 1, rows, steps), lengths.dtype))
        if side < 0:
            bias.allow(m.pair("less_equal", place, m.scalar(bound, lengths.dtype)))
        else:
            bias.allow(m.pair("greater_equal", place, m.scalar(-bound, lengths.dtype)))


@op("Attention")
def attention(n):
    m, heads, kv_heads = n.m, n.attr("q_num_heads"), n.attr("kv_num_heads")
    if n[0].dtype.name == "bfloat16":
        raise Refused("Attention of bfloat16, whose chances are rounded to bfloat16 on their way")
    flat = n[0].rank == 3
    q, k, v = heads_apart(n, n[0], heads), heads_apart(n, n[1], kv_heads), heads_apart(n, n[2], kv_heads)
    before = n[4].shape[2] if n.has(4) else 0
    k = m.concat([n[4], k], 2) if n.has(4) else k
    v = m.concat([n[5], v], 2) if n.has(5) else v
    (batch, heads, rows, width), kv_heads, steps = q.shape, k.shape[1], k.shape[2]
    if heads % kv_heads:
        raise Refused(f"{heads} heads beside {kv_heads}")
    bias = Bias(m)
    if n.has(3):
        mask = mask_of(n, n[3], steps)
        bias.allow(mask) if mask.dtype == bool else bias.add(m.to_float(mask))
    lengths = m.reshape(n[6], (batch, 1, 1, 1)) if n.has(6) else None
    positions_allowed(n, bias, rows, steps, before, lengths)
    if lengths is not None:
        numbers = m.array(np.arange(steps).reshape(1, 1, 1, steps), lengths.dtype)
        bias.allow(m.pair("greater", m.expand(lengths, (batch, 1, 1, steps)), numbers))
    grouped = lambda x, axis: m.reshape(x, (batch, kv_heads, heads // kv_heads * rows, x.shape[axis]))
    scale = n.attr("scale") or 1 / math.sqrt(width)
    scores = m.matmul(grouped(q, 3), m.transpose(k, (0, 1, 3, 2)), scale)
    scores, raw = m.reshape(scores, (batch, heads, rows, steps)), None
    cap, mode = n.attr("softcap", 0.0), n.attr("qk_matmul_output_mode", 0)
    raw = scores
    if cap:
        scores = m.affine(m.act("tanh", m.affine(scores, 1 / cap)), cap)
    capped, scores = scores, scores if bias.total is None else m.add(scores, bias.total)
    chances = m.softmax(scores, 3)
    if bias.total is not None:  # a row that may attend to nothing gives zeros
        none = m.pair("equal", m.reduce(bias.total, "max", [bias.total.rank - 1]), m.scalar(-np.inf))
        chances = m.where(none, m.scalar(0.0), chances)
    out = m.reshape(m.matmul(grouped(chances, 3), v), (batch, heads, rows, v.shape[3]))
    if flat:
        out = m.reshape(m.transpose(out, (0, 2, 1, 3)), (batch, rows, heads * v.shape[3]))
    if n.wants(3) and cap and mode == 0:
        raise Refused("scores as they are before softcap")
    shown = {0: raw, 1: capped, 2: scores, 3: chances}[mode]
    typed = [m.typed(out, n[0].dtype), m.typed(k, n[1].dtype), m.typed(v, n[2].dtype), m.typed(shown, n[0].dtype)]
    return typed[:len(n.outputs)]


@op("RotaryEmbedding")
def rotary(n):
    x, m, cos, sin = n[0], n.m, n[1], n[2]
    heads, four = n.attr("num_heads", 0), x.rank == 4
    if four:
        x = m.transpose(x, (0, 2, 1, 3))
    elif heads:
        x = m.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))
    else:
        raise Refused("num_heads is missing")
    turning = n.attr("rotary_embedding_dim", 0) or x.shape[3]
    if n.has(3):
        from .ops_index import whole
        places = whole(m, n[3], cos.shape[0])
        look = lambda t: m.reshape(m.select(t, m.reshape(places, (places.size,)), 0), (*places.shape, t.shape[1]))
        cos, sin = look(cos), look(sin)
    cos, sin = [m.reshape(t, (*t.shape[:2], 1, t.shape[2])) for t in (cos, sin)]
    turned, rest = m.slice(x, 3, 0, turning), None
    if turning < x.shape[3]:
        rest = m.slice(x, 3, turning, x.shape[3] - turning)
    half = turning // 2
    if n.attr("interleaved", 0):
        a, b = m.take(turned, range(0, turning, 2), 3), m.take(turned, range(1, turning, 2), 3)
    else:
        a, b = m.slice(turned, 3, 0, half), m.slice(turned, 3, half, half)
    real = m.sub(m.mul(a, cos), m.mul(b, sin))
    imaginary = m.add(m.mul(a, sin), m.mul(b, cos))
    if n.attr("interleaved", 0):
        pairs = [m.reshape(t, (*t.shape, 1)) for t in (real, imaginary)]
        out = m.reshape(m.concat(pairs, 4), (*x.shape[:3], turning))
    else:
        out = m.concat([real, imaginary], 3)
    out = out if rest is None else m.concat([out, rest], 3)
    out = m.transpose(out, (0, 2, 1, 3)) if four else m.reshape(out, n[0].shape)
    return Tensor(out.shape, n[0].dtype, out.array, out.forms)
