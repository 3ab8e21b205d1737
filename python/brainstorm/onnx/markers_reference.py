"""What markers compute, for onnx.reference: every path has been computed for every row, and one is taken."""

import numpy as np
from onnx.reference.op_run import OpRun


class Routed(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, score, *made, k=1, normalise=0, weighted=1):
        chosen = np.argsort(-score, axis=-1, kind="stable")[:, :k]
        rows = np.arange(len(score))[:, None]
        gates = score[rows, chosen]
        gates = gates / gates.sum(-1, keepdims=True) if normalise else gates
        y = np.zeros_like(made[0])
        for place in range(k):
            for path, of_path in enumerate(made):
                here = chosen[:, place] == path
                gate = gates[here, place].reshape(-1, *[1] * (y.ndim - 1)) if weighted else 1
                y[here] += of_path[here] * gate
        return (y,)


class Exit(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, confidence, early, rest, threshold=0.9):
        leaves = np.reshape(confidence, -1) >= np.float32(threshold)
        return (np.where(leaves.reshape(-1, *[1] * (rest.ndim - 1)), early, rest),)


class Patches(OpRun):
    op_domain = "brainstorm"

    def _run(self, x, y, size=64):
        return (y,)


OPS = [Routed, Exit, Patches]
