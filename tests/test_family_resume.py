# tags: needs:torch,numpy,PIL
"""test_family_resume.py: a training of training/family.py that is stopped and goes on ends at the weights that it would
have had without the stop, bit for bit, and stands still while the file is there that asks for it.
"""

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time

from family_rig import TRAINING, end, report, write_store  # first: it finds training/

import numpy as np
import torch

import data
import family_net

STEPS, COOLED_FROM = 80, 40
SMALL = dataclasses.replace(family_net.RECIPES["n8x4"], batch=2, patch=12, steps=STEPS, cool=0.5)


def flat(value):
    """Every number of a state, in order."""
    if isinstance(value, torch.Tensor):
        return [value.numpy().ravel()]
    if isinstance(value, dict):
        return [part for key in sorted(value, key=str) for part in flat(value[key])]
    if isinstance(value, (list, tuple)):
        return [part for one in value for part in flat(one)]
    return [np.array([value])] if isinstance(value, (int, float)) else []


def numbers(training):
    return flat([training.net.state_dict(), training.optimizer.state_dict(), training.average.weights,
                 training.average.steps, training.step_number])


def equal(a, b):
    return len(a) == len(b) and all(x.tobytes() == y.tobytes() for x, y in zip(a, b))


def steps(training, count):
    for _ in range(count):
        training.step()
    return training


def in_pieces(store, work):
    """The states at the end, of one training without a stop and of one that is stopped at each of some steps."""
    def open_in(name):
        os.makedirs(os.path.join(work, name), exist_ok=True)
        return family_net.Training("n8x4", SMALL, store, os.path.join(work, name))

    whole = steps(open_in("whole"), STEPS)
    start = numbers(open_in("new"))
    for piece in (7, COOLED_FROM - 7 + 3, STEPS - COOLED_FROM - 3):  # the second passes where the rate begins to fall
        steps(open_in("parts"), piece).save()
    parts = open_in("parts")
    report("steps in pieces: the state of steps at once", equal(numbers(whole), numbers(parts)))
    report("and not the one that it began with", not equal(numbers(whole), start))
    report("what a longer training goes on from is kept", os.path.exists(parts.path(".stable.pt")))
    parts.load(parts.path(".stable.pt"))
    report("it is of the step at which the rate begins to fall", parts.step_number == COOLED_FROM, parts.step_number)


def batches(store):
    mixture = data.Mixture([(store, 1.0)], 3)
    one = mixture.batch_of_step(5, 2, 12)
    mixture.batch_of_step(6, 2, 12)
    again, other = mixture.batch_of_step(5, 2, 12), mixture.batch_of_step(7, 2, 12)
    report("a batch follows from its step", all((a == b).all() for a, b in zip(one, again)))
    report("another step has another", any((a != b).any() for a, b in zip(one, other)))


# -------------------------------------------- the program


def start(store, state, count, *more):
    words = [sys.executable, os.path.join(TRAINING, "family.py"), "--net", f"n8x4={store}", "--state", state, "--batch",
             "2", "--patch", "12", "--cool", "0.5", "--steps", str(count), *more]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def read(state, name):
    with open(os.path.join(state, name), "rb") as file:
        return file.read()


def stopped_program(store, work):
    whole, parts = os.path.join(work, "program"), os.path.join(work, "stopped")
    said = start(store, whole, 200).communicate()[0]
    report("the program ends by itself, at its last step", "step 200 of 200" in said, said)
    os.remove(os.path.join(whole, "n8x4.csv"))
    said = start(store, whole, 200).communicate()[0]
    report("it ends too where a kill took the last line of the curve", "step 200 of 200, 0 a minute" in said, said)
    first = start(store, parts, 200, "--save-every", "0")
    while first.poll() is None and not os.path.exists(os.path.join(parts, "n8x4.pt")):
        time.sleep(0.02)
    first.send_signal(signal.SIGTERM)
    said = first.communicate()[0]
    report("asked to end, it ends well, before its last step", first.returncode == 0 and "step" in said and
           "step 200 of 200" not in said, said)
    said = start(store, parts, 200).communicate()[0]
    report("the same command goes on to the last step", "step 200 of 200" in said, said)
    report("to the bytes of the training without a stop", read(whole, "n8x4.npz") == read(parts, "n8x4.npz"))


def waiting_program(store, work):
    state, pause = os.path.join(work, "waiting"), os.path.join(work, "pause")
    open(pause, "w").close()
    program = start(store, state, 20, "--pause-file", pause)
    line = ""
    while "waits" not in line and program.poll() is None:
        line = program.stdout.readline()
    report("it waits while the file is there", "at step 0" in line, line)
    os.remove(pause)
    said = program.communicate()[0]
    report("and goes on when it is gone", "step 20 of 20" in said, said)


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        store = os.path.join(work, "store")
        write_store(store)
        batches(store)
        in_pieces(store, work)
        stopped_program(store, work)
        waiting_program(store, work)
    return end()


if __name__ == "__main__":
    sys.exit(main())
