"""How fast super-resolution is here: the static nets on one frame, and the routed net against them on clips.

    make bench && python3 bench/sr.py --model models/sr2x_video.gguf [--tiers avx512,avx2] [--threads 1,2] [CLIP...]

All set-ups live in one process and take turns on the same frame. On one frame, figures are medians over turns and
ratios medians of ratios within a turn; on clips, where frames differ, both are of sums over frames. Ratios are of
processor time, which other work on the machine disturbs least. Clips are any video (y4m, or what ffmpeg reads): they
are halved, and the original is the reference of the PSNR. Needs numpy.
"""

import argparse
import os

import numpy as np

import luma

NETS = ("bicubic", "small", "exit1", "exit2", "large")
CONVS = ("direct", "winograd", "auto")
# multiply-adds a pixel of the nets: 3x3 layers of 1-12-12-12-12-4 and 1-32-...-32-4 channels
MULTIPLY_ADDS = {"bicubic": 0, "small": 9 * (12 + 3 * 144 + 48),
                 **{n: 9 * (32 + k * 1024 + 128) for n, k in (("exit1", 2), ("exit2", 4), ("large", 6))}}


def machine(server, tiers):
    peaks = ", ".join(f"{tier} {server.peak(tier):.0f}" for tier in tiers)
    return f"multiply-add peak a thread, GFLOP/s: {peaks}; {os.cpu_count()} processors; load {os.getloadavg()[0]:.1f}"


def ratio(ours, theirs):
    return float(np.median(np.array(ours) / np.array(theirs)))


# ---------------------------------------------------------------------------------------------- one frame


def static(args, frame):
    cases = [(tier, n, net, conv) for tier in args.tiers for n in args.threads for net in NETS for conv in CONVS
             if net != "bicubic" or conv == "direct"]
    words = [f"--tier {tier} --threads {n} --route {net} --conv {conv}" for tier, n, net, conv in cases]
    server = luma.Frames(args.model, frame.shape[1], frame.shape[0], words)
    server.frame(frame)
    print(f"\nstatic nets, {frame.shape[1]}x{frame.shape[0]} -> x2, {args.turns} turns; {machine(server, args.tiers)}")
    print(f"{'tier':8} {'threads':>7} {'net':8} {'conv':9} {'fps':>8} {'ms':>8} {'cpu ms':>8}"
          f" {'GFLOP/s':>8} {'of peak':>8} {'to large direct':>15}")
    runs = [[server.run(i, fresh=True) for i in range(len(cases))] for _ in range(args.turns + 1)][1:]
    peaks = {tier: server.peak(tier) for tier in args.tiers}
    server.close()
    for i, (tier, threads, net, conv) in enumerate(cases):
        base = cases.index((tier, threads, "large", "direct"))
        ms, cpu = (float(np.median([getattr(turn[i], kind) for turn in runs])) for kind in ("ms", "cpu_ms"))
        rate = 2e-6 * MULTIPLY_ADDS[net] * frame.size / cpu  # a thread's
        print(f"{tier:8} {threads:7d} {net:8} {conv if net != 'bicubic' else '':9} {1e3 / ms:8.1f} {ms:8.2f} {cpu:8.2f}"
              f" {rate:8.0f}"
              f" {rate / peaks[tier]:8.0%} {ratio([t[i].cpu_ms for t in runs], [t[base].cpu_ms for t in runs]):15.3f}")


# ------------------------------------------------------------------------------------------------- clips


def routed(args, path):
    """Frame by frame in order, because a tile that did not change keeps its result."""
    small, reference = luma.halved_clip(path, args.frames)
    threads = f" --threads {args.threads[-1]}"
    rows = {"large": ("--route large", True), "small": ("--route small", True), "bicubic": ("--route bicubic", True),
            "routed, no reuse": (f"--quality {args.quality}", True), "routed": (f"--quality {args.quality}", False)}
    server = luma.Frames(args.model, small.shape[2], small.shape[1], [words + threads for words, _ in rows.values()])
    runs, quality = {name: [] for name in rows}, {name: [] for name in rows}
    for number, (frame, wanted) in enumerate(zip(small, reference)):
        server.frame(frame)
        for warm in range(2 if number == 0 else 1):
            for i, (name, (_, fresh)) in enumerate(rows.items()):
                runs[name].append(server.run(i, fresh=fresh or number == 0))
        for i, name in enumerate(rows):
            quality[name].append(luma.psnr(server.result(i), wanted))
    print(f"\n{luma.clip_name(path)}: {len(small)} frames {small.shape[2]}x{small.shape[1]} -> x2,"
          f" quality {args.quality},"
          f" {args.threads[-1]} threads, tier {server.tier()}, conv auto; {machine(server, [server.tier()])}")
    server.close()
    print(f"{'':18} {'fps':>8} {'ms':>8} {'cpu ms':>8} {'of large':>8} {'routing':>8} {'PSNR-Y':>7}"
          "   cells: reuse bicubic small large (exits)")
    for name in rows:
        mine = runs[name][1:]
        ms, cpu, routing = (float(np.mean([getattr(r, kind) for r in mine])) for kind in ("ms", "cpu_ms", "routing_ms"))
        share = sum(r.cpu_ms for r in mine) / sum(r.cpu_ms for r in runs["large"][1:])
        cells, exits = mine[-1].cells - runs[name][0].cells, mine[-1].exits - runs[name][0].exits
        shares = "  ".join(f"{c / max(1, cells.sum()):4.0%}" for c in cells)
        routes = shares + " (" + " / ".join(f"{e / max(1, exits.sum()):.0%}" for e in exits) + ")"
        print(f"{name:18} {1e3 / ms:8.1f} {ms:8.2f} {cpu:8.2f} {share:8.3f} {routing:8.3f}"
              f" {np.mean(quality[name]):7.3f}   "
              + (routes if "routed" in name else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("clips", nargs="*")
    parser.add_argument("--model", default="models/sr2x_video.gguf")
    parser.add_argument("--tiers", type=lambda s: s.split(","), help="[the best one here]")
    parser.add_argument("--threads", type=lambda s: [int(n) for n in s.split(",")], default=[1, 2])
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--frames", type=int, default=24, help="of each clip [24]")
    parser.add_argument("--quality", type=float, default=93)
    parser.add_argument("--only", choices=("static", "clips"))
    args = parser.parse_args()
    frame = luma.fitted(luma.rendered_clip(1, 640, 368), 640, 360)[0]
    if not args.tiers:
        server = luma.Frames(args.model, 640, 360, ["--route bicubic"])
        args.tiers = [server.tier()]
        server.close()
    if args.only != "clips":
        static(args, frame)
    for path in luma.clips_given(args.clips) if args.only != "static" else ():
        routed(args, path)


if __name__ == "__main__":
    main()
