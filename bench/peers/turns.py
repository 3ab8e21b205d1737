"""Contenders in turns, and what their table says.

Owns: how a figure is made: medians over turns of times and of ratios within a turn. Must never: know what is run.
"""

import importlib
import os
import sys
import time

import numpy as np

import product_blas

PEERS = {"onnxruntime": ("onnxruntime", "onnx"), "torch": ("torch",), "ncnn": ("ncnn",), "openblas": ()}
COLUMNS = (f"{'':42} {'us':>10} {'GFLOP/s':>8} {'limit us':>9} {'share':>6} ")


def installed(wanted):
    """Those of the peers that are here, and a line that names the others."""
    here, lines = [], []
    for peer in wanted:
        try:
            if peer == "openblas" and not product_blas.library():
                raise ImportError("no library of this name, and no package scipy-openblas32")
            versions = [getattr(importlib.import_module(m), "__version__", "") for m in PEERS[peer]]
            here.append(peer)
            lines.append(" ".join([peer, *versions[:1]]))
        except ImportError as missing:
            lines.append(f"{peer} left out: {missing}")
    return here, "; ".join(lines)


def processor():
    try:
        with open("/proc/cpuinfo") as f:
            lines = dict(line.split(":", 1) for line in f.read().split("\n\n")[0].splitlines() if ":" in line)
        facts = {k.strip(): v.strip() for k, v in lines.items()}
        if "model name" in facts:
            return (f"{facts['model name']} (family {facts.get('cpu family')}, model {facts.get('model')}), "
                    f"{os.cpu_count()} processors, cache {facts.get('cache size')}")
    except OSError:
        pass
    import platform
    return platform.processor() or platform.machine()


class Progress:
    """A line that says what is measured, on a terminal only: tables hold what lasts."""

    def __init__(self, total):
        self.total, self.done, self.since = total, 0, time.monotonic()

    def now(self, name):
        self.done += 1
        if sys.stderr.isatty():
            print(f"\r{self.done} of {self.total}, {time.monotonic() - self.since:.0f} s: {name:60.60}", end="\r",
                  file=sys.stderr, flush=True)


def in_turns(runners, turns, seconds):
    """[turns, runners] seconds of one run. Each runs so often in a turn that it takes some `seconds`. Where a turn
    takes more than a second there are a third of them. What is too short for the clock takes a nanosecond."""
    for r in runners:
        r.run(1)
    once = [max(r.run(1), 1e-7) for r in runners]
    often = [max(1, min(4096, int(seconds / each))) for each in once]
    turns = max(1, turns // 3) if sum(once) > 1 else turns
    return np.maximum([[r.run(n) / n for r, n in zip(runners, often)] for _ in range(turns)], 1e-9)


def ratios(row, runners, times):
    """Theirs over ours, and how far the middle half of the turns lies apart."""
    row["us"] = float(np.median(times[:, 0])) * 1e6
    row["spread"] = 0.0
    for i, r in enumerate(runners[1:], 1):
        of_turns = times[:, i] / times[:, 0]
        low, middle, high = np.percentile(of_turns, (25, 50, 75))
        row[r.name] = float(middle)
        row["spread"] = max(row["spread"], float((high - low) / middle))


def relative_error(result, truth):
    return float(np.max(np.abs(result.astype(np.float64) - truth)) / np.max(np.abs(truth)))


class Limits:
    """The shortest time that the machine allows: by its multiply-add peak, or by bytes that must be read or moved."""

    def __init__(self, ours, tier):
        self.ours, self.tier, self.known = ours, tier, {}

    def peak(self):
        return self.ours.peak(self.tier)

    def bandwidth(self, verb, count):
        if (verb, count) not in self.known:
            self.known[verb, count] = self.ours.bandwidth(verb, count)
        return self.known[verb, count]

    def us(self, flops, read_bytes=0, reads=1, moved_bytes=0, moved_of=0):
        """reads: how often these are read. moved_of: of how many bytes those moved are a part: which cache they are
        in."""
        by = [flops / self.peak() * 1e-3 if flops else 0]
        if read_bytes:
            by.append(reads * read_bytes / self.bandwidth("read", read_bytes) * 1e-3)
        if moved_bytes:
            by.append(moved_bytes / self.bandwidth("copy", moved_of // 2) * 1e-3)
        return max(by)


def show(row, peers):
    """peers: columns of ratios. A row that is wrong has no times."""
    if "wrong" in row:
        print(f"{row['case']:42} WRONG: {row['wrong']}", flush=True)
        return
    rate = row["flops"] / row["us"] * 1e-3
    rate = f"{rate:8.1f}" if row["flops"] else f"{row['us'] * 1e3 / row['elements']:7.3f}*"
    print(f"{row['case']:42} {row['us']:10.2f} {rate} {row['limit']:9.2f} {row['limit'] / row['us']:6.1%} "
          + " ".join(f"{row[p]:11.3f}" if p in row else f"{'':11}" for p in peers)
          + f"  {row['error']:.1e} {row.get('theirs', float('nan')):.1e} {row['arenas'] / 1e6:8.2f}", flush=True)
    if row.get("note"):
        print(f"    {row['note']}", flush=True)
