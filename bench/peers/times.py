"""Networks with loops in turns by brainstorm and by its peers.

    pip install -r bench/peers/requirements.txt      into a virtual environment outside the repository
    make bench-time [ARGS="--only lstm,nasrnn --tier avx2 --peers onnxruntime,torch --turns 31 --json time.json"]

Turns, ratios, limits and columns are those of products.py. A row is one of our forms of a network. Of trees
`torch` takes all vertices of a level at once, `recursion` is PyTorch's time vertex after vertex; `runs` is our own
time of the same steps by a run each, `kernels` that of the kernels alone, `whole` that of the first form, of which
others leave out one thing each: each over the time of the row.
"""

import sys

import products
import time_cases
import turns


def rows_of(run, only):
    found = list(time_cases.cases(only, run.tiny))
    progress = turns.Progress(len(found))
    for group, net in found:
        progress.now(net.name)
        for row in time_cases.rows_of_case(run, net):
            yield group, row


SUITE = products.Suite(__doc__, list(time_cases.GROUPS), lambda word, tiny: list(time_cases.cases([word], tiny)),
                       rows_of, ("onnxruntime", "torch"), ("recursion", "runs", "kernels", "whole"))

if __name__ == "__main__":
    sys.exit(products.main(SUITE))
