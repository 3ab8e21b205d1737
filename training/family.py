"""Train the family of nets on spare time, in slices of minutes; the net that is least far comes first.

    python3 family.py --net n8x4=STORE --net n16x5=STORE --monitor PHOTOS --state build/training --jobs 2

A net is NAME=STORE: a row of family_net.py's recipes and the store (data.py, teach.py) that it learns from. The state
folder holds for each net what it goes on from (NAME.pt), its averaged weights (NAME.npz), its curve (NAME.csv) and,
once its rate falls, where that began (NAME.stable.pt). The same command goes on where the last one stopped, at the
same weights. A signal to end (SIGTERM, SIGINT) ends it after the step; SIGSTOP and SIGCONT do what they always do;
what a kill loses is the last --save-every seconds.
"""

import argparse
import contextlib
import dataclasses
import fcntl
import os
import signal
import subprocess
import sys
import time

import numpy as np
import torch

import evaluate
import nets
from family_net import RECIPES, Training, multiply_adds, parameters

CURVE = "step,small pixels seen,rate,loss,psnr,processor seconds\n"


class Stop:
    """True once the process was asked to end."""

    def __init__(self):
        self.asked = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.ask)

    def ask(self, number, frame):
        self.asked = True

    def __bool__(self):
        return self.asked


def say(text):
    print(time.strftime("%H:%M:%S ", time.gmtime()) + text, flush=True)


@contextlib.contextmanager
def held(path):
    """Whether this process now holds a net: two never train the same."""
    with open(path, "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


class Rounds:
    def __init__(self, args):
        self.args = args
        self.stop = Stop()
        self.stores = dict(net.split("=", 1) for net in args.net)
        self.init = dict(init.split("=", 1) for init in args.init)
        self.monitor = evaluate.load_set(args.monitor) if args.monitor else []
        os.makedirs(args.state, exist_ok=True)

    def path(self, name, ending):
        return os.path.join(self.args.state, name + ending)

    def recipe(self, name):
        given = {k: getattr(self.args, k) for k in ("steps", "cool", "batch", "patch", "seed")}
        return dataclasses.replace(RECIPES[name], **{k: v for k, v in given.items() if v is not None})

    def open(self, name):
        init = nets.deepened(nets.plain_weights(self.init[name]), name) if name in self.init else None
        return Training(name, self.recipe(name), self.stores[name], self.args.state, init)

    # -------------------------------------------- which net

    def share_done(self, name):
        """By the last line of its curve, which every slice ends with."""
        if not os.path.exists(self.path(name, ".csv")):
            return 0.0
        with open(self.path(name, ".csv")) as file:
            step = file.readlines()[-1].split(",")[0]
        return int(step) / self.recipe(name).steps if step.isdigit() else 0.0

    def run(self):
        end = time.monotonic() + self.args.minutes * 60
        while not self.stop and time.monotonic() < end:
            names = [name for name in self.stores if self.share_done(name) < 1]
            if not names:
                return
            for name in sorted(names, key=self.share_done):
                with held(self.path(name, ".lock")) as mine:
                    if mine:
                        self.slice(name, end)
                        break
            else:
                time.sleep(1)  # more processes than nets

    # -------------------------------------------- one slice

    def pause(self, training):
        """Waits for as long as the file that asks for it is there."""
        if not self.args.pause_file or not os.path.exists(self.args.pause_file):
            return
        training.save()
        say(f"{training.name} waits for {self.args.pause_file} to go, at step {training.step_number}")
        while os.path.exists(self.args.pause_file) and not self.stop:
            time.sleep(1)

    def slice(self, name, end):
        """Until it had its minutes of the processor: what it has to share may leave it little of an hour."""
        training = self.open(name)
        if training.step_number == 0:
            say(f"{name}: {multiply_adds(name)} multiply-adds a small pixel, {parameters(name)} parameters, "
                f"seed {training.recipe.seed}")
        begun, first, used = time.monotonic(), training.step_number, time.process_time()
        saved, losses = begun, []
        until = used + self.args.slice * 60
        while not (self.stop or training.finished() or time.process_time() > until or time.monotonic() > end):
            self.pause(training)
            losses.append(training.step())
            if time.monotonic() - saved > self.args.save_every:
                training.save()
                saved = time.monotonic()
        if losses:
            training.save()
        # Also of a net whose last step was saved before its line was written: only the curve says that it is done.
        if losses or training.finished():
            self.report(training, training.step_number - first, time.monotonic() - begun,
                        time.process_time() - used, float(np.mean(losses or np.nan)))

    def report(self, training, steps, seconds, processor, loss):
        psnr = training.score(self.monitor) if self.monitor and not self.stop else float("nan")
        rate = training.optimizer.param_groups[0]["lr"]
        path = self.path(training.name, ".csv")
        new = not os.path.exists(path)
        with open(path, "a") as file:
            file.write(CURVE * new + f"{training.step_number},{training.samples()},{rate:.3e},{loss:.6f},{psnr:.4f},"
                       f"{processor:.1f}\n")
        say(f"{training.name} step {training.step_number} of {training.recipe.steps}, "
            f"{steps / seconds * 60:.0f} a minute ({steps / processor * 60:.0f} a minute of processor), "
            f"loss {loss:.6f}, monitor {psnr:.3f} dB")


def start_jobs(count):
    """Runs this command `count` times at once and waits; what asks this process to end asks them."""
    jobs = [subprocess.Popen([sys.executable, *sys.argv, "--jobs", "1"]) for _ in range(count)]

    def hand_on(number, frame):
        for job in jobs:
            job.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hand_on)
    return max(job.wait() for job in jobs)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--net", action="append", required=True, help="NAME=STORE")
    parser.add_argument("--init", action="append", default=[],
                        help="NAME=FILE.npz: plain weights that it starts from")
    parser.add_argument("--state", default="build/training")
    parser.add_argument("--monitor", help="folder of photographs that are held out, for the curve")
    parser.add_argument("--steps", type=int, help="of each net, instead of its recipe's")
    parser.add_argument("--cool", type=float, help="last share of the steps, in which the rate falls")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--patch", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--slice", type=float, default=2,
                        help="minutes of the processor that a net has before the next one")
    parser.add_argument("--minutes", type=float, default=1e9, help="ends after so many")
    parser.add_argument("--save-every", type=float, default=60, help="seconds")
    parser.add_argument("--pause-file", help="waits for as long as this file is there")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one thread and one net at a time each")
    args = parser.parse_args()
    if args.jobs > 1:
        sys.exit(start_jobs(args.jobs))
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Rounds(args).run()


if __name__ == "__main__":
    main()
