"""Products, what stands between them, convolutions and whole networks, in turns by brainstorm and by its peers.

    pip install -r bench/peers/requirements.txt      into a virtual environment outside the repository
    make bench-products [ARGS="--only gemm,bert --tier avx2 --peers onnxruntime,torch --turns 31 --json products.json"]

A case is one graph of 64 (large ones: fewer) ops with an input and an output of its own each, all bound, and the same
weights; or a whole network. A turn runs everyone once, one after the other, for some milliseconds, on one thread; a
ratio is the median over turns of (theirs / ours) within a turn, above 1 where ours is faster, so that other work on the
machine strikes all. Time is the processor's. `limit` is the shortest time that the multiply-add peak allows, or the
bytes of the weights, or, where nothing is multiplied, those of input and output; each is measured beside the row, and
`share` is the limit over our time. `error` is the largest difference from float64 over the largest value; `theirs` is
PyTorch's. `MB` are all our arenas. Peers that are not installed are named and left out.
"""

import argparse
import json
import os
import sys
from dataclasses import dataclass

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..")]
import luma
import network_cases
import product_cases
import product_server
import turns


@dataclass
class Suite:
    """What one program measures by the machinery of this file."""
    doc: str
    groups: list
    knows: object    # of a word that is no group: whether a case, or a tiny one, has it in its name
    rows_of: object  # of a run and the words given: (group, row), one after the other
    peers: tuple = tuple(turns.PEERS)
    columns: tuple = ()  # of ratios, behind those of the peers


def open_peers(run, case, inputs, weights):
    peers = []
    if "onnxruntime" in run.peers:
        from product_onnx import OnnxCase
        peers.append(OnnxCase(case, inputs, weights, run.file("product.onnx")))
    if "torch" in run.peers:
        from product_torch import TorchCase
        peers.append(TorchCase(case, inputs, weights))
    if "openblas" in run.peers and case.kind == "linear":
        peers.append(run.blas().open(case, inputs, weights))
    if "ncnn" in run.peers and case.kind == "conv":
        from product_ncnn import NcnnCase
        peers.append(NcnnCase(case, inputs, weights, run.file("product")))
    return peers


class Run:
    """What the command line asked for, and our programs."""

    def __init__(self, args):
        self.tier, self.turns, self.seconds, self.tiny = args.tier, args.turns, args.turn_ms * 1e-3, args.tiny
        self.peers, self.versions = turns.installed(args.peers)
        self.folder = os.path.join(luma.build_dir(), "bench")
        os.makedirs(self.folder, exist_ok=True)
        self.products = product_server.Products()
        if self.tier == "auto":
            self.tier = self.products.tier()
        self.limits = turns.Limits(self.products, self.tier)
        self._networks = self._blas = None
        if "openblas" in self.peers:
            self.versions = self.versions.replace("openblas", f"openblas (its kernels: {self.blas().kernel})")

    def networks(self):
        """Our program for whole networks."""
        if self._networks is None:
            from network_ours import Ours
            self._networks = Ours()
        return self._networks

    def blas(self):
        """OpenBLAS."""
        if self._blas is None:
            from product_blas import Blas
            self._blas = Blas()
        return self._blas

    def file(self, name):
        return os.path.join(self.folder, name)

    def end(self):
        self.products.end()
        for program in (self._networks, self._blas):
            if program:
                program.end()


def measure(run, case):
    noise = np.random.default_rng(1)
    inputs, weights = case.inputs(noise), case.weights(noise)
    ours = run.products
    arenas = ours.open(case, run.tier, inputs, weights)
    runners = [ours, *open_peers(run, case, inputs, weights)]
    truth = case.definition(inputs[0].astype(np.float64), {k: w.astype(np.float64) for k, w in weights.items()})
    row = {"case": case.name, "flops": case.flops, "elements": case.elements, "arenas": arenas}
    turns.ratios(row, runners, turns.in_turns(runners, run.turns, run.seconds) / case.count)
    row["error"], row["allocations"] = turns.relative_error(ours.result(0), truth), ours.allocations
    for r in runners[1:]:
        if r.name == "torch":
            row["theirs"] = turns.relative_error(r.result(0), truth)
    moved = 0 if case.flops else 8 * case.elements
    row["limit"] = run.limits.us(case.flops, *case.reads(weights), moved, moved * case.count)
    ours.close()
    return row


