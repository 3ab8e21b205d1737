"""bench.py - the six networks of the zoo beside PyTorch's eager mode, with each optimisation on and off: time, bytes.

    make bench-zoo ARGS="--only livesr:10/8 msdnet:never --seconds 60"

One thread; all contenders take turns, one run each, so that what else the machine does meets all of them; medians, and
the median of ratios within a turn. PyTorch computes plain.py, that is, what was decided and no more, in the faster of
its memory layouts (both are told). Each column of ours adds something to the one before it; what this build of the
library does not have is named. Needs torch, onnxscript and the brainstorm package with its extension module; files
are exported into the folder once, which takes minutes. Must never compare runs of different minutes.
"""

import argparse
import copy
import json
import os
import statistics
import sys
import time

import alive
import common
import micro
import page
import torch

SHARE = 0.25  # of all weights of blocks, in slots
DEFAULT = ["livesr:10/8", "msdnet:never", "msdnet:always", "dynamic_routing:A", "switch:8, 4 layers", "taskmoe:16x32",
           "swinmoe:factor 1.25, batch 2"]
ADDED = {"dataflow": "+ dataflow", "fusion": "+ fusion"}  # switches of Model.plan: off in the first column
EVERY, PLAIN, ALL, SLOTS = "every cell", "plain", "all, planner's order", f"all, {SHARE:.0%} in slots"
TORCH, LAST = "PyTorch", "PyTorch, channels last"
COLUMNS = [TORCH, LAST, EVERY, PLAIN, *ADDED.values(), ALL, SLOTS]


def switches(model):
    """{what a contender is called: arguments of Model.plan}."""
    there = common.switches(ADDED)
    off = {"order": "breadth", **{switch: False for switch in there}}
    ways = {PLAIN: dict(off)}
    for switch in there:
        off[switch] = True
        ways[ADDED[switch]] = dict(off)
    ways[ALL] = {}
    stream = model.plan(slots=2**63).stream
    if stream.all_bytes:
        ways[SLOTS] = {"slots": max(stream.least_bytes, int(SHARE * stream.all_bytes))}
    return ways


def of_torch(plain, inputs):
    """PyTorch's contenders: {name: function}."""
    ways = {TORCH: lambda: common.eager(plain, inputs)}
    if inputs[0].dim() == 4:
        last = copy.deepcopy(plain).to(memory_format=torch.channels_last)
        images = [x.contiguous(memory_format=torch.channels_last) for x in inputs]
        ways[LAST] = lambda: common.eager(last, images)
    return ways


def contenders(name, key, folder):
    """({name: function}, {name of ours: session}, the first way's net, inputs)."""
    variant = common.variants(name)[key]
    plain, inputs = variant.plain(), variant.inputs()
    import brainstorm
    marked = lambda: variant.dynamic(plain)
    model = brainstorm.open(common.file_of(name, key, marked, folder))
    fed, sessions, ways = common.fed(model, inputs), {}, of_torch(plain, inputs)
    if hasattr(variant, "dense"):
        dense = brainstorm.open(common.dense_file_of(name, key, marked, folder))
        ways[EVERY] = runner(sessions, EVERY, dense, fed, {})
    for way, options in switches(model).items():
        ways[way] = runner(sessions, way, model, fed, options)
    return ways, sessions, plain, inputs


def runner(sessions, way, model, fed, options):
    sessions[way] = session = model.plan(**options).session()
    return lambda: session.run(fed)


def measured(ways, seconds, turns, clock):
    """{name: [seconds]}, in turns: one that is not counted, and as many as the time is enough for, but at least so
    many."""
    times, began = {name: [] for name in ways}, time.perf_counter()
    for turn in range(1000):
        if turn > turns and (time.perf_counter() - began) * (turn + 1) / turn > seconds:
            break
        for name, run in ways.items():
            started = clock()
            run()
            if turn:
                times[name].append(clock() - started)
    return times


