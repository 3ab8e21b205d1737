"""Somebody's networks, imported: what they give, and how long they take, in turns with their own runtimes.

    pip install -r bench/peers/requirements.txt      into a virtual environment outside the repository
    make bench-imports ARGS="--cache ~/networks [resnet18 silero ...] [--tier avx2] [--json imports.json]"

A row is one network in one size: f32, one thread, processor time, turns and ratios as in products.py; a peer's column
is its time over ours. `error` is the largest difference from float64 over the largest value of an output, `theirs` the
first peer's, `x` the one over the other. `MB` are all our arenas, and then what opening and running it adds to that
peer's memory at its peak. `ops` is the share of a run that `brainstorm run --time` finds in ops, `rec` what recording
them adds to a run (where the package's extension module is built). Networks are kept in --cache; what is not there is
fetched by pip or exported by --torch, a Python that has torch, torchvision, transformers and onnxscript. A row that
cannot be measured says why.
"""

import argparse
import json
import os
import sys
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, *(os.path.join(here, *parts) for parts in ((os.pardir,), (os.pardir, os.pardir, "python"),
                                                                 (os.pardir, os.pardir, "tests")))]
import import_memory
import import_nets
import import_runs
import import_truth
import turns
from network_ours import Ours as Program

HEAD = (f"{'':28} {'ms':>9} {'onnxruntime':>11} {'ncnn':>6}   {'error':>7} {'theirs':>7} {'x':>5}  {'MB':>7} "
        f"{'theirs':>7} {'ops':>7} {'rec':>7}")


class Prepared:
    """A network that is imported: its file, what goes in and comes out on both sides, and what is right."""

    def __init__(self, net, cache, folder):
        self.net, self.path = net, net.file(cache)
        self.file = os.path.join(folder, "net.gguf")
        (self._ncnn if net.kind == "ncnn" else self._onnx)(cache)

    def _onnx(self, cache):
        from brainstorm.onnx import compare, imported
        net = self.net
        shapes = [f"{name}={','.join(map(str, shape))}" for name, shape in net.shapes.items() if shape]
        result = imported(self.path, shapes=shapes, values=list(net.fixed))
        result.walk.graph.write(self.file)
        self.feeds = compare.random_inputs(result.shapes, 1)
        self.feeds.update({name: a for name, a in net.values.items() if name in self.feeds})
        given = [(p.name, compare.converted(result.walk, p, self.feeds[p.onnx_name])) for p in result.walk.inputs]
        self.ports = given, [(p.name, p.held, import_types()[p.held_dtype]) for p in result.walk.outputs]
        self.feeds.update({name: np.asarray(a) for name, a in result.values.items()})
        self.truth = import_truth.kept(cache, net, self.path, self.feeds,
                                       lambda: import_truth.of_onnx(result.ready, self.feeds))
        self.nodes = len(result.walk.graph.nodes)

    def _ncnn(self, cache):
        from brainstorm.ncnn import import_ncnn
        made = import_ncnn(self.path, self.path[:-6] + ".bin", shapes=dict(self.net.shapes))
        made.graph.write(self.file)
        random = np.random.default_rng(1)
        self.feeds = {name: random.random(shape, np.float32) for name, shape in self.net.shapes.items()}
        self.truth = import_truth.kept(cache, self.net, self.path, self.feeds,
                                       lambda: import_truth.of_ncnn(self.path, self.feeds))
        self.ports = list(self.feeds.items()), [(name, y.shape, np.float32)
                                                for name, y in zip(made.outputs, self.truth)]
        self.nodes = len(made.graph.nodes)

    def peers(self, wanted):
        if self.net.kind == "ncnn":
            return [import_runs.Ncnn(self.path, self.feeds, [o[0] for o in self.ports[1]])] if "ncnn" in wanted else []
        return [import_runs.Onnx(self.path, self.feeds)] if "onnxruntime" in wanted else []

    def error(self, results):
        """The largest of all outputs."""
        errors = [turns.relative_error(np.asarray(y).reshape(t.shape), t) if np.abs(t).max() > 0 else
                  float(np.abs(y).max()) for y, t in zip(results, self.truth)]
        return max(errors)


def import_types():
    from brainstorm.session import TYPES
    return TYPES


def measure(args, program, cache, net, folder):
    ready = Prepared(net, cache, folder)
    ours = import_runs.Ours(program, ready.file, args.tier, ready.ports)
    runners = [ours, *ready.peers(args.peers)]
    row = {"case": net.name, "group": net.group, "small": net.small, "nodes": ready.nodes, "bytes": ours.bytes}
    turns.ratios(row, runners, turns.in_turns(runners, args.turns, args.turn_ms * 1e-3))
    row["allocations"], row["error"] = ours.allocations, ready.error(ours.results())
    for peer in runners[1:]:
        row["theirs"] = ready.error(peer.results())
        row["further"] = row["error"] / max(row["theirs"], 1e-12)
    if not args.quick:
        if runners[1:]:
            row["peak"] = import_memory.peak(runners[1].name, ready.path, ready.feeds, [o[0] for o in ready.ports[1]])
        row["ops"], row["report"] = import_runs.coverage(ready.file, args.tier, ready.ports)
        row["rec"] = import_runs.recording(ready.file, args.tier, ready.ports, args.turns, args.turn_ms * 5e-3)
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        os.replace(ready.file, os.path.join(args.keep, net.name.replace(" ", "_").replace(",", "") + ".gguf"))
    return row


