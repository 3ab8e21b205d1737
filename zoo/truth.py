"""truth.py - networks of the zoo, run from our file, beside eager mode and float64: errors and decisions.

    python zoo/truth.py msdnet:spread "swinmoe:factor 1.25, batch 2" --folder build/zoo

Without names: the small variant of all six. Values are compared with what float64 gives. Where routers choose among
experts, float64 takes the decisions of whoever is compared with it: of those that it would have taken otherwise it
tells how many they are, and how far it was from them. Gates and exits have to decide as in float64. Files are made in
the folder once. Needs torch, onnxscript and the brainstorm package with its extension module. Ends with 1 where the
error is more than 2 times PyTorch's own (5 times where our plan uses Winograd), where more than 0.1 % of the rows are
decided otherwise, or one of which float64 is sure.
"""

import argparse
import copy
import os
import sys
from dataclasses import dataclass

import common
import mixtures
import numpy as np
import torch

MOST, MOST_WINOGRAD = 2.0, 5.0  # times PyTorch's error
NEAR = 1e-5   # of scores: so close may decide otherwise,
FEW = 0.001   # and for so many rows


@dataclass
class Verdict:
    """Of one who is compared with float64."""

    rms: float      # of the error, in parts of the largest magnitude
    largest: float
    other: int      # rows decided otherwise,
    rows: int       # of so many,
    margin: float   # and how far float64's scores were from that, at most

    def __str__(self):
        return (f"error {self.rms:.3g} rms, {self.largest:.3g} at most; {self.other} of {self.rows} rows decided "
                f"otherwise, by {self.margin:.2g} at most")


def error(made, wanted):
    wanted = wanted.numpy()
    apart = np.abs(np.asarray(made, np.float64).reshape(wanted.shape) - wanted) / np.abs(wanted).max()
    return float(np.sqrt(np.mean(apart**2))), float(apart.max())


def under_decisions(net, inputs, y, chosen):
    """The verdict on y, which took the paths `chosen` [rows] of each router."""
    wanted, seen = mixtures.double(net, inputs, chosen)
    rows = sum(len(s.scores) for s in seen)
    return Verdict(*error(y, wanted), sum(s.apart for s in seen), rows, max(s.margin for s in seen))


def routed(session, marked, inputs, made, eager):
    """(ours, PyTorch's) of a network with routers only."""
    chosen = [torch.from_numpy(session.decision(name).chosen.astype(np.int64)) for name in mixtures.names(marked)]
    _, seen = mixtures.watched(marked, inputs)
    return (under_decisions(marked, inputs, made, chosen),
            under_decisions(marked, inputs, eager, [s.chosen[:, 0] for s in seen]))


def gated(session, marked, inputs, made, eager):
    """The same of one with gates and exits: rows of each path are counted."""
    margins, exact = {}, [x.double() if x.is_floating_point() else x for x in inputs]
    wanted, counts = common.decisions(copy.deepcopy(marked).double(), exact, margins)
    _, theirs = common.decisions(marked, inputs)
    ours = {name: session.decision(name[-40:]).counts.tolist() for name in counts}

    def verdict(y, of):
        wrong = [name for name, count in counts.items() if count is not None and of[name] != count]
        rows = sum(count is not None for count in counts.values()) * len(inputs[0])
        return Verdict(*error(y, wanted), len(wrong), rows, max([margins[name] for name in wrong], default=0.0))
    return verdict(made, ours), verdict(eager, theirs)


def judged(name, key, folder, images):
    """Whether all is well."""
    import brainstorm
    variant = common.variants(name)[key]
    plain = variant.plain()
    marked = variant.dynamic(plain)
    model = brainstorm.open(common.file_of(name, key, lambda: marked, folder))
    plan, good = model.plan(), True
    limit = MOST_WINOGRAD if "(winograd)" in plan.report() else MOST
    compared = gated if name in ("msdnet", "dynamic_routing") else routed
    with plan.session() as session:
        for number in range(images if hasattr(variant, "images") else 1):
            inputs = variant.inputs(number) if number else variant.inputs()
            made = np.array(next(iter(session.run(common.fed(model, inputs)).values())))
            ours, theirs = compared(session, marked, inputs, made, common.eager(plain, inputs).numpy())
            fine = (ours.largest <= limit * theirs.largest and ours.other <= FEW * ours.rows and ours.margin <= NEAR)
            good = good and fine
            print(f"{name} {key}, input {number}: {'equal' if fine else 'NOT equal'} (at most {limit:g} times)\n"
                  f"  ours:    {ours}\n  PyTorch: {theirs}", flush=True)
    return good


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("networks", nargs="*", metavar="NETWORK:VARIANT")
    words.add_argument("--folder", default=common.FOLDER)
    words.add_argument("--images", type=int, default=4, help="inputs that are tried, where a variant has several")
    args = words.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    networks = [common.named(word) for word in args.networks or [f"{name}:small" for name in common.NAMES]]
    good = [judged(*network, args.folder, args.images) for network in networks]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
