"""Train one net within a wall-clock budget.

    python3 train.py --model large --store DIR --minutes 95 --out RUN [--init plain.npz]

The learning rate follows the share of the budget that is used up, so a run ends on time on
any machine, however busy. RUN gets `log.txt`, `state.pt` (to resume: give the same command
again) and `ema.npz` (averaged plain weights, for export_weights.py).
"""

import argparse
import datetime
import math
import os
import time

import numpy as np
import torch

import data
import evaluate
import nets


class Average:
    """Exponential moving average of the plain weights."""

    def __init__(self, net, decay):
        self.decay = decay
        self.steps = 0
        self.weights = net.plain()

    def update(self, net):
        self.steps += 1
        rate = max(1.0 - self.decay, 1.0 / (self.steps + 1))
        for name, value in net.plain().items():
            self.weights[name].lerp_(value, rate)


def minutes_until(clock):
    """Minutes from now to the next HH:MM, UTC."""
    now = datetime.datetime.utcnow()
    hour, minute = map(int, clock.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0)
    if then < now:
        then += datetime.timedelta(days=1)
    return (then - now).total_seconds() / 60


def learning_rate(progress, peak, floor, steps):
    warm = min(1.0, (steps + 1) / 300)
    return warm * (floor + (peak - floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def patch_loss(picture, high, weight, squared):
    """Per-patch loss; the frame, where a patch lacks its surroundings, is left out."""
    error = (picture - high)[:, :, 4:-4, 4:-4]
    if squared:
        # times 100: brings it near the other loss, so Adam's moments carry over
        return 100 * (error.pow(2).mean((1, 2, 3)) * weight).mean()
    return (error.pow(2) + 1e-6).sqrt().mean()


def total_loss(pictures, exit_weights, high, weight, squared):
    losses = [patch_loss(p, high, weight, squared) * w for p, w in zip(pictures, exit_weights)]
    return sum(losses)


def save_atomically(path, write):
    write(path + ".new")
    os.replace(path + ".new", path)


def save_plain(path, weights):
    def write(name):
        with open(name, "wb") as file:
            np.savez(file, **{k: v.numpy() for k, v in weights.items()})

    save_atomically(path, write)


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.net = nets.ExitNet(args.model, args.expand)
        if args.init:
            self.net.load_plain(dict(np.load(args.init)))
        self.net = self.net.to(memory_format=torch.channels_last)
        self.optimizer = torch.optim.Adam(self.net.parameters(), args.lr, betas=(0.9, 0.99))
        self.average = Average(self.net, args.ema)
        self.steps = 0
        self.used = 0.0
        os.makedirs(args.out, exist_ok=True)
        self.log_file = open(os.path.join(args.out, "log.txt"), "a")
        self.resume()
        shares = [(s.rsplit("=", 1)[0], float(s.rsplit("=", 1)[1])) if "=" in s else (s, 1.0) for s in args.store]
        self.mixture = data.Mixture(shares, args.seed + self.steps)
        self.monitors = [(os.path.basename(os.path.normpath(m)), evaluate.load_set(m)) for m in args.monitor]

    # -------------------------------------------- state

    def path(self, name):
        return os.path.join(self.args.out, name)

    def resume(self):
        if not os.path.exists(self.path("state.pt")):
            return
        state = torch.load(self.path("state.pt"))
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.weights, self.average.steps = state["average"], state["average_steps"]
        self.steps, self.used = state["steps"], state["used"]
        self.log(f"resumed at step {self.steps}")

    def save(self, used):
        state = {
            "net": self.net.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.weights,
            "average_steps": self.average.steps,
            "steps": self.steps,
            "used": used,
        }
        save_atomically(self.path("state.pt"), lambda name: torch.save(state, name))
        save_plain(self.path("ema.npz"), self.average.weights)

    def log(self, text):
        line = time.strftime("%H:%M:%S ", time.gmtime()) + text
        print(line, flush=True)
        print(line, file=self.log_file, flush=True)

    # -------------------------------------------- work

    def monitor(self):
        """Scores of the averaged weights; only watched, nothing is chosen by them here."""
        net = nets.ExitNet(self.args.model)
        net.load_plain(self.average.weights)
        parts = []
        for name, pairs in self.monitors:
            scores = " ".join(f"{s:.3f}" for s in evaluate.exit_scores(net, pairs))
            parts.append(f"{name} {scores}")
        return " | ".join(parts)

    def step(self, progress):
        args = self.args
        rate = learning_rate(progress, args.lr, args.lr_end, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        low, high, weight = map(torch.from_numpy, self.mixture.batch(args.batch, args.patch))
        low = low.contiguous(memory_format=torch.channels_last)
        pictures = self.net(low, low_precision=progress < args.exact_from)
        loss = total_loss(pictures, args.exit_weights, high, weight, progress >= args.squared_from)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        # A rare hard batch must not throw the weights off at a high rate.
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), args.clip)
        self.optimizer.step()
        self.steps += 1
        if self.steps % 4 == 0:
            self.average.update(self.net)
        return loss.item(), rate

    def run(self):
        args = self.args
        minutes = minutes_until(args.until) if args.until else args.minutes - self.used / 60
        start = time.time()
        budget = self.used + minutes * 60
        next_save = next_monitor = 60.0
        recent = []
        while True:
            now = time.time() - start
            used = self.used + now
            if used >= budget:
                break
            loss, rate = self.step(used / budget)
            recent.append(loss)
            if now >= next_save:
                next_save = now + args.save_every
                self.save(used)
            if now >= next_monitor:
                next_monitor = now + args.monitor_every
                self.log(
                    f"{used/60:6.1f} min step {self.steps} lr {rate:.2e} loss {np.mean(recent):.6f} {self.monitor()}"
                )
                recent = []
        self.save(time.time() - start + self.used)
        self.log(f"done, {self.steps} steps, {self.monitor()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=sorted(nets.SHAPES), required=True)
    parser.add_argument("--store", action="append", required=True, help="DIR or DIR=share")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=95)
    parser.add_argument("--until", help="HH:MM UTC, instead of --minutes")
    parser.add_argument("--init", help="plain weights to start from")
    parser.add_argument("--expand", type=int, default=0, help="hidden width of the trained product")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--lr-end", type=float, default=1e-6)
    parser.add_argument("--batch", type=int, default=12)
    parser.add_argument("--patch", type=int, default=48)
    parser.add_argument("--exit-weights", type=float, nargs="+")
    parser.add_argument("--squared-from", type=float, default=0.7, help="progress at which MSE replaces Charbonnier")
    parser.add_argument("--exact-from", type=float, default=0.85, help="progress at which bfloat16 ends")
    parser.add_argument("--ema", type=float, default=0.996)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--monitor", action="append", default=[], help="folder of pictures to watch")
    parser.add_argument("--monitor-every", type=float, default=300)
    parser.add_argument("--save-every", type=float, default=180)
    args = parser.parse_args()
    exits = len(nets.SHAPES[args.model][3])
    args.exit_weights = args.exit_weights or [0.3] * (exits - 1) + [1.0]
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Trainer(args).run()


if __name__ == "__main__":
    main()