def shown(value, form, scale=1.0):
    return form.format(value * scale) if value is not None else ""


def show(row):
    if "wrong" in row:
        print(f"{row['case']:28} {row['wrong']}", flush=True)
        return
    print(f"{row['case']:28} {row['us'] / 1e3:9.3f} {shown(row.get('onnxruntime'), '{:.3f}'):>11} "
          f"{shown(row.get('ncnn'), '{:.3f}'):>6}   {row['error']:7.1e} {shown(row.get('theirs'), '{:.1e}'):>7} "
          f"{shown(row.get('further'), '{:.2f}'):>5}  {row['bytes'] / 1e6:7.2f} "
          f"{shown(row.get('peak'), '{:.2f}', 1e-6):>7} {shown(row.get('ops'), '{:.1%}'):>7} "
          f"{shown(row.get('rec'), '{:+.2%}'):>7}", flush=True)


def summary(rows):
    for what, some in (("all", rows), ("3x3 of stride 1", [r for r in rows if r.get("small")])):
        best = [min(r[p] for p in ("onnxruntime", "ncnn") if p in r) for r in some
                if any(p in r for p in ("onnxruntime", "ncnn"))]
        if best:
            print(f"{what}: a peer's time over ours: least {min(best):.3f}, geometric mean "
                  f"{np.exp(np.mean(np.log(best))):.3f}")
    counts = {r["allocations"] for r in rows if "allocations" in r}
    print("allocations in our runs: " + ("not counted here" if -1 in counts else str(sum(counts))))
    apart = [r["spread"] for r in rows if r.get("spread")]
    if apart:
        print(f"the middle half of the turns' ratios lies {np.median(apart):.1%} apart (median of rows), "
              f"{max(apart):.1%} at most")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0],
                                     epilog="Groups: " + ", ".join(import_nets.GROUPS) + ".")
    parser.add_argument("words", nargs="*", help="groups, or parts of the names of networks")
    parser.add_argument("--cache", help="the folder of networks, outside the repository")
    parser.add_argument("--torch", default=sys.executable, help="the Python that exports [this one]")
    parser.add_argument("--tier", default="auto", help="auto (the best here), avx2, avx512, neon, scalar")
    parser.add_argument("--peers", default="onnxruntime,ncnn", help="with commas; empty: none")
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--turn-ms", type=float, default=20, help="of each in a turn, one run at least [20]")
    parser.add_argument("--quick", action="store_true", help="without memory, --time and the cost of recording")
    parser.add_argument("--list", action="store_true", help="the networks")
    parser.add_argument("--keep", help="a folder for our files")
    parser.add_argument("--json", help="a file for all figures, and what --time printed")
    args = parser.parse_args()
    args.peers = [p for p in args.peers.split(",") if p]
    for word in args.words:
        if not list(import_nets.nets([word])):
            parser.error(f"neither a group nor a part of a network's name: {word}")
    if not args.cache and not args.list:
        parser.error("--cache FOLDER: where networks are kept")
    return args


def main():
    args = arguments()
    if args.list:
        print("\n".join(f"{net.group:10} {net.name}" for net in import_nets.nets(args.words)))
        return 0
    args.peers, versions = turns.installed(args.peers)
    program, cache, rows = Program(), import_nets.Cache(args.cache, args.torch), []
    nets = list(import_nets.nets(args.words))
    print(f"{turns.processor()}; load {os.getloadavg()[0]:.1f}\n"
          f"tier {args.tier}, 1 thread, {args.turns} turns, processor time; a peer's column: its time / ours")
    print(versions)
    print(HEAD)
    progress = turns.Progress(len(nets))
    with tempfile.TemporaryDirectory() as folder:
        for net in nets:
            progress.now(net.name)
            try:
                row = measure(args, program, cache, net, folder)
            except (Exception, SystemExit) as why:  # of importers, peers and exporters, of many kinds: the row tells
                row = {"case": net.name, "group": net.group, "wrong": f"{type(why).__name__}: {str(why)[:400]}"}
                program = program if program.process.poll() is None else Program()
            rows.append(row)
            show(row)
            if args.json:
                with open(args.json, "w") as f:
                    json.dump({"processor": turns.processor(), "tier": args.tier, "peers": versions, "rows": rows}, f,
                              indent=1)
    program.end()
    summary(rows)
    return 1 if any("wrong" in r for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
