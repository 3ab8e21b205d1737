"""Collect averaged weights of one small and one large training into one .npz.

    python3 export_weights.py --small RUN/ema.npz --large RUN/ema.npz --out sr2x.npz

Keys are `small.head.weight` (OIHW float32), `.bias`, `.prelu`, `small.body0.*`, `small.tail.*`,
`large.head.*`, `large.body0..5.*`, `large.tail0..2.*` (tail i belongs to exit i).
"""

import argparse
import os

import numpy as np

import nets

LIMITS = {"small": (0, 4600), "large": (40000, 60000)}


def check(prefix, weights):
    """Refuse what the engine could not run or what broke in training."""
    nets.guess_shape(prefix, weights)
    count = sum(v.size for k, v in weights.items() if k.endswith(".weight"))
    low, high = LIMITS[prefix]
    if not low <= count <= high:
        raise SystemExit(f"{prefix}: {count} weights, want {low}..{high}")
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise SystemExit(f"{prefix}.{name} is not finite")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", required=True)
    parser.add_argument("--large", required=True)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    everything = {}
    for prefix in ("small", "large"):
        weights = dict(np.load(getattr(args, prefix)))
        print(prefix, check(prefix, weights), "weights")
        for name, value in weights.items():
            everything[f"{prefix}.{name}"] = np.ascontiguousarray(value, np.float32)
    with open(args.out + ".new", "wb") as file:
        np.savez(file, **everything)
    os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
