# tags: needs:torch,numpy,PIL
"""test_family_teach.py: the store that training/teach.py writes has the small pictures of the one that it reads, and
targets between the photographs and the teacher's pictures.
"""

import os
import sys
import tempfile

from family_rig import end, report, write_store  # first: it finds training/

import numpy as np
import torch

import data
import evaluate
import nets
import teach


def turns_back():
    plane = np.arange(12).reshape(3, 4)
    views = [teach.turned(plane, turn) for turn in range(8)]
    report("each turned picture turns back", all((teach.turned_back(v, t) == plane).all() for t, v in enumerate(views)))
    report("the eight differ", len({(v.shape, v.tobytes()) for v in views}) == 8)


def between(work):
    store, out = os.path.join(work, "store"), os.path.join(work, "taught")
    write_store(store)
    torch.manual_seed(2)
    net = nets.ExitNet("n8x4")
    teach.build(store, net, out, 0.25, [0])
    rows, pairs = data.open_pairs(store)
    rows_out, pairs_out = data.open_pairs(out)
    wanted = [0.75 * high / 256 + 0.25 * np.clip(evaluate.enlarge(net, low)[0], 0, 255) for high, low in pairs]
    far = max(np.abs(high / 256 - w).max() for (high, _), w in zip(pairs_out, wanted))
    report("targets lie a quarter of the way to the teacher", far < 1 / 256, far)
    report("the teacher's are others", max(np.abs(high / 256 - w).max() for (high, _), w in zip(pairs, wanted)) > 0.1)
    report("small pictures and weights are the same", (rows == rows_out).all() and
           all((a[1] == b[1]).all() for a, b in zip(pairs, pairs_out)))
    low = pairs[0][1]
    one = evaluate.enlarge(net, np.ascontiguousarray(low[::-1]))[0][::-1]
    seen = teach.answer(net, low, [0, 1])
    both = np.clip((one + evaluate.enlarge(net, low)[0]) / 2, 0, 255)
    report("two turns: the mean of their pictures, turned back", np.abs(seen - both).max() < 1e-3)


def main():
    torch.set_num_threads(1)
    turns_back()
    with tempfile.TemporaryDirectory() as work:
        between(work)
    return end()


if __name__ == "__main__":
    sys.exit(main())
