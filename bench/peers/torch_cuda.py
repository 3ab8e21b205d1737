"""Routed and static networks on one GPU, run in turns by brainstorm and by PyTorch: medians, ratios, and whether they
agree.

    make CUDA=1 bench
    python3 bench/peers/torch_cuda.py [--only livesr] [--compile] [--json FILE]
    make CUDA=emulated build/cuda-emulated/bench/cuda
    python3 bench/peers/torch_cuda.py --device cpu --tiny         # no GPU: only whether results agree, no times

Ours is a server (bench/cuda_serve.c) that runs when it is asked to and is idle otherwise; inputs, weights and the
decisions of our router come from it, so both compute the same. A turn runs every form once, N times back to back and
waited for at the end, ours before each of PyTorch's; a ratio is the median over turns of (ours / theirs) within a turn.
The time is the wall's around the N runs; PyTorch's by CUDA events stands beside it. All tensors lie on the GPU before.
Needs torch and numpy.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import nets
from torch_peer import Net

TYPES = {"f32": np.float32, "f16": np.float16, "u8": np.uint8, "i8": np.int8, "i32": np.int32}
SHARE = {"f32": torch.float32, "half": torch.float16}


class Server:
    """The arms of bench/cuda, one run at a time."""

    def __init__(self, program, arms, tiny):
        words = [program, *(["--tiny"] if tiny else []), "--serve", *arms]
        self.child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *words):
        self.child.stdin.write((" ".join(map(str, words)) + "\n").encode())
        self.child.stdin.flush()
        line = self.child.stdout.readline().decode().strip()
        if not line:
            raise RuntimeError(f"bench/cuda did not answer: {words}")
        return line

    def array(self, *words):
        line = self.ask(*words).split()
        if line[0] == "none":
            return None
        rank, size = int(line[1]), int(line[6])
        data = self.child.stdout.read(size)
        return np.frombuffer(data, TYPES[line[0]]).reshape([int(n) for n in line[2 : 2 + rank]]).copy()

    def seconds(self, arm, runs):
        return float(self.ask("run", arm, runs))

    def close(self):
        self.child.stdin.close()
        self.child.wait()


class Weights:
    """Looks like the dictionary of nets.read_weights."""

    def __init__(self, server, arm):
        self.server, self.arm = server, arm

    def get(self, name):
        value = self.server.array("weight", self.arm, name)
        return None if value is None else value.astype(np.float32)

    def has(self, name):
        return self.get(name) is not None

    def tensor(self, name, like):
        return torch.from_numpy(self.get(name)).to(like.device, like.dtype)


def loop(x, labels, paths, nets_of_path, out):
    """Path by path, as eager PyTorch does it: which rows is asked on the GPU, and the host waits for the answer."""
    for p in range(paths):
        rows = (labels == p).nonzero().squeeze(1)
        if rows.numel():
            out[rows] = nets_of_path[p](x[rows])
    return out


def loop_known(x, rows_of_path, nets_of_path, out):
    """The same with the rows known ahead: no router gives them, so this is a bound."""
    for rows, net in zip(rows_of_path, nets_of_path):
        if rows.numel():
            out[rows] = net(x[rows])
    return out


# ------------------------------------------------------------------------------------------------------ LiveSR


class Subnet(torch.nn.Module):
    def __init__(self, weights, block, like):
        super().__init__()
        conv = lambda name: self.conv(weights, f"{block}.{name}", like)
        self.head, self.body, self.up0, self.up1, self.tail = (conv(n) for n in ("head", "body", "up0", "up1", "tail"))
        self.blocks = torch.nn.ModuleList()
        while weights.has(f"{block}.{len(self.blocks)}.a.weight"):
            r = len(self.blocks)
            self.blocks.append(torch.nn.ModuleList([conv(f"{r}.a"), conv(f"{r}.b")]))

    @staticmethod
    def conv(weights, name, like):
        weight = weights.tensor(name + ".weight", like)
        layer = torch.nn.Conv2d(weight.shape[1], weight.shape[0], 3, padding=1)
        layer.weight.data, layer.bias.data = weight, weights.tensor(name + ".bias", like)
        return layer

    def forward(self, x):
        head = self.head(x)
        y = head
        for a, b in self.blocks:
            y = b(F.relu(a(y))) + y
        y = self.body(y) + head
        y = F.pixel_shuffle(self.up0(y), 2)
        return self.tail(F.pixel_shuffle(self.up1(y), 2))


def livesr(server, arm, device, dtype, compiled):
    x = torch.from_numpy(server.array("input", arm, "patches")).to(device, dtype)
    labels = torch.from_numpy(server.array("input", arm, "labels")[:, 0]).to(device)
    weights = Weights(server, arm)
    paths = 0
    while weights.has(f"s{paths}.head.weight"):
        paths += 1
    subnets = [Subnet(weights, f"s{p}", x).eval() for p in range(paths)]
    rows = [(labels == p).nonzero().squeeze(1) for p in range(paths)]
    out = torch.empty(x.shape[0], 3, 4 * x.shape[2], 4 * x.shape[3], device=device, dtype=dtype)
    forms = {"loop": lambda: loop(x, labels, paths, subnets, out),
             "loop, loads known": lambda: loop_known(x, rows, subnets, out)}
    if compiled:
        quick = [torch.compile(net, mode="reduce-overhead" if device.type == "cuda" else "default") for net in subnets]
        forms["compiled, loads known"] = lambda: loop_known(x, rows, quick, out)
    return forms


# ----------------------------------------------------------------------------------------------------- experts


def moe(server, arm, device, dtype, compiled):
    x = torch.from_numpy(server.array("input", arm, "x")).to(device, dtype)
    scores = torch.from_numpy(server.array("input", arm, "scores")).to(device)
    weights, experts = Weights(server, arm), scores.shape[1]
    names = ("up.weight", "up.bias", "down.weight", "down.bias")
    up, up_bias, down, down_bias = (torch.stack([weights.tensor(f"e{e}.{n}", x) for e in range(experts)])
                                    for n in names)
    nets_of_path = [lambda r, e=e: F.linear(F.relu(F.linear(r, up[e], up_bias[e])), down[e], down_bias[e])
                    for e in range(experts)]
    out = torch.empty_like(x)
    # given: asking for it would make the host wait
    most = int(torch.bincount(scores.argmax(1), minlength=experts).max())
    up_t, down_t = up.transpose(1, 2).contiguous(), down.transpose(1, 2).contiguous()

    def seats(label):
        """Where each row goes: expert by expert, in order; and the rows so ordered."""
        order = label.argsort(stable=True)
        loads = torch.zeros(experts, dtype=torch.long, device=device).scatter_add_(0, label, torch.ones_like(label))
        first = loads.cumsum(0) - loads
        return order, loads, torch.arange(len(order), device=device) - first[label[order]]

    def padded():
        label = scores.argmax(1)
        order, _, seat = seats(label)
        full = torch.zeros(experts, most, x.shape[1], device=device, dtype=dtype)
        full[label[order], seat] = x[order]
        y = torch.baddbmm(down_bias[:, None], F.relu(torch.baddbmm(up_bias[:, None], full, up_t)), down_t)
        out[order] = y[label[order], seat]
        return out

    def grouped():
        label = scores.argmax(1)
        order, loads, _ = seats(label)
        ends = loads.cumsum(0).to(torch.int32)
        y = F.relu(torch._grouped_mm(x[order].bfloat16(), up_b, offs=ends) + up_bias_b[label[order]])
        y = torch._grouped_mm(y, down_b, offs=ends) + down_bias_b[label[order]]
        out[order] = y.to(dtype)
        return out

    forms = {"loop": lambda: loop(x, scores.argmax(1), experts, nets_of_path, out), "padded bmm": padded}
    if dtype == torch.float16 and device.type == "cuda" and hasattr(torch, "_grouped_mm"):
        up_b, down_b = (t.bfloat16().transpose(1, 2) for t in (up, down))
        up_bias_b, down_bias_b = up_bias.bfloat16(), down_bias.bfloat16()
        forms["grouped mm, bf16"] = grouped
    if compiled:
        forms["padded bmm, compiled"] = torch.compile(padded)
    return forms


# -------------------------------------------------------------------------------------------- super-resolution


def codes(y):
    return (y * 255).round().clamp(0, 255).to(torch.uint8)


def sr_large(server, arm, device, dtype, compiled):
    frame = torch.from_numpy(server.array("input", arm, "frame")).to(device)
    net = Net(nets.layers(Weights(server, arm), "large")).eval().to(device, dtype)
    last = Net(nets.layers(Weights(server, arm), "large")).eval().to(device, dtype, memory_format=torch.channels_last)
    run = lambda n: codes(n((frame[None].to(dtype) / 255))[0])
    forms = {"eager": lambda: run(net), "eager, channels last": lambda: run(last)}
    if compiled:
        quick = torch.compile(last)
        forms["compiled"] = lambda: run(quick)
    return forms


def sr_routed(server, arm, device, dtype, compiled):
    """A loop over classes of 64x64 tiles with what the layers need around them; the routes are given, so its router is
    free. At the frame's edge tiles are padded once, not at every layer: pixels there differ."""
    size, halo = 64, 8
    frame = torch.from_numpy(server.array("input", arm, "frame")).to(device)
    weights = Weights(server, arm)
    server.seconds(arm, 1)
    route, *exits = (server.array("chosen", arm, name).astype(int) for name in ("route", "exit0", "exit1"))
    classes = np.where(route < 3, route, np.where(exits[0] == 0, 3, np.where(exits[1] == 0, 4, 5)))
    labels = torch.from_numpy(classes).to(device)
    chosen = {name: Net(nets.layers(weights, name)).eval().to(device, dtype)
              for name in ("small", "exit1", "exit2", "large")}
    height, width = frame.shape[1:]
    down, across = -(-height // size), -(-width // size)

    def residual(net):
        def run(tiles):
            for step in net.steps:
                tiles = step(tiles)
            return tiles[:, :, halo:-halo, halo:-halo]

        return run

    def none(tiles):
        return torch.zeros(len(tiles), 4, size, size, device=device, dtype=dtype)

    nets_of_path = [none, none, *(residual(chosen[n]) for n in ("small", "exit1", "exit2", "large"))]
    out = torch.empty(down * across, 4, size, size, device=device, dtype=dtype)

    def run():
        x = frame[None].to(dtype) / 255
        base = F.conv2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), chosen["large"].base)
        padded = F.pad(x, (halo, halo + across * size - width, halo, halo + down * size - height))
        side = size + 2 * halo
        tiles = padded.unfold(2, side, size).unfold(3, side, size).reshape(-1, 1, side, side)
        y = loop(tiles, labels, len(nets_of_path), nets_of_path, out)
        y = y.reshape(down, across, 4, size, size).permute(2, 0, 3, 1, 4).reshape(1, 4, down * size, across * size)
        return codes(F.pixel_shuffle(y[:, :, :height, :width] + base, 2)[0])

    return {"loop, routes given": run}