def row_of(name, key, args):
    ways, sessions, plain, inputs = contenders(name, key, args.folder)
    row = {"network": name, "variant": key, "torch_peak": alive.peak(plain, inputs), "ways": {},
           "torch_weights": sum(x.nbytes for x in common.of_net(plain))}
    clock = time.process_time if args.processor else time.perf_counter
    times = measured(ways, args.seconds, args.turns, clock)
    eager = min((way for way in (TORCH, LAST) if way in ways), key=lambda way: statistics.median(times[way]))
    row.update(faster=eager, turns=len(times[eager]), missing=common.missing(ADDED))
    for way in ways:
        told = {"ms": 1e3 * statistics.median(times[way]),
                "times": statistics.median(b / a for a, b in zip(times[way], times[eager]))}
        if way in sessions:
            told.update(arenas={k: int(v) for k, v in sessions[way].plan.bytes.items()})
        if way in sessions and sessions[way].plan.bytes["slots"]:
            stats = sessions[way].stream_stats
            told.update(read=stats.bytes_read // (row["turns"] + 1), hits=stats.hits, misses=stats.misses)
        row["ways"][way] = told
    if EVERY in ways:
        row["every"] = statistics.median(b / a for a, b in zip(times[ALL], times[EVERY]))
    for session in sessions.values():
        session.close()
    return row


def share(of, row):
    return of["arenas"]["transient"] / row["torch_peak"]


def held(of):
    """All that a session has."""
    return sum(of["arenas"][name] for name in ("persistent", "transient", "staging", "slots"))


def told(row):
    lines = [f"{row['network']} {row['variant']}: PyTorch has {row['torch_weights'] / 1e6:.1f} MB of weights and at "
             f"most {row['torch_peak'] / 1e6:.2f} MB of tensors alive beside them; \"{row['faster']}\" is the faster "
             f"layout; {row['turns']} turns"]
    for way, of in row["ways"].items():
        line = f"  {way:24} {of['ms']:10.1f} ms {of['times']:7.2f} times as fast"
        if "arenas" in of:
            line += (f"  activations {of['arenas']['transient'] / 1e6:.2f} MB, {100 * share(of, row):.0f} % of "
                     f"PyTorch's; in all {held(of) / 1e6:.1f} MB")
        if "read" in of:
            line += f"  read {of['read'] / 1e6:.2f} MB a run, {of['hits']} hits, {of['misses']} misses"
        lines.append(line)
    if "every" in row:
        lines.append(f"  {row['every']:.2f} times as fast as the plan in which every cell is computed")
    return "\n".join(lines)


def cell(row, column):
    of = row["ways"].get(column)
    if of is None:
        return "no build" if column in row["missing"] else ""
    return f"{of['ms']:.0f} ms" if column.startswith("PyTorch") else f"{of['times']:.2f}"


def table(rows):
    """Markdown: a network a line."""
    heads = ["network", *COLUMNS, "activations, of PyTorch's"]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        cells = [f"{row['network']} {row['variant']}", *(cell(row, column) for column in COLUMNS),
                 f"{100 * share(row['ways'][ALL], row):.0f} %"]
        lines.append(f"| {' | '.join(cells)} |")
    best = [row["ways"][ALL]["times"] for row in rows]
    lines.append(f"\nGeometric mean of \"{ALL}\": {statistics.geometric_mean(best):.2f}")
    return "\n".join(lines)


def needs_speed():
    """Ends the program where the package is a build for tests, whose times say nothing."""
    from brainstorm import running
    level = running.native().optimization
    if not {"-O2", "-O3"} & set(level.split()):
        sys.exit(f"the brainstorm package here was compiled with {level}; for times install it: pip install ./python")


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--only", nargs="*", default=DEFAULT, metavar="NETWORK:VARIANT")
    words.add_argument("--seconds", type=float, default=40, help="of turns of a network")
    words.add_argument("--turns", type=int, default=2, help="at least")
    words.add_argument("--processor", action="store_true", help="processor time, for a machine that is busy")
    words.add_argument("--folder", default=common.FOLDER)
    words.add_argument("--page", help="[zoo.html in the folder]")
    words.add_argument("--no-micro", action="store_true", help="without branches and experts")
    args = words.parse_args()
    needs_speed()
    torch.set_num_threads(1)
    os.makedirs(args.folder, exist_ok=True)
    networks = [common.named(word) for word in args.only]
    place, rows = args.page or os.path.join(args.folder, "zoo.html"), []
    small = {} if args.no_micro else micro.measured(args.folder)
    for name, key in networks:
        rows.append(row_of(name, key, args))
        print(told(rows[-1]), flush=True)
        with open(os.path.join(args.folder, "zoo.json"), "w") as file:
            json.dump({"networks": rows, "micro": small}, file, indent=1)
        page.written(rows, small, place)
    print(micro.told(small))
    if rows:
        print(f"\nTimes as fast as PyTorch in the faster of its layouts:\n\n{table(rows)}")
    print(f"{place} shows this")


if __name__ == "__main__":
    sys.exit(main())
