"""Public-domain texts -> codes 0..95, with a held-out tail of each text.

    python3 data.py OUT [--root DIR]

OUT gets `train.codes` and `held.codes`, one byte a character, 0 for a new line and c - 31 for
the printable ASCII character c. DIR is where the packages were unpacked, / if they are installed.
"""

import argparse
import gzip
import os
import re
import subprocess

import torch

HELD_OUT = 0.05  # the last part of each text is never trained on
TYPOGRAPHY = str.maketrans({"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2014": "-", "\u2013": "-"})


def bible(root):
    """One verse a line, an empty line between chapters; the package's own reader unpacks it."""
    program = os.path.join(root, "usr/bin/bible")
    verses = subprocess.run(
        [program, "-p", os.path.join(root, "usr/lib"), "-m", "100000", "Gen1:1-Rev22:21"],
        capture_output=True, text=True, check=True, input="",
    ).stdout
    return unpack_chapters(verses)


def unpack_chapters(formatted):
    """`  1 In the beginning ...`, wrapped -> whole verses, without numbers and headings."""
    out = []
    for line in formatted.split("\n"):
        start = re.match(r"^ *\d+ (.*)", line)
        if start:
            out.append(start.group(1))
        elif re.match(r"^[A-Z0-9][\w ]* \d+$", line.strip()) and not line.startswith(" "):
            out.append("")  # a chapter's heading
        elif line.strip():
            out[-1] += " " + line.strip()
    return "\n".join(out).strip() + "\n"


def dictionary(root, name):
    with gzip.open(os.path.join(root, f"usr/share/dictd/{name}.dict.dz"), "rt", encoding="utf-8") as file:
        text = file.read()
    lines = (re.sub(r"\s+", " ", line).strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def encode(text):
    """Codes of the characters there are codes for; the others are left out."""
    text = text.translate(TYPOGRAPHY).encode("ascii", "ignore")
    return bytes(0 if c == 10 else c - 31 for c in text if c == 10 or 32 <= c < 127)


def decode(codes):
    return "".join("\n" if c == 0 else chr(c + 31) for c in codes)


def load(path):
    """Codes of a file as an int64 tensor."""
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()


def batch(codes, size, length, generator):
    """`size` random pieces of `length` inputs, and the next characters as targets."""
    start = torch.randint(len(codes) - length - 1, (size, 1), generator=generator)
    piece = codes[start + torch.arange(length + 1)]
    return piece[:, :-1], piece[:, 1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--root", default="/")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    texts = {"bible": bible(args.root), "devil": dictionary(args.root, "devil"),
             "jargon": dictionary(args.root, "jargon")}
    train_path, held_path = os.path.join(args.out, "train.codes"), os.path.join(args.out, "held.codes")
    with open(train_path, "wb") as train, open(held_path, "wb") as held:
        for name, text in texts.items():
            codes = encode(text)
            cut = int(len(codes) * (1 - HELD_OUT))
            train.write(codes[:cut])
            held.write(codes[cut:])
            with open(os.path.join(args.out, f"held_{name}.codes"), "wb") as file:
                file.write(codes[cut:])
            print(f"{name}: {len(codes)} characters, {len(codes) - cut} held out")


if __name__ == "__main__":
    main()
