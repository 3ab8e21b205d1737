"""Y-PSNR of bicubic and of every exit on sets of pictures (Set5, Set14, ...).

    python3 evaluate.py --weights sr2x.npz --set DIR [--set DIR ...]

Protocol: crop to even sides; low resolution = MATLAB-style bicubic of Y, rounded to 8 bits;
compare with the unrounded Y, 2 pixels shaved off each side, peak 255, mean over pictures.
"""

import argparse
import os

import numpy as np
import torch

import data
import nets


def load_set(folder):
    """(low as uint8, high as float) luma pairs of a folder of pictures, or of a store."""
    if data.is_store(folder):
        _, pairs = data.open_pairs(folder)
        return [(np.array(low), high.astype(np.float32) / 256) for high, low in pairs]
    pairs = []
    for path in data.list_pictures(folder):
        high = data.crop_to_multiple(data.load_luma(path), data.SCALE)
        pairs.append((data.to_code(data.downscale(high)), high))
    return pairs


def psnr(picture, high, shave=data.SCALE):
    error = np.clip(picture, 0, 255) - high
    error = error[shave:-shave, shave:-shave]
    return 10 * np.log10(255.0**2 / np.mean(np.square(error, dtype=np.float64)))


def bicubic_score(pairs):
    return float(np.mean([psnr(data.bicubic_upscale(low), high) for low, high in pairs]))


def enlarge(net, low):
    """One picture (luma code, not clipped) per exit."""
    x = torch.from_numpy(low.astype(np.float32) / 255.0)[None, None]
    with torch.no_grad():
        return [y[0, 0].numpy() * 255.0 for y in net(x.contiguous(memory_format=torch.channels_last))]


def exit_scores(net, pairs):
    scores = [[psnr(p, high) for p in enlarge(net, low)] for low, high in pairs]
    return [float(s) for s in np.mean(scores, 0)]


def weight_count(net, exit_number):
    """Weights without biases and slopes that run up to one exit: also MACs per input pixel."""
    plain = net.plain()
    depth = net.exits[exit_number]
    names = ["head"] + [f"body{i}" for i in range(depth)]
    names.append("tail" if len(net.exits) == 1 else f"tail{exit_number}")
    return sum(plain[name + ".weight"].numel() for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weights", action="append", default=[])
    parser.add_argument("--set", action="append", required=True, help="folder of pictures")
    args = parser.parse_args()
    torch.set_num_threads(1)
    sets = [(os.path.basename(os.path.normpath(s)), load_set(s)) for s in args.set]
    print(f"{'route':34s}{'weights':>8s}" + "".join(f"{name:>10s}" for name, _ in sets))
    row = [bicubic_score(pairs) for _, pairs in sets]
    print(f"{'bicubic':34s}{0:8d}" + "".join(f"{v:10.3f}" for v in row), flush=True)
    for path in args.weights:
        for prefix in ("small", "large"):
            net = nets.load_npz(path, prefix)
            table = [exit_scores(net, pairs) for _, pairs in sets]
            for number in range(len(net.exits)):
                label = f"{os.path.basename(path)} {prefix}"
                if len(net.exits) > 1:
                    label += f" exit {number + 1}"
                values = "".join(f"{scores[number]:10.3f}" for scores in table)
                print(f"{label:34s}{weight_count(net, number):8d}{values}", flush=True)


if __name__ == "__main__":
    main()
