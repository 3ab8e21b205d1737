# tags: long needs:numpy
"""test_zoo_mixtures.py: small forms of Switch, TaskMoE and SwinV2-MoE give what PyTorch's eager mode gave, by the same
decisions, and the same bytes streamed and on two threads.

Relies on tests/zoo, which zoo/mixture_vectors.py makes and needs torch; python_site.py. Must never leave a file behind.
"""

import os
import sys

from python_site import check, end  # first: it finds the package

import brainstorm
import numpy as np

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo")
CLOSE = 2e-6  # of the largest magnitude: a few roundings of f32


def runs(model, name):
    inputs = {port: np.load(os.path.join(FOLDER, f"{name}.{port}.npy")) for port in model.inputs}
    least = model.plan(slots=2**40).stream.least_bytes
    for what, how in (("resident", {}), ("on two threads", {"threads": 2}), ("streamed", {"slots": least}),
                      ("streamed, on two threads", {"slots": least, "threads": 2})):
        with model.plan(**how).session() as session:
            made = session.run(inputs)["y"]
            yield what, made, {router: session.decision(router) for router in model.routers}, session


def network(name):
    model = brainstorm.open(os.path.join(FOLDER, f"{name}.gguf"))
    wanted, stored = (np.load(os.path.join(FOLDER, f"{name}.{part}")) for part in ("y.npy", "decisions.npz"))
    check(f"{name}: its routers", set(stored.files) == set(model.routers), f"{model.routers}")
    first = None
    for what, made, decisions, session in runs(model, name):
        apart = np.abs(made - wanted).max() / np.abs(wanted).max()
        first = made if first is None else first
        check(f"{name}, {what}: as eager mode", apart < CLOSE, f"{apart} apart")
        check(f"{name}, {what}: the same bytes", made.tobytes() == first.tobytes())
        for router, rows in stored.items():
            seen = decisions[router].chosen
            wrong = np.flatnonzero((seen != rows) & (rows >= 0))
            check(f"{name}, {what}: rows of {router}", seen.shape == rows.shape and not wrong.size, f"{wrong}")
        if "streamed" in what:
            check(f"{name}, {what}: it reads", session.stream_stats.bytes_read > 0)
    check(f"{name}: a record for each expert", len(model.blocks) > sum(model.routers.values()), len(model.blocks))


for each in ("switch", "taskmoe", "swinmoe"):
    network(each)
dropped = brainstorm.open(os.path.join(FOLDER, "swinmoe.gguf"))
with dropped.plan().session() as last:
    last.run({"images": np.load(os.path.join(FOLDER, "swinmoe.images.npy"))})
    check("swinmoe: more rows than there is room for", sum(last.decision(r).dropped for r in dropped.routers) > 0)
sys.exit(end())
