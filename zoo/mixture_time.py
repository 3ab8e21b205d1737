"""mixture_time.py - a mixture of the zoo beside PyTorch's eager mode, run by turns in this process, on one thread.

    python zoo/equal.py swinmoe "factor 1.25, batch 2" && python zoo/mixture_time.py swinmoe "factor 1.25, batch 2"

Takes the file that equal.py left. Prints medians in ms, their ratio, and bytes: what PyTorch has alive at most beside
its weights, and our arenas; with slots of some shares of the weights that come and go, bytes read and hits too.
"""

import argparse
import os
import statistics
import time
import weakref

import brainstorm
import equal
import mixtures
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Alive(TorchDispatchMode):
    """Counts bytes of what ops make, until the last tensor of it is gone."""

    def __init__(self):
        super().__init__()
        self.seen, self.bytes, self.most = set(), 0, 0

    def gone(self, key, size):
        self.seen.discard(key)
        self.bytes -= size

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        given = {x.untyped_storage().data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        made = function(*args, **(kwargs or {}))
        for x in tree_leaves(made):
            storage = x.untyped_storage() if isinstance(x, torch.Tensor) else None
            if storage is None or storage.data_ptr() in given | self.seen:
                continue
            key, size = storage.data_ptr(), storage.nbytes()
            self.seen.add(key)
            self.bytes += size
            self.most = max(self.most, self.bytes)
            weakref.finalize(storage, self.gone, key, size)
        return made


def peak(net, inputs):
    """The most bytes of tensors that a run has alive beside what was there before it."""
    with torch.no_grad(), Alive() as alive:
        net(*inputs)
    return alive.most


def timed(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


def arenas(plan):
    return sum(plan.bytes[name] for name in ("persistent", "transient", "staging", "slots"))


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("name", choices=["switch", "taskmoe", "swinmoe"])
    words.add_argument("variant", nargs="?", default="small")
    words.add_argument("--folder", default="/tmp")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--shares", type=int, nargs="*", default=[], help="slots, in hundredths of what streams")
    args = words.parse_args()
    torch.set_num_threads(1)
    variant = mixtures.loaded(args.name, "setup").VARIANTS[args.variant]
    inputs, net = variant.inputs(), variant.plain()
    stem = os.path.join(args.folder, f"{args.name}.{args.variant}".replace(" ", "_"))
    model = brainstorm.open(f"{stem}.gguf")
    given = equal.fed(model, inputs)
    plans = {"ours": model.plan()}
    everything = model.plan(slots=2**40).stream.all_bytes
    for share in args.shares:
        plans[f"slots {share} %"] = model.plan(slots=everything * share // 100)
    sessions = {name: plan.session() for name, plan in plans.items()}
    runs = {"PyTorch": lambda: net(*inputs)}
    runs |= {name: lambda session=session: session.run(given) for name, session in sessions.items()}
    times = {name: [] for name in runs}
    with torch.no_grad():
        for turn in range(args.rounds + 1):
            for name, run in runs.items():
                spent = timed(run)
                if turn:
                    times[name].append(spent)
        medians = {name: statistics.median(of) for name, of in times.items()}
    weights = sum(x.numel() * x.element_size() for x in net.parameters())
    print(f"{args.name} {args.variant}: weights {weights}, PyTorch beside them {peak(net, inputs)} at most")
    for name, median in medians.items():
        more = ""
        if name != "PyTorch":
            ratio = statistics.median(a / b for a, b in zip(times["PyTorch"], times[name]))
            more = f", {ratio:.2f}x; {plans[name].bytes['transient']} transient, {arenas(plans[name])} in all"
        if name.startswith("slots"):
            stats = sessions[name].stream_stats
            more += f", {stats.bytes_read} read and {stats.hits} hits in {args.rounds + 1} runs"
        print(f"  {name}: {median:.1f} ms{more}")


if __name__ == "__main__":
    main()
