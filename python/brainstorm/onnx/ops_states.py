"""ONNX ops of sequences that hand a state on: LinearAttention, CausalConvWithState; SwiGLU."""

import math

import numpy as np

from .ops_attention import heads_apart
from .refused import Refused
from .table import op
from .tensors import Tensor, narrowed


@op("SwiGLU")
def swiglu(n):
    a, m, alpha = n[0], n.m, n.attr("alpha", 1.0)
    gate = m.act("silu", a) if alpha == 1 else m.mul(a, m.act("sigmoid", m.affine(a, alpha)))
    return m.mul(gate, n[1])


@op("CausalConvWithState")
def causal_conv(n):
    x, m = n[0], n.m
    weight = narrowed("a weight", n.constant(1))
    bias = n.constant(2)
    batch, channels, length = x.shape
    kernel = weight.shape[2]
    state = n[3] if n.has(3) else m.array(np.zeros((batch, channels, kernel - 1)), x.dtype)
    padded = m.concat([state, x], 2) if kernel > 1 else x
    value = m.g.conv2d(m.cells(padded, (channels, 1, length + kernel - 1)), m.names.fresh(n.stem), weight[:, :, None],
                       None if bias is None else narrowed("a bias", bias), groups=channels, padding="valid",
                       act="none" if n.attr("activation", "none") == "none" else "silu")
    out = m.of_cells(value, batch, (channels, 1, length), (batch, channels, length), x.dtype)
    if n.wants(1) and kernel == 1:
        raise Refused("a state without elements")
    return [out, m.slice(padded, 2, length, kernel - 1)][:len(n.outputs)] if kernel > 1 else out


@op("LinearAttention")
def linear_attention(n):
    """A loop over the steps: the state [d_k, d_v] of each head decays, is corrected, written and read."""
    m, g, heads, kv = n.m, n.m.g, n.attr("q_num_heads"), n.attr("kv_num_heads")
    rule = n.attr("update_rule", "gated_delta")
    batch, steps = n[0].shape[:2]
    q, k, v = heads_apart(n, n[0], heads), heads_apart(n, n[1], kv), heads_apart(n, n[2], kv)
    d_k, d_v, group, lines = q.shape[3], v.shape[3], heads // kv, batch * kv
    scale = n.attr("scale", 0.0) or 1 / math.sqrt(d_k)
    first = lambda x, *shape: m.reshape(m.transpose(x, (2, 0, 1, 3)), (steps, lines, *shape))
    over = {"k": first(k, d_k, 1), "v": first(v, 1, d_v), "q": first(q, group, d_k)}
    if rule.startswith("gated"):
        parts = n[4].shape[2] // kv
        over["decay"] = first(heads_apart(n, n[4], kv), parts, 1)
    if rule.endswith("delta"):
        beta = heads_apart(n, n[5], n[5].shape[2])
        over["beta"] = first(m.expand(beta, (batch, kv, steps, 1)), 1, 1)
    values = {name: (m.held(x, x.shape), x.shape[1:]) for name, x in over.items()}
    state = n[3] if n.has(3) else m.array(np.zeros((batch, kv, d_k, d_v)), n[0].dtype)
    held = (lines, d_k, d_v)
    loop = g.loop(values["k"][0], m.names.fresh(n.stem), over=values["k"][0])
    carried = g.loop_carry(loop, m.held(state, held))
    now = {name: m.made(g.loop_slice(loop, value), shape) for name, (value, shape) in values.items()}
    after = stepped(m, m.made(carried, held), now)
    read = m.matmul(now["q"], after, scale)
    last = g.loop_next(loop, carried, m.held(after, held))
    every = g.loop_collect(loop, m.held(read, (lines, group, d_v)))
    g.loop_end(loop)
    out = m.made(every, (steps, lines, group, d_v), (steps, batch, heads, d_v))
    out = m.reshape(m.transpose(out, (1, 0, 2, 3)), (batch, steps, heads * d_v))
    last = m.made(last, held, (batch, kv, d_k, d_v))
    return [Tensor(t.shape, x.dtype, forms=t.forms) for t, x in ((out, n[0]), (last, state))][:len(n.outputs)]


def stepped(m, state, now):
    """The state after a step."""
    if "decay" in now:
        state = m.mul(state, m.unary("exp", now["decay"]))
    v = now["v"]
    if "beta" in now:
        found = m.matmul(m.transpose(now["k"], (0, 2, 1)), state)
        v = m.mul(m.sub(v, found), now["beta"])
    return m.add(state, m.mul(now["k"], v))