# -------------------------------------------------------------------------------------------------------- time


def captured(form, device):
    """A CUDA graph of it, for one structure and one length."""
    if device.type != "cuda":
        return form
    form()
    wait(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = form()

    def replay():
        graph.replay()
        return out

    return replay


def trips(server, arm, device, dtype, compiled):
    x = torch.from_numpy(server.array("input", arm, "x")).to(device, dtype)
    most = int(server.array("input", arm, "counts").max())

    def run():
        y = x
        for _ in range(most):
            y = y + x
        return y

    return {"loop": run, "loop, captured": captured(run, device)}


def lstm(server, arm, device, dtype, compiled):
    x = torch.from_numpy(server.array("input", arm, "x")).to(device, dtype)
    weights = Weights(server, arm)
    of_x, bias_x, of_h, bias_h = (weights.tensor(name, x) for name in (
        "project.weight", "project.bias", "lstm.weight_hh", "lstm.bias_hh"))
    hidden = of_h.shape[1]
    net = torch.nn.LSTM(x.shape[2], hidden, batch_first=True).to(device, dtype)
    cell = torch.nn.LSTMCell(x.shape[2], hidden).to(device, dtype)
    for of, end in ((net, "_l0"), (cell, "")):
        for name, value in zip(("weight_ih", "bias_ih", "weight_hh", "bias_hh"), (of_x, bias_x, of_h, bias_h)):
            getattr(of, name + end).data.copy_(value)

    def cells():
        h = c = torch.zeros(x.shape[0], hidden, device=device, dtype=dtype)
        for t in range(x.shape[1]):
            h, c = cell(x[:, t], (h, c))
        return h

    return {"nn.LSTM": lambda: net(x)[0][:, -1], "cells": cells, "cells, captured": captured(cells, device)}


def trees(server, arm, device, dtype, compiled):
    """Level by level; which vertices and children these are is given."""
    x = torch.from_numpy(server.array("input", arm, "x")).to(device, dtype)
    lengths, indices = (server.array("input", arm, name) for name in ("lengths", "indices"))
    weights = Weights(server, arm)
    weight, bias = (weights.tensor(f"vertex.{name}", x) for name in ("weight", "bias"))
    level, ends = np.zeros(len(lengths), int), np.cumsum(lengths)
    for v, (end, length) in enumerate(zip(ends, lengths)):  # children come before their vertex
        level[v] = 1 + max(level[indices[end - length : end]], default=-1)
    at = [torch.from_numpy(np.flatnonzero(level == n)).to(device) for n in range(level.max() + 1)]
    below = [torch.from_numpy(indices[(ends[level == n] - 2)[:, None] + np.arange(2)].astype(np.int64)).to(device)
             for n in range(1, level.max() + 1)]
    h = torch.empty_like(x)

    def run():
        h[at[0]] = torch.tanh(x[at[0]] + bias)
        for rows, children in zip(at[1:], below):
            h[rows] = torch.tanh(F.linear(h[children].flatten(1), weight, bias) + x[rows])
        return h

    return {"by levels": run, "by levels, captured": captured(run, device)}


# -------------------------------------------------------------------------------------------------- measuring

PEERS = {"livesr-10-8": livesr, "livesr-10-20": livesr, "moe-even": moe, "moe-skewed": moe, "sr-large": sr_large,
         "sr-routed": sr_routed, "trips-1000": trips, "lstm-64-1": lstm, "lstm-64-32": lstm, "trees-64-128": trees}
OURS = {"moe-even": ("", "-serial"), "moe-skewed": ("", "-serial")}


def wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def torch_seconds(form, runs, device):
    """(wall, by events) of a run."""
    wait(device)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if device.type == "cuda" else None
    since = time.perf_counter()
    if events:
        events[0].record()
    for _ in range(runs):
        form()
    if events:
        events[1].record()
    wait(device)
    wall = (time.perf_counter() - since) / runs
    return wall, events[0].elapsed_time(events[1]) * 1e-3 / runs if events else wall


def difference(ours, theirs):
    theirs = theirs.float().cpu().numpy() if theirs.dtype != torch.uint8 else theirs.cpu().numpy().astype(int)
    ours = ours.astype(theirs.dtype)
    if theirs.dtype == np.float32:
        return float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    inner = np.s_[:, 24:-24, 24:-24] if min(ours.shape[1:]) > 64 else np.s_[:]
    return float(np.abs(ours[inner] - theirs[inner]).max())


def runs_for(seconds):
    return max(1, min(200, int(20e-3 / max(seconds, 1e-7))))


def measure(name, kind, args, device):
    dtype = SHARE[kind]
    arms = [f"{name}:{kind}{tail}" for tail in OURS.get(name, ("",))]
    server = Server(args.program, arms, args.tiny)
    rows = []
    with torch.inference_mode():
        forms = PEERS[name](server, 0, device, dtype, args.compile)
        for arm in range(len(arms)):
            server.seconds(arm, 3)
        ours = [server.array("output", arm) for arm in range(len(arms))]
        off = {}
        for title in list(forms):
            try:
                off[title] = difference(ours[0], forms[title]())
            except RuntimeError as error:  # a form that this release or this GPU has not
                print(f"  {name} {kind} {title}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
                del forms[title]
        if args.check:
            rows = [dict(network=name, kind=kind, torch=title, off_by=off[title]) for title in forms]
        else:
            rows = turns(server, arms, forms, off, args, device, name, kind)
    server.close()
    return rows


def turns(server, arms, forms, off, args, device, name, kind):
    counts = {title: runs_for(torch_seconds(form, 3, device)[0]) for title, form in forms.items()}
    mine = [runs_for(server.seconds(arm, 3)) for arm in range(len(arms))]
    samples = {(arm, title): [] for arm in range(len(arms)) for title in forms}
    for turn in range(-1, args.turns):  # the first warms up
        for title, form in forms.items():
            for arm in range(len(arms)):
                ours = server.seconds(arm, mine[arm])
                wall, events = torch_seconds(form, counts[title], device)
                if turn >= 0:
                    samples[arm, title].append((ours, wall, events, ours / wall))
    rows = []
    for (arm, title), taken in samples.items():
        ours, wall, events, ratio = (float(np.median(v)) for v in zip(*taken))
        rows.append(dict(network=name, kind=kind, ours=arms[arm], torch=title, ours_ms=1e3 * ours, torch_ms=1e3 * wall,
                         torch_events_ms=1e3 * events, ratio=ratio, turns=args.turns, off_by=off[title]))
    return rows


def show(rows, check):
    if check:
        for r in rows:
            print(f"{r['network']:14} {r['kind']:5} {r['torch']:28} differs by {r['off_by']:.2g}")
    else:
        for r in rows:
            print(f"{r['ours']:26} {r['torch']:28} {r['ours_ms']:10.4f} {r['torch_ms']:10.4f} "
                  f"{r['torch_events_ms']:10.4f} {r['ratio']:10.3f}"
                  f" {r['off_by']:10.2g}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--program", help="bench/cuda [of the build for this device]")
    parser.add_argument("--only", default="", help="networks with this in their name")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--check", action="store_true", help="results only")
    parser.add_argument("--compile", action="store_true", help="torch.compile too: minutes")
    parser.add_argument("--tf32", action="store_true", help="PyTorch may use TF32 for f32; ours does not")
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--json")
    args = parser.parse_args()
    args.check = args.check or args.device == "cpu"  # without a GPU ours is emulated: its times mean nothing
    args.program = args.program or f"build/cuda{'-emulated' if args.device == 'cpu' else ''}/bench/cuda"
    device = torch.device(args.device)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.tf32
    torch.backends.cudnn.benchmark = True
    torch.set_grad_enabled(False)
    where = torch.cuda.get_device_name() if device.type == "cuda" else "CPU, ours emulated: no times"
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {where}{', TF32' if args.tf32 else ''}")
    if not args.check:
        print(f"{'ours':26} {'torch':28} {'ours ms':>10} {'torch ms':>10} {'events ms':>10}"
              f" {'ours/torch':>10} {'off by':>10}")
    rows = []
    for name in PEERS:
        for kind in ("f32", "half") if args.only in name else ():
            if kind == "half" and (name == "trips-1000" or (device.type == "cpu" and name.startswith("sr"))):
                continue  # a thousand roundings; PyTorch's own f16 on a CPU is the slow and inexact one of the two
            rows += (new := measure(name, kind, args, device))
            show(new, args.check)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(dict(torch=torch.__version__, cuda=torch.version.cuda, device=where, tf32=args.tf32, rows=rows),
                      file, indent=1)


if __name__ == "__main__":
    main()
