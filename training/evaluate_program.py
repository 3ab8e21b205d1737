"""The table of evaluate.py through the shipped model and the program itself: 8-bit pictures in, 8-bit pictures out.

    python3 evaluate_program.py --program ../build/video_sr --model ../models/sr2x.gguf --set DIR [--set DIR ...]

Needs numpy and Pillow, not torch: each picture goes through the program as a one-frame grey y4m, once a route.
"""

import argparse
import os
import subprocess

import numpy as np

import data

ROUTES = ("bicubic", "small", "exit1", "exit2", "large", "auto")


def through(program, model, route, low):
    """Doubles one uint8 plane."""
    height, width = low.shape
    header = f"YUV4MPEG2 W{width} H{height} F1:1 Ip A1:1 Cmono XCOLORRANGE=FULL\nFRAME\n".encode()
    result = subprocess.run([program, "--model", model, "--route", route, "--quiet", "-", "-"],
                            input=header + low.tobytes(),
                            stdout=subprocess.PIPE, check=True).stdout
    samples = 4 * height * width
    return np.frombuffer(result[-samples:], np.uint8).reshape(2 * height, 2 * width).astype(np.float64)


def psnr(picture, high, shave=data.SCALE):
    error = (picture - high)[shave:-shave, shave:-shave]
    return 10 * np.log10(255.0**2 / np.mean(np.square(error, dtype=np.float64)))


def load_set(folder):
    pairs = []
    for path in data.list_pictures(folder):
        high = data.crop_to_multiple(data.load_luma(path), data.SCALE)
        pairs.append((data.to_code(data.downscale(high)), high))
    return pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--set", action="append", required=True, help="folder of pictures")
    args = parser.parse_args()
    sets = [(os.path.basename(os.path.normpath(s)), load_set(s)) for s in args.set]
    print(f"{'route':10s}" + "".join(f"{name:>10s}" for name, _ in sets))
    for route in ROUTES:
        means = [np.mean([psnr(through(args.program, args.model, route, low), high) for low, high in pairs])
                 for _, pairs in sets]
        print(f"{route:10s}" + "".join(f"{m:10.3f}" for m in means), flush=True)


if __name__ == "__main__":
    main()
