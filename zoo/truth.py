"""truth.py - a network of the zoo, run from our file, beside eager mode and float64: errors and decisions.

    python zoo/truth.py msdnet spread --folder build/zoo

Needs torch, onnxscript and the brainstorm package with its extension module. Files are made in the folder once. Ends
with 1 where the error is more than 2 times PyTorch's own (5 times where our plan uses Winograd), or where float64
decides otherwise.
"""

import argparse
import copy
import os
import sys

import common
import torch

MOST, MOST_WINOGRAD = 2.0, 5.0  # times PyTorch's error


def compared(session, model, nets, inputs):
    """(error of ours, of PyTorch's, routers that decide otherwise, rows that do, rows)."""
    plain, marked = nets
    ours = next(iter(session.run(common.fed(model, inputs)).values()))
    theirs = common.eager(plain, inputs)
    wanted, counts = common.decisions(copy.deepcopy(marked).double(), [
        x.double() if x.is_floating_point() else x for x in inputs])
    other, rows = 0, 0
    for name, count in counts.items():
        if count is not None:
            made = session.decision(name[-40:]).counts.tolist()
            other, rows = other + sum(abs(a - b) for a, b in zip(made, count)), rows + len(inputs[0])
    return common.apart(ours, wanted), common.apart(theirs, wanted), other, rows


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("name", choices=common.IMAGES)
    words.add_argument("variant", nargs="?", default="small")
    words.add_argument("--folder", default="build/zoo")
    words.add_argument("--images", type=int, default=4, help="inputs that are tried, where a variant has several")
    args = words.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    variant = common.variants(args.name)[args.variant]
    plain = variant.plain()
    marked = variant.dynamic(plain)
    import brainstorm
    model = brainstorm.open(common.file_of(args.name, args.variant, marked, args.folder))
    plan, good = model.plan(), True
    limit = MOST_WINOGRAD if "(winograd)" in plan.report() else MOST
    with plan.session() as session:
        for number in range(args.images if hasattr(variant, "images") else 1):
            inputs = variant.inputs(number) if number else variant.inputs()
            ours, theirs, other, rows = compared(session, model, (plain, marked), inputs)
            good = good and ours <= limit * theirs and other == 0
            print(f"{args.name} {args.variant}, input {number}: error {ours:.3g}, PyTorch {theirs:.3g} (at most "
                  f"{limit:g} times that); {other} of {rows} decisions are others than float64's")
    print(f"bytes: {plan.bytes}")
    print("equal" if good else "NOT equal")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
