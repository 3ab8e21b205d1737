"""mixture_vectors.py - small forms of Switch, TaskMoE and SwinV2-MoE, exported, with what eager mode gave.

    python zoo/mixture_vectors.py tests/zoo      writes of each NAME.gguf, NAME.IN.npy, NAME.OUT.npy, NAME.decisions.npz

so that tests without torch have them (tests/test_zoo_mixtures.py). Of decisions it keeps the path of each row (of two,
the lower one; -1: beyond the capacity), by router. Needs what truth.py does.
"""

import os
import sys
import tempfile

import brainstorm
import common
import mixtures
import numpy as np
import torch


def decisions(net, inputs):
    """(what eager mode gives, {router: [rows]})."""
    y, seen = mixtures.watched(net, inputs)
    return y, {name: s.chosen.amin(-1).where(s.scores.amax(-1) > 0, torch.tensor(-1)).numpy().astype(np.int16)
               for name, s in zip(mixtures.names(net), seen)}


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name in ("switch", "taskmoe", "swinmoe"):
        variant = common.variants(name)["small"]
        net, inputs, stem = variant.dynamic(), variant.inputs(), os.path.join(folder, name)
        y, chosen = decisions(net, inputs)
        with tempfile.TemporaryDirectory() as work:
            common.exported(net, inputs, os.path.join(work, "net.onnx"))
            common.written(os.path.join(work, "net.onnx"), f"{stem}.gguf")
        model = brainstorm.open(f"{stem}.gguf")
        for port, array in common.fed(model, inputs).items():
            np.save(f"{stem}.{port}.npy", array)
        (port, made), = model.outputs.items()
        np.save(f"{stem}.{port}.npy", y.numpy().reshape(made.shape))
        np.savez(f"{stem}.decisions.npz", **chosen)
        print(name, {router: np.bincount(rows[rows >= 0]).tolist() for router, rows in chosen.items()})


if __name__ == "__main__":
    main(sys.argv[1])
