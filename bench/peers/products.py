"""Products, and what stands between them in a transformer, run in turns by brainstorm and by its peers.

    pip install -r bench/peers/requirements.txt
    make bench-products [ARGS="gemm --tier avx2 --peers onnxruntime,torch --turns 31 --json products.json"]

A case is one graph of 64 (large ones: fewer) such ops with an input and an output of its own each, all bound, and the
same weights. A turn runs everyone once, one after the other, for some milliseconds, on one thread; a ratio is the
median over turns of (theirs / ours) within a turn, above 1 where ours is faster, so that other work on the machine
strikes all. Time is the processor's. `limit` is the shortest time that the multiply-add peak, or where more weights
are read than computed with, their bytes allow; `share` is the limit over our time. `error` is the largest difference
from float64 over the largest value; `theirs` is PyTorch's.
"""

import argparse
import json
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..")]
import luma
import product_cases
import product_server

TURN_SECONDS = 4e-3


def open_peers(wanted, case, inputs, weights, folder):
    peers = []
    if "onnxruntime" in wanted:
        from product_onnx import OnnxCase
        peers.append(OnnxCase(case, inputs, weights, os.path.join(folder, "product.onnx")))
    if "torch" in wanted:
        from product_torch import TorchCase
        peers.append(TorchCase(case, inputs, weights))
    return peers


def relative_error(result, truth):
    return float(np.max(np.abs(result.astype(np.float64) - truth)) / np.max(np.abs(truth)))


def measure(ours, case, args, folder):
    noise = np.random.default_rng(1)
    inputs, weights = case.inputs(noise), case.weights(noise)
    arenas = ours.open(case, args.tier, inputs, weights)
    runners = [ours, *open_peers(args.peers, case, inputs, weights, folder)]
    truth = case.definition(inputs[0].astype(np.float64), {k: w.astype(np.float64) for k, w in weights.items()})
    times = []
    for r in runners:
        r.run(1)
    often = [max(1, min(4096, int(TURN_SECONDS / max(r.run(1), 1e-7)))) for r in runners]
    for _ in range(args.turns):
        times.append([r.run(n) / n / case.count for r, n in zip(runners, often)])
    times = np.array(times)
    row = {"case": case.name, "us": float(np.median(times[:, 0])) * 1e6, "flops": case.flops, "arenas": arenas,
           "error": relative_error(ours.result(0), truth)}
    for i, r in enumerate(runners[1:], 1):
        row[r.name] = float(np.median(times[:, i] / times[:, 0]))
        if r.name == "torch":
            row["theirs"] = relative_error(r.result(0), truth)
    ours.close()
    return row


def show(row, peak, peers):
    rate = row["flops"] / row["us"] * 1e-3
    share = f"{rate:8.1f} {rate / peak:6.1%}" if row["flops"] else f"{row['us'] * 1e3 / row['elements']:8.3f} {'':6}"
    print(f"{row['case']:38} {row['us']:10.2f} {share} " + " ".join(f"{row[p]:11.3f}" for p in peers if p in row)
          + f"  {row['error']:.1e} {row.get('theirs', float('nan')):.1e}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="*", help="groups or parts of names: " + ", ".join(product_cases.GROUPS))
    parser.add_argument("--tier", default="auto")
    parser.add_argument("--peers", default="onnxruntime,torch")
    parser.add_argument("--turns", type=int, default=31)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.peers = [p for p in args.peers.split(",") if p]

    folder = os.path.join(luma.build_dir(), "bench")
    os.makedirs(folder, exist_ok=True)
    ours = product_server.Products()
    tier = ours.tier() if args.tier == "auto" else args.tier
    rows = []
    print(f"tier {tier}, 1 thread, {args.turns} turns; load {os.getloadavg()[0]:.1f}; a peer's column: its time / ours")
    print(f"{'':38} {'us':>10} {'GFLOP/s':>8} {'share':>6} " + " ".join(f"{p:>11}" for p in args.peers)
          + "  error   theirs   (without products: ns an element)")
    for case in product_cases.cases(args.only):
        peak = ours.peak(tier)
        row = measure(ours, case, args, folder)
        row["peak"], row["elements"] = peak, case.elements
        rows.append(row)
        show(row, peak, args.peers)
    ours.end()
    for group in product_cases.GROUPS:
        names = [c.name for c in product_cases.cases([group])]
        best = [min(r[p] for p in args.peers) for r in rows if r["case"] in names and all(p in r for p in args.peers)]
        if best and args.peers:
            print(f"{group}: the fastest peer's time over ours: least {min(best):.3f}, "
                  f"geometric mean {np.exp(np.mean(np.log(best))):.3f}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"tier": tier, "rows": rows}, f, indent=1)


if __name__ == "__main__":
    main()
