"""family_rig.py - what the tests of training/family.py share: a store of small pictures from a seed, counting.

Importing it puts training/ on the path.
"""

import os
import sys

import numpy as np

TRAINING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "training")
sys.path.insert(0, TRAINING)

import data

results = {True: 0, False: 0}


def report(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}", flush=True)


def end():
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


def write_store(folder, pictures=3, side=48):
    """Soft blots with edges: there is something to learn."""
    random = np.random.default_rng(5)
    writer = data.StoreWriter(folder)
    for _ in range(pictures):
        high = data.resize(random.uniform(16, 235, (side // 4, side // 4)), side, side)
        high = np.where(high > 150, high, 255 - high)
        writer.add(high, data.to_code(data.downscale(high)))
    writer.close()
