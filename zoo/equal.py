"""equal.py - a mixture of the zoo, exported, beside eager mode and float64: errors, decisions, bytes.

    python zoo/equal.py switch small --folder /tmp

Values are compared with what float64 gives under the same decisions; of decisions that differ it tells how many they
are, and how far float64 was from them. Needs torch, onnxscript and the brainstorm package with its extension module;
leaves NAME.VARIANT.onnx and .gguf in the folder. Ends with 1 where the error is more than 2 times PyTorch's own.
"""

import argparse
import os
import sys

import mixtures
import numpy as np
import torch

MOST = 2.0    # times PyTorch's error
NEAR = 1e-5   # of scores: so close may decide otherwise,
FEW = 0.001   # and for so many rows


def exported(net, inputs, path):
    import logging
    import warnings
    logging.disable(logging.WARNING)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, tuple(inputs), dynamo=True, opset_version=20, verbose=False,
                          output_names=["y"]).save(path)


def imported(path, out):
    from brainstorm.onnx import imported
    imported(path).walk.graph.write(out)


def fed(model, inputs):
    return {name: x.numpy().astype(port.numpy_dtype) for (name, port), x in zip(model.inputs.items(), inputs)}


class Ours:
    """One run of a file."""

    def __init__(self, path, inputs, **plan):
        import brainstorm
        self.model = brainstorm.open(path)
        self.plan = self.model.plan(**plan)
        with self.plan.session() as session:
            made = session.run(fed(self.model, inputs))
            self.decisions = {name: session.decision(name) for name in self.model.routers}
            self.streamed = session.stream_stats if plan.get("slots") else None
        self.y = next(iter(made.values()))


def error(made, wanted):
    """Root mean square and largest, in parts of the largest magnitude."""
    wanted = wanted.numpy()
    apart = np.abs(np.asarray(made, np.float64).reshape(wanted.shape) - wanted) / np.abs(wanted).max()
    return float(np.sqrt(np.mean(apart**2))), float(apart.max())


def compared(net, inputs, y, chosen):
    """((rms, largest), rows decided otherwise, of how many, margin)."""
    wanted, seen = mixtures.double(net, inputs, chosen)
    rows = sum(len(s.scores) for s in seen)
    return error(y, wanted), sum(s.apart for s in seen), rows, max(s.margin for s in seen)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("name", choices=["switch", "taskmoe", "swinmoe"])
    words.add_argument("variant", nargs="?", default="small")
    words.add_argument("--folder", default="/tmp")
    words.add_argument("--again", action="store_true", help="with the files that are there")
    args = words.parse_args()
    torch.set_num_threads(1)
    variant = mixtures.loaded(args.name, "setup").VARIANTS[args.variant]
    inputs, plain = variant.inputs(), variant.plain()
    net = variant.dynamic(plain)
    stem = os.path.join(args.folder, f"{args.name}.{args.variant}".replace(" ", "_"))
    if not args.again:
        exported(net, inputs, f"{stem}.onnx")
        imported(f"{stem}.onnx", f"{stem}.gguf")
    with torch.no_grad():
        y = plain(*inputs)
    marked, seen = mixtures.watched(net, inputs)
    print(f"plain and with markers, in eager mode: {float((y - marked).abs().max()):.3g} apart")
    theirs = compared(net, inputs, y, [s.chosen[:, 0] for s in seen])
    ours = Ours(f"{stem}.gguf", inputs)
    chosen = [torch.from_numpy(ours.decisions[name].chosen.astype(np.int64)) for name in mixtures.names(net)]
    mine = compared(net, inputs, ours.y, chosen)
    for who, (apart, other, rows, margin) in (("PyTorch", theirs), ("ours", mine)):
        print(f"{who}: error {apart[0]:.3g} rms, {apart[1]:.3g} at most; {other} of {rows} rows decided otherwise than "
              f"float64, by {margin:.2g} at most")
    for name, d in ours.decisions.items():
        print(f"  {name}: rows of each path {d.counts.tolist()}, {d.dropped} dropped")
    print(f"bytes: {ours.plan.bytes}")
    good = mine[0][1] <= MOST * theirs[0][1] and mine[1] <= FEW * mine[2] and mine[3] <= NEAR
    print("equal" if good else "NOT equal")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
