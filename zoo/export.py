"""export.py - files of the zoo with inputs and results beside them, for `brainstorm run` here or on another machine.

    python zoo/export.py --folder build/zoo livesr:10/8 msdnet:spread switch:small

Writes of each NAME.VARIANT.gguf, an .npy of each input and of what our plan gives on the CPU (of PyTorch in eager mode
where the package has no extension module here), and in LIST the options of `brainstorm run` for it with its bytes and
the seconds that torch.export and the import took. Without names: the small variant of all six. Needs torch and
onnxscript. Must never leave half a file: those that are there are taken as they are.
"""

import argparse
import inspect
import os
import sys
import time

import common
import numpy as np
import torch

TOLERANCE = 2e-5  # of the largest magnitude: another order of sums, on another device, stays within it


def results(model, inputs):
    """(fed, {output: array}) of our CPU plan."""
    fed = common.fed(model, inputs)
    with model.plan().session() as session:
        return fed, {name: np.array(y) for name, y in session.run(fed).items()}


def in_eager_mode(net, inputs):
    """The same where nothing of ours runs."""
    names = inspect.signature(net.forward).parameters
    fed = {name: x.numpy().astype(np.float32 if x.is_floating_point() else np.int32) for name, x in zip(names, inputs)}
    return fed, {"y": common.eager(net, inputs).numpy()}


def saved(name, variant, folder):
    """The line of LIST."""
    made = common.variants(name)[variant]
    started = time.perf_counter()
    net, inputs = made.dynamic(), made.inputs()
    built = time.perf_counter() - started
    path = common.file_of(name, variant, lambda: net, folder)
    took = time.perf_counter() - started - built
    try:
        import brainstorm
        model = brainstorm.open(path)
    except ImportError:
        fed, y = in_eager_mode(net, inputs)
    else:
        fed, y = results(model, inputs)
    stem, words = path[:-len(".gguf")], [os.path.basename(path)]
    for kind, arrays in (("--input", fed), ("--compare", y)):
        for port, array in arrays.items():
            np.save(f"{stem}.{port}.npy", array)
            words += [kind, f"{port}={os.path.basename(stem)}.{port}.npy"]
    words += ["--tolerance", f"{TOLERANCE:g}"]
    return f"{' '.join(words)}  # {os.path.getsize(path)} bytes; made in {built:.0f} s, exported in {took:.0f} s"


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("networks", nargs="*", metavar="NETWORK:VARIANT")
    words.add_argument("--folder", default=common.FOLDER)
    args = words.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    for word in args.networks or [f"{name}:small" for name in common.NAMES]:
        line = saved(*common.named(word), args.folder)
        print(line, flush=True)
        with open(os.path.join(args.folder, "LIST"), "a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    sys.exit(main())
