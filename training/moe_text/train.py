"""Train the character model within a wall-clock budget, on one CPU thread.

    python3 train.py --codes DIR --minutes 60 --out RUN [--low]

The learning rate follows the share of the budget that is used up, so a run ends on time on
any machine, however busy. RUN gets `log.txt` and `state.pt`; the same command goes on from it.
"""

import argparse
import math
import os
import time

import torch
import torch.nn.functional as F

import data
import model


def learning_rate(progress, peak, steps):
    warm = min(1.0, (steps + 1) / 300)
    return warm * peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


def held_out(net, codes, pieces=64, length=256):
    """Bits per character of pieces spread over the held-out text; the first half only fills the window."""
    net.eval()
    start = torch.linspace(0, len(codes) - length - 2, pieces).long()[:, None]
    piece = codes[start + torch.arange(length + 1)]
    with torch.no_grad():
        logits, _ = net(piece[:, :-1])
    net.train()
    half = length // 2
    loss = F.cross_entropy(logits[:, half:].reshape(-1, model.CODES), piece[:, half + 1 :].reshape(-1))
    return loss.item() / math.log(2)


class Trainer:
    def __init__(self, args):
        self.args = args
        torch.manual_seed(args.seed)
        self.train_codes = data.load(os.path.join(args.codes, "train.codes"))
        self.held_codes = data.load(os.path.join(args.codes, "held.codes"))
        self.net = model.Text(args.dropout)
        matrices = [p for p in self.net.parameters() if p.dim() > 1]
        others = [p for p in self.net.parameters() if p.dim() <= 1]
        groups = [{"params": matrices, "weight_decay": args.decay}, {"params": others, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, args.lr, betas=(0.9, 0.98), fused=args.low or None)
        self.steps = 0
        self.used = 0.0
        os.makedirs(args.out, exist_ok=True)
        self.log_file = open(os.path.join(args.out, "log.txt"), "a")
        self.resume()
        self.generator = torch.Generator().manual_seed(args.seed + self.steps)
        self.load = torch.zeros(model.LAYERS, model.EXPERTS)

    def resume(self):
        path = os.path.join(self.args.out, "state.pt")
        if not os.path.exists(path):
            return
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.steps, self.used = state["steps"], state["used"]
        self.log(f"resumed at step {self.steps}")

    def save(self, used):
        path = os.path.join(self.args.out, "state.pt")
        state = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict(), "steps": self.steps,
                 "used": used}
        torch.save(state, path + ".new")
        os.replace(path + ".new", path)

    def log(self, text):
        line = time.strftime("%H:%M:%S ", time.gmtime()) + text
        print(line, flush=True)
        print(line, file=self.log_file, flush=True)

    def count(self, layer, x, chosen):
        self.load[layer] = 0.98 * self.load[layer] + 0.02 * torch.bincount(chosen.reshape(-1), minlength=model.EXPERTS)

    def step(self, progress):
        args = self.args
        rate = learning_rate(progress, args.lr, self.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        model.Mixed.low = args.low and progress < args.exact_from
        inputs, targets = data.batch(self.train_codes, args.batch, args.length, self.generator)
        logits, balance = self.net(inputs, self.count)
        loss = F.cross_entropy(logits.view(-1, model.CODES), targets.reshape(-1))
        self.optimizer.zero_grad(set_to_none=True)
        (loss + args.balance * sum(balance)).backward()
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        self.steps += 1
        return loss.item() / math.log(2)

    def spread(self):
        """Per layer: least and greatest share of an expert, in percent (6.25 would be even)."""
        share = 100 * self.load / self.load.sum(1, keepdim=True)
        return " ".join(f"{low:.1f}-{high:.1f}" for low, high in zip(share.min(1)[0], share.max(1)[0]))

    def report(self, used, recent):
        low, model.Mixed.low = model.Mixed.low, False
        held = held_out(self.net, self.held_codes)
        model.Mixed.low = low
        self.log(f"{used/60:5.1f} min step {self.steps} train {sum(recent)/len(recent):.3f} held out {held:.3f} "
                 f"load {self.spread()}")

    def run(self):
        args = self.args
        start, first = time.time(), self.used
        next_save, next_report, recent = 180.0, 30.0, []
        while (now := time.time() - start) + first < args.minutes * 60:
            recent.append(self.step((first + now) / (args.minutes * 60)))
            if now >= next_report:
                next_report = now + args.report_every
                self.report(first + now, recent)
                recent = []
            if now >= next_save:
                next_save = now + 180
                self.save(first + now)
        self.save(first + now)
        self.report(first + now, recent or [0.0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--codes", required=True, help="folder made by data.py")
    parser.add_argument("--out", required=True)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--decay", type=float, default=0.05)
    parser.add_argument("--dropout", type=float, default=0.05)
    parser.add_argument("--balance", type=float, default=0.01, help="weight of the load-balance loss")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--low", action="store_true", help="large products in bfloat16")
    parser.add_argument("--exact-from", type=float, default=0.93, help="progress at which bfloat16 ends")
    parser.add_argument("--report-every", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    Trainer(args).run()


if __name__ == "__main__":
    main()
