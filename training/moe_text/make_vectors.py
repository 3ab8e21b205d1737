"""Logits that PyTorch gives for a few texts, for tests/test_moe_text.c.

    python3 make_vectors.py WEIGHTS.npz ../../tests/vectors/moe_text.bin

WEIGHTS.npz is export_weights.py's: already rounded as stored. The file, little-endian: i32 texts; for each: i32
characters, i32 positions, the characters' codes (bytes), the positions (i32), the logits (f32) after each of them.
"""

import argparse
import struct

import numpy as np
import torch

import data
import model

TEXTS = (
    ("In the beginning", (0, 15)),
    ("And it came to pass in those days, that the people of the land gathered themselves together, and they said one "
     "to another, Let us go up to the mountain, and see whether the waters be dried up from off the face of the earth. "
     "And when they were come nigh unto the river,", (1, 64, 126, 127, 128, 129, 200, 250)),
    ("hacker, n. One who enjoys\nthe challenge: {kluge} & \"(#$%~\\^`|", (40, 57)),
)


def load(path):
    net = model.Text().eval()
    archive = np.load(path)
    net.load_state_dict({k: torch.from_numpy(archive[k].astype(np.float32)) for k in archive.files
                         if not k.startswith("guess")})
    return net


def record(net, text, positions):
    codes = data.encode(text)
    with torch.no_grad():
        logits, _ = net(torch.tensor([list(codes)]))
    kept = logits[0, list(positions)].numpy().astype("<f4")
    head = struct.pack("<ii", len(codes), len(positions)) + codes
    return head + struct.pack(f"<{len(positions)}i", *positions) + kept.tobytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights")
    parser.add_argument("out")
    args = parser.parse_args()
    torch.set_num_threads(1)
    net = load(args.weights)
    with open(args.out, "wb") as file:
        file.write(struct.pack("<i", len(TEXTS)))
        for text, positions in TEXTS:
            file.write(record(net, text, positions))


if __name__ == "__main__":
    main()
