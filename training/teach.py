"""A store whose targets lie between the photographs and what a teacher makes of them.

    python3 teach.py --store STORE --model teacher --weights RUN/teacher.npz --out STORE2

A small net cannot learn what a photograph has by chance; the teacher's picture lacks that. Where the loss is squared,
learning from the mix is the same as learning from both with these shares. The teacher sees each picture turned and
mirrored, and the mean of its answers is taken, which is better than one. Small pictures and the weights of pictures are
those of the store that is read. Run again when the teacher is better: nets that are under way go on with it.
"""

import argparse
import os
import shutil
import time

import numpy as np
import torch

import data
import evaluate
import nets


def turned(plane, turn):
    """One of the eight ways to see a picture."""
    plane = plane[::-1] if turn & 1 else plane
    plane = plane[:, ::-1] if turn & 2 else plane
    return plane.T if turn & 4 else plane


def turned_back(plane, turn):
    plane = plane.T if turn & 4 else plane
    plane = plane[:, ::-1] if turn & 2 else plane
    return plane[::-1] if turn & 1 else plane


def answer(net, low, turns):
    """The teacher's picture, luma code, not rounded."""
    pictures = [turned_back(evaluate.enlarge(net, np.ascontiguousarray(turned(low, turn)))[-1], turn) for turn in turns]
    return np.clip(np.mean(pictures, 0), 0, 255)


def mixed(high, picture, share):
    """Codes times 256, as stores keep them."""
    return np.rint((1 - share) * high.astype(np.float32) + share * 256 * picture).astype(np.uint16)


def build(store, net, out, share, turns, pause_file=None):
    rows, pairs = data.open_pairs(store)
    part = out + ".new"
    os.makedirs(part, exist_ok=True)
    for name in ("index.npy", "lr.u8"):
        shutil.copyfile(os.path.join(store, name), os.path.join(part, name))
    begun = time.monotonic()
    with open(os.path.join(part, "hr.u16"), "wb") as file:
        for number, (high, low) in enumerate(pairs, 1):
            while pause_file and os.path.exists(pause_file):
                time.sleep(1)
            mixed(high, answer(net, low, turns), share).tofile(file)
            if number % 20 == 0:
                print(f"{number} of {len(pairs)} pictures, {time.monotonic() - begun:.0f} s", flush=True)
    os.rename(part, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--store", required=True)
    parser.add_argument("--model", default="teacher", choices=sorted(nets.SHAPES))
    parser.add_argument("--weights", required=True, help="plain weights of the teacher (.npz)")
    parser.add_argument("--out", required=True, help="the new store")
    parser.add_argument("--share", type=float, default=0.5, help="of the teacher in the targets")
    parser.add_argument("--turns", type=int, default=8, help="how many of the eight turned pictures the teacher sees")
    parser.add_argument("--pause-file", help="waits for as long as this file is there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = nets.ExitNet(args.model)
    net.load_plain(nets.plain_weights(args.weights))
    # Spread over the eight: of two, one is as it is and one is turned about both axes.
    turns = [0, 3, 4, 7, 1, 2, 5, 6][: args.turns]
    build(args.store, net, args.out, args.share, turns, args.pause_file)


if __name__ == "__main__":
    main()
