"""equal.py - networks of the zoo, run with each optimisation on and off: the same bytes, and the same decisions.

    python zoo/equal.py "livesr:10/8" switch:small --folder build/zoo

Without names: the small variant of all six. On the CPU: without dataflow, in both orders, on two threads, in slots of
as little as will do and of 40 % with and without guesses, and with other switches that the library has. Files are made
in the folder once. Needs what truth.py does. Ends with 1 where a byte or a decision differs. Must never compare with
another algorithm: Winograd has other roundings, and stays as the plan has it.
"""

import argparse
import os
import sys

import common
import numpy as np
import torch

SWITCHES = ("dataflow", "fusion")


def ways(model):
    """{what is changed: (arguments of a plan, of a session)}."""
    found = {f"without {switch}": ({switch: False}, {}) for switch in common.switches(SWITCHES)}
    found.update({"layer by layer": ({"order": "breadth"}, {}), "depth first": ({"order": "depth"}, {}),
                  "nothing but that": ({"order": "breadth", **{s: False for s in common.switches(SWITCHES)}}, {}),
                  "two threads": ({"threads": 2}, {})})
    stream = model.plan(slots=2**63).stream
    if stream.all_bytes:
        some = max(stream.least_bytes, stream.all_bytes * 2 // 5)
        found.update({"the smallest slots": ({"slots": stream.least_bytes}, {}), "slots of 40 %": ({"slots": some}, {}),
                      "slots of 40 %, no guesses": ({"slots": some}, {"guess": False})})
    return found


def run(model, fed, plan, session):
    """({output: bytes}, {router: counts and paths})."""
    with model.plan(**plan).session(**session) as opened:
        made = {name: y.tobytes() for name, y in opened.run(fed).items()}
        return made, {name: (d.counts.tolist(), d.chosen.tolist())
                      for name, d in ((name, opened.decision(name)) for name in model.routers)}


def compared(name, key, folder):
    """Whether all is well."""
    import brainstorm
    variant = common.variants(name)[key]
    model = brainstorm.open(common.file_of(name, key, variant.dynamic, folder))
    fed, good = common.fed(model, variant.inputs()), []
    wanted = run(model, fed, {}, {})
    for way, options in ways(model).items():
        made = run(model, fed, *options)
        good.append(made == wanted)
        if made[0] != wanted[0]:
            print(f"{name} {key}, {way}: OTHER bytes")
        elif not good[-1]:
            print(f"{name} {key}, {way}: OTHER decisions")
    if hasattr(variant, "dense"):
        dense = brainstorm.open(common.dense_file_of(name, key, variant.dynamic, folder))
        made = run(dense, fed, {}, {})[0]
        close = {port: np.frombuffer(y, np.float32) for port, y in made.items()}
        good.append(all(np.array_equal(y, np.frombuffer(wanted[0][port], np.float32)) for port, y in close.items()))
        print(f"{name} {key}: every cell computed, gates multiplied: {'the same numbers' if good[-1] else 'OTHERS'}")
    print(f"{name} {key}: {sum(good)} of {len(good)} ways give the same bytes and decisions", flush=True)
    return all(good)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("networks", nargs="*", metavar="NETWORK:VARIANT")
    words.add_argument("--folder", default=common.FOLDER)
    args = words.parse_args()
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    networks = [common.named(word) for word in args.networks or [f"{name}:small" for name in common.NAMES]]
    good = [compared(*network, args.folder) for network in networks]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
