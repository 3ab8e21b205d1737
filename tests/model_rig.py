"""model_rig.py - what the tests of python/brainstorm share: the program, weights, counting.

Relies on: $BUILD/brainstorm. Importing it puts python/ and tools/ on the path, and ends the program where numpy or gguf
is missing.
"""

import os
import subprocess
import sys

try:
    import gguf  # noqa: F401: what it writes with
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing} (pip install -r tools/requirements.txt)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

for folder in ("tools", "python"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))

PROGRAM = [*os.environ.get("RUN", "").split(), os.path.join(os.environ.get("BUILD", "build"), "brainstorm")]
results = {True: 0, False: 0}


def report(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def brainstorm(*words):
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def random(*shape):
    return np.random.default_rng(len(shape) * 97 + sum(shape)).standard_normal(shape).astype(np.float32)


def end():
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0
