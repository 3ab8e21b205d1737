"""bench.py - the networks of the zoo beside PyTorch's eager mode: time, bytes of activations, bytes read.

    make bench-zoo ARGS="--only livesr:10/8 msdnet:never --runs 5"

One thread; all contenders take turns, one run each, so that what else the machine does meets all of them; medians, and
the median of ratios within a turn. PyTorch computes plain.py, that is, what was decided and no more, in the faster of
its memory layouts (both are told). Needs torch, onnxscript and the brainstorm package with its extension module;
exports into the folder once, which takes minutes. Must never compare runs of different minutes.
"""

import argparse
import json
import os
import statistics
import sys
import time
import weakref

import common
import page
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

SHARE = 0.25  # of all weights of blocks, in slots
DEFAULT = ["livesr:10/8", "msdnet:never", "msdnet:always", "dynamic_routing:A"]


class Alive(TorchDispatchMode):
    """The most bytes of tensors that ops have made and nobody has let go of."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor):
                self.see(tensor.untyped_storage())
        return made

    def see(self, storage):
        key, size = storage._cdata, storage.nbytes()
        if key in self.known or size == 0:
            return
        self.known[key] = size
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self.forget, key)

    def forget(self, key):
        self.now -= self.known.pop(key, 0)


def peak_of(net, inputs):
    weights = {p.untyped_storage()._cdata: 0 for p in common.of_net(net)}
    with torch.no_grad(), Alive() as alive:
        alive.known.update(weights)
        net(*inputs)
    return alive.peak


def switches(model):
    """{what a contender is called: arguments of Model.plan}."""
    ways = {"ours without dataflow": {"dataflow": False}, "ours, layer by layer": {"order": "breadth"}, "ours": {}}
    stream = model.plan(slots=2**63).stream
    if stream.all_bytes:
        ways[f"ours, {SHARE:.0%} slots"] = {"slots": max(stream.least_bytes, int(SHARE * stream.all_bytes))}
    return ways


def layouts(variant, plain, inputs):
    """PyTorch's contenders: {name: function}."""
    ways = {"PyTorch": lambda: common.eager(plain, inputs)}
    if inputs[0].dim() == 4:
        last = variant.plain().to(memory_format=torch.channels_last)
        images = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        ways["PyTorch, channels last"] = lambda: common.eager(last, images)
    return ways


def contenders(name, key, folder):
    variant = common.variants(name)[key]
    plain, inputs = variant.plain(), variant.inputs()
    import brainstorm
    model = brainstorm.open(common.file_of(name, key, variant.dynamic(plain), folder))
    fed, sessions, ways = common.fed(model, inputs), {}, layouts(variant, plain, inputs)
    if hasattr(variant, "dense"):
        dense = common.file_of(name, key, variant.dense(plain), os.path.join(folder, "dense"))
        ways["ours, every cell"] = runner(sessions, "ours, every cell", brainstorm.open(dense), fed, {})
    for way, options in switches(model).items():
        ways[way] = runner(sessions, way, model, fed, options)
    return ways, sessions, peak_of(plain, inputs), sum(x.nbytes for x in common.of_net(plain)), plain, inputs


def runner(sessions, way, model, fed, options):
    plan = model.plan(**options)
    sessions[way] = session = plan.session()
    return lambda: session.run(fed)


def measured(ways, runs):
    """{name: [seconds]}, in turns."""
    times = {name: [] for name in ways}
    for turn in range(runs + 1):
        for name, run in ways.items():
            started = time.perf_counter()
            run()
            if turn:
                times[name].append(time.perf_counter() - started)
    return times


def row_of(name, key, folder, runs):
    ways, sessions, peak, weights, *_ = contenders(name, key, folder)
    times = measured(ways, runs)
    eager = min((w for w in ways if w.startswith("PyTorch")), key=lambda w: statistics.median(times[w]))
    row = {"network": name, "variant": key, "torch_peak": peak, "torch_weights": weights, "faster": eager, "ways": {}}
    for way in ways:
        told = {"ms": 1e3 * statistics.median(times[way]),
                "times": statistics.median(b / a for a, b in zip(times[way], times[eager]))}
        if way in sessions:
            told.update(arenas={k: int(v) for k, v in sessions[way].plan.bytes.items()})
        if way in sessions and sessions[way].plan.bytes["slots"]:
            stats = sessions[way].stream_stats
            told.update(read=stats.bytes_read // (runs + 1), hits=stats.hits, misses=stats.misses, late=stats.late)
        row["ways"][way] = told
    for session in sessions.values():
        session.close()
    return row


def told(row):
    lines = [f"{row['network']} {row['variant']}: PyTorch has {row['torch_weights'] / 1e6:.1f} MB of weights and at "
             f"most {row['torch_peak'] / 1e6:.2f} MB of tensors alive; the faster layout is \"{row['faster']}\""]
    for way, of in row["ways"].items():
        line = f"  {way:26} {of['ms']:10.1f} ms {of['times']:7.2f} times as fast"
        if "arenas" in of:
            active = of["arenas"]["transient"]
            line += f"  activations {active / 1e6:.2f} MB, {100 * active / row['torch_peak']:.0f} % of PyTorch's"
        if "read" in of:
            line += f"  read {of['read'] / 1e6:.2f} MB a run, {of['hits']} hits, {of['misses']} misses"
        lines.append(line)
    return "\n".join(lines)


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--only", nargs="*", default=DEFAULT, metavar="NETWORK:VARIANT")
    words.add_argument("--runs", type=int, default=5)
    words.add_argument("--folder", default="build/zoo")
    words.add_argument("--page", default="build/zoo/zoo.html")
    args = words.parse_args()
    torch.set_num_threads(1)
    os.makedirs(os.path.join(args.folder, "dense"), exist_ok=True)
    rows = []
    for word in args.only:
        name, _, key = word.partition(":")
        rows.append(row_of(name, key or "small", args.folder, args.runs))
        print(told(rows[-1]), flush=True)
        with open(os.path.join(args.folder, "zoo.json"), "w") as file:
            json.dump(rows, file, indent=1)
        page.written(rows, args.page)
    print(f"{args.page} shows this")


if __name__ == "__main__":
    sys.exit(main())
