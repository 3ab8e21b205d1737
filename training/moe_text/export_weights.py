"""State of a training -> one `.npz` of the tensors by name, rounded as they will be stored.

    python3 export_weights.py STATE.pt OUT.npz [--guess GUESS.pt]

Matrices become float16 (half the bytes to stream); vectors, routers and the embedding stay float32.
"""

import argparse

import numpy as np
import torch


def stored(name, tensor):
    """Rounding is done here, so that a reference run can use the same numbers."""
    array = tensor.detach().float().numpy()
    small = array.ndim == 1 or name.endswith(("_bias", "router", "embed.weight")) or name.startswith("guess")
    return array if small else array.astype(np.float16)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("state")
    parser.add_argument("out")
    parser.add_argument("--guess")
    args = parser.parse_args()
    tensors = torch.load(args.state, map_location="cpu")["net"]
    if args.guess:
        for layer, guess in enumerate(torch.load(args.guess)):
            tensors.update({f"guess.{layer}.{key}": value for key, value in guess.items()})
    arrays = {name: stored(name, tensor) for name, tensor in tensors.items()}
    np.savez(args.out, **arrays)
    print(f"{args.out}: {len(arrays)} tensors, {sum(a.nbytes for a in arrays.values())} bytes")


if __name__ == "__main__":
    main()
