"""One net, the same frames, run in turns by brainstorm and by its peers: medians, ratios, and whether they agree.

    pip install -r bench/peers/requirements.txt
    make bench && python3 bench/peers/compare.py --model models/sr2x_video.gguf [--net large] [--clip clip.y4m]

Every turn runs each program once on one frame, one after the other, on one thread; a ratio is the median over turns of
(ours / theirs) within a turn, so that other work on the machine strikes both. Time is the processor's, which on one
thread is the wall's on an idle machine. Ours is timed from u8 luma to u8 luma, conversions included; the peers from
f32 to f32, theirs left out.
"""

import argparse
import os
import sys

import numpy as np

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "..")]
import luma
import nets


def open_peers(args, layers, folder):
    peers, wanted = [], args.peers.split(",")
    if "onnxruntime" in wanted:
        from onnx_peer import OnnxPeer
        peers.append(OnnxPeer(layers, os.path.join(folder, args.net + ".onnx")))
    if "ncnn" in wanted:
        from ncnn_peer import NcnnPeer, WAYS
        peers += [NcnnPeer(way, layers, os.path.join(folder, args.net)) for way in WAYS]
    if "torch" in wanted:
        from torch_peer import TorchPeer, ways
        for way in ways(args.compile):
            try:
                peers.append(TorchPeer(way, layers, (args.height, args.width)))
            except Exception as error:  # a way that this release no longer has
                print(f"torch {way}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
    return peers


def setups(args):
    common = f"--route {args.net} --threads 1 --order depth --conv "
    tier = f" --tier {args.tier}" if args.tier else ""
    return {f"brainstorm {conv}": f"{common}{conv}{tier}" for conv in ("direct", "auto")}


def turn(server, names, peers, frame):
    """{name: time} and {name: u8 result} of one frame."""
    times, pictures = {}, {}
    server.frame(frame)
    x = frame.astype(np.float32) / 255
    for i, name in enumerate(names):
        times[name] = server.run(i, fresh=True)
        pictures[name] = server.result(i)
    for peer in peers:
        times[peer.name], y = peer.run(x)
        pictures[peer.name] = np.clip(np.rint(y * 255), 0, 255).astype(np.uint8)
    return times, pictures


def table(times, differences, peak, operations):
    direct, auto = list(times)[:2]
    cpu = {name: np.array([t.cpu_ms for t in times[name]]) for name in times}
    print(f"{'':34} {'wall ms':>8} {'cpu ms':>8} {'GFLOP/s':>8} {'of peak':>8} {'direct/it':>9} {'auto/it':>8}"
          f" {'differs':>8} {'by':>3}")
    for name in times:
        rate = operations / np.median(cpu[name]) * 1e-6
        share, most = differences[name]
        print(f"{name:34} {np.median([t.ms for t in times[name]]):8.2f} {np.median(cpu[name]):8.2f} {rate:8.0f}"
              f" {rate / peak:8.0%} {np.median(cpu[direct] / cpu[name]):9.2f} {np.median(cpu[auto] / cpu[name]):8.2f}"
              f" {share:8.3%} {most:3d}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", default="models/sr2x_video.gguf")
    parser.add_argument("--net", default="large", choices=list(nets.NETS))
    parser.add_argument("--clip", help="8-bit y4m of any size; else a clip is rendered")
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--tier")
    parser.add_argument("--peers", default="onnxruntime,ncnn,torch")
    parser.add_argument("--compile", action="store_true", help="torch.compile too: needs a C++ compiler and a minute")
    args = parser.parse_args()

    folder = os.path.join(luma.build_dir(), "bench")
    os.makedirs(folder, exist_ok=True)
    weights = nets.read_weights(args.model)
    clip = luma.read_luma(args.clip, 8) if args.clip else luma.rendered_clip(4, 640, 368)
    frames = luma.fitted(clip, args.width, args.height)
    ours = setups(args)
    server = luma.Frames(args.model, args.width, args.height, ours.values())
    tier = args.tier or server.tier()
    peers = open_peers(args, nets.layers(weights, args.net), folder)
    names = [*ours, *(p.name for p in peers)]
    times, differences = {name: [] for name in names}, {name: (0.0, 0) for name in names}
    for i in range(-1, args.turns):  # the first warms up
        now, pictures = turn(server, list(ours), peers, frames[i % len(frames)])
        for name in names if i >= 0 else ():
            times[name].append(now[name])
            off = np.abs(pictures[name].astype(int) - pictures[names[0]])
            share, most = differences[name]
            differences[name] = (max(share, float(np.mean(off > 0))), max(most, int(off.max())))
    peak = server.peak(tier)
    print(f"net '{args.net}', {args.width}x{args.height} -> x2, 1 thread, our tier {tier},"
          f" multiply-add peak {peak:.0f} GFLOP/s,"
          f" {args.turns} turns; load {os.getloadavg()[0]:.1f}")
    table(times, differences, peak, nets.operations(weights, args.net, args.width, args.height))
    server.close()


if __name__ == "__main__":
    main()
