"""make_vectors.py - writes tests/zoo: the small variant of each network as torch exported it, with inputs, and what
eager mode gave and decided, so that tests without torch have them.

    python zoo/make_vectors.py [NAME...]

Needs torch and onnxscript.
"""

import os
import sys

import common
import numpy as np
import torch

FOLDER = os.path.join(common.HERE, "..", "tests", "zoo")


def stripped(path):
    """Without what torch writes of this machine, but for the names of modules."""
    import onnx

    model = onnx.load(path)
    for holder in [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output,
                   *model.graph.value_info, *model.graph.initializer]:
        kept = [(e.key, e.value) for e in holder.metadata_props if e.key == "pkg.torch.onnx.name_scopes"]
        del holder.metadata_props[:]
        for key, value in kept:
            holder.metadata_props.add(key=key, value=value)
    del model.graph.value_info[:]
    onnx.save(model, path)


def main(names):
    torch.set_num_threads(1)
    os.makedirs(FOLDER, exist_ok=True)
    for name in names or common.IMAGES:
        variant = common.variants(name)["small"]
        net, (inputs, rows) = variant.dynamic(), common.tried(variant)
        y, counts = common.decisions(net, inputs)
        path = os.path.join(FOLDER, f"{name}.onnx")
        common.exported(net, inputs, path, rows=rows)
        stripped(path)
        given = {f"in{n}": x.numpy() for n, x in enumerate(inputs)}
        decided = {f"of {module}": np.array(count) for module, count in counts.items() if count is not None}
        np.savez(os.path.join(FOLDER, f"{name}.npz"), y=y.numpy(), rows=np.array(rows), **given, **decided)
        print(name, os.path.getsize(path), "bytes;", {key: c.tolist() for key, c in decided.items()})


if __name__ == "__main__":
    main(sys.argv[1:])