def rows_of(run, only):
    """(group, row), one after the other."""
    cases = list(product_cases.cases(only, run.tiny))
    families = [f for f in network_cases.FAMILIES if not only or f in only]
    progress = turns.Progress(len(cases) + len(families))
    for group, case in cases:
        progress.now(case.name)
        yield group, measure(run, case)
    for family in families:
        progress.now(family)
        for row in network_cases.FAMILIES[family](run):
            yield family, row


SUITE = Suite(__doc__, [*product_cases.GROUPS, *network_cases.FAMILIES],
              lambda word, tiny: list(product_cases.cases([word], tiny)), rows_of)


def summary(rows, peers):
    rows = [(g, r) for g, r in rows if "wrong" not in r]
    for group in dict(rows):
        best = [min(r[p] for p in peers if p in r) for g, r in rows if g == group and any(p in r for p in peers)]
        if best:
            print(f"{group}: the fastest peer's time over ours: least {min(best):.3f}, "
                  f"geometric mean {np.exp(np.mean(np.log(best))):.3f}")
    counts = {r["allocations"] for _, r in rows}
    print("allocations in our runs: " + ("not counted here" if -1 in counts else str(sum(counts))))
    apart = [r["spread"] for _, r in rows if r["spread"]]
    if apart:
        print(f"the middle half of the turns' ratios lies {np.median(apart):.1%} apart (median of rows), "
              f"{max(apart):.1%} at most")


def arguments(suite):
    parser = argparse.ArgumentParser(description=suite.doc.split("\n")[0],
                                     epilog="Groups: " + ", ".join(suite.groups) + ".")
    parser.add_argument("words", nargs="*", help="groups, or parts of the names of cases")
    parser.add_argument("--only", default="", help="the same, with commas between them")
    parser.add_argument("--tier", default="auto", help="auto (the best here), avx2, avx512, neon, scalar")
    parser.add_argument("--peers", default=",".join(suite.peers), help="with commas; empty: none")
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--turn-ms", type=float, default=4, help="of each in a turn, one run at least [4]")
    parser.add_argument("--tiny", action="store_true", help="small shapes: whether it works, not how fast it is")
    parser.add_argument("--json", help="a file for all figures")
    args = parser.parse_args()
    args.only = [w for w in [*args.words, *args.only.split(",")] if w]
    args.peers = [p for p in args.peers.split(",") if p]
    for peer in args.peers:
        if peer not in suite.peers:
            parser.error(f"no peer is called {peer}: {', '.join(suite.peers)}")
    for word in args.only:
        if word not in suite.groups and not suite.knows(word, args.tiny):
            parser.error(f"neither a group nor a part of a case's name: {word}")
    return args


def main(suite=SUITE):
    args = arguments(suite)
    run = Run(args)
    columns = [*run.peers, *suite.columns]
    print(f"{turns.processor()}; load {os.getloadavg()[0]:.1f}")
    print(f"tier {run.tier}, 1 thread, {run.turns} turns, processor time; a peer's column: its time / ours; "
          f"* ns an element")
    print(f"{run.versions}")
    print(turns.COLUMNS + " ".join(f"{p:>11}" for p in columns) + "  error   theirs        MB")
    rows = []
    for group, row in suite.rows_of(run, args.only):
        rows.append((group, row))
        turns.show(row, columns)
    run.end()
    summary(rows, run.peers)
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"processor": turns.processor(), "tier": run.tier, "peers": run.versions,
                       "rows": [{"group": g, **r} for g, r in rows]}, f, indent=1)
    return 1 if not rows or any(r.get("same") is False or "wrong" in r for _, r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
