"""What markers and com.microsoft.MoE compute, for onnx.reference. Of a marker every path has been computed for every
row, and one is taken."""

import numpy as np
from onnx.reference.op_run import OpRun


class Routed(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, score, *made, k=1, normalise=0, weighted=1, capacity=0):
        chosen = np.argsort(-score, axis=-1, kind="stable")[:, :k]
        rows = np.arange(len(score))[:, None]
        gates = score[rows, chosen]
        gates = gates / gates.sum(-1, keepdims=True) if normalise else gates
        chosen = within(chosen, gates, capacity, len(made)) if capacity else chosen
        y = np.zeros_like(made[0])
        for place in range(k):
            for path, of_path in enumerate(made):
                here = chosen[:, place] == path
                gate = gates[here, place].reshape(-1, *[1] * (y.ndim - 1)) if weighted else 1
                y[here] += of_path[here] * gate
        return (y,)


class Gated(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, score, *made, threshold=0.0, weighted=1, fallback=0, otherwise=0):
        chosen = score > np.float32(threshold)
        if fallback:
            chosen[:, fallback - 1] |= ~chosen.any(-1)
        spread = lambda share: share.reshape(-1, *[1] * (made[-1].ndim - 1))
        if otherwise:
            return (np.where(spread(chosen[:, 0]), made[1], made[0]),)
        y = np.zeros_like(made[0])
        for path, of_path in enumerate(made):
            here = chosen[:, path]
            y[here] += of_path[here] * (spread(score[here, path]) if weighted else 1)
        return (y,)


def within(chosen, gates, capacity, paths):
    """Choices, -1 for those beyond the capacity: of first choices, then of second ones, the highest gates are kept."""
    chosen, taken = chosen.copy(), np.zeros(paths, int)
    for place in range(chosen.shape[1]):
        for row in np.argsort(-gates[:, place], kind="stable"):
            path = chosen[row, place]
            taken[path] += 1
            if taken[path] > capacity:
                chosen[row, place] = -1
    return chosen


class Exit(OpRun):
    op_domain = "brainstorm"

    def _run(self, *given, threshold=0.9, flows=1):
        confidence, early, rest = given[flows:]
        leaves = np.reshape(confidence, -1) >= np.float32(threshold)
        return (np.where(leaves.reshape(-1, *[1] * (rest.ndim - 1)), early, rest),)


class Patches(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, y, size=64):
        return (y,)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTS = {"relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * sigmoid(x), "identity": lambda x: x,
        "gelu": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))}


class MoE(OpRun):
    """By its definition, row after row."""

    op_domain = "com.microsoft"

    def _run(self, x, router, fc1, b1, fc2, b2=None, fc3=None, b3=None, k=1, activation_type="relu",
             normalize_routing_weights=0, use_sparse_mixer=0, swiglu_fusion=0, swiglu_limit=np.inf,
             activation_alpha=1.0, activation_beta=0.0):
        rows, y = x.reshape(-1, x.shape[-1]), np.zeros((x.size // x.shape[-1], fc2.shape[1]), np.float64)
        shares = np.exp(router.astype(np.float64) - router.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        layer = lambda w, b, e, v: w[e].astype(np.float64) @ v + (0 if b is None else b[e])
        for row, share in enumerate(shares):
            best = np.argsort(-share, kind="stable")[:k]
            gates = share[best] / (share[best].sum() if normalize_routing_weights else 1)
            for e, gate in zip(best, gates):
                hidden = layer(fc1, b1, e, rows[row])
                third = None if fc3 is None else layer(fc3, b3, e, rows[row])
                if activation_type == "swiglu":
                    parts = hidden, third
                    parts = (hidden[::2], hidden[1::2]) if swiglu_fusion == 1 else parts
                    g, v = np.split(hidden, 2) if swiglu_fusion == 2 else parts
                    g, v = np.minimum(g, swiglu_limit), np.clip(v, -swiglu_limit, swiglu_limit)
                    hidden = g * sigmoid(activation_alpha * g) * (v + activation_beta)
                else:
                    hidden = ACTS[activation_type](hidden) * (1 if third is None else third)
                y[row] += gate * layer(fc2, b2, e, hidden)
        return (y.astype(x.dtype).reshape(x.shape),)


OPS = [Routed, Gated, Exit, Patches, MoE]
