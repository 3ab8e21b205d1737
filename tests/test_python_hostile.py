# tags: long needs:numpy,gguf
"""test_python_hostile.py: what does not fit is refused by the Python package with brainstorm.Error and words that say
what was expected; nothing that a program does with arrays, threads, files or closed things ends it.

Owns: the misuse. Relies on: python_site.py, which builds the package. Must never accept another exception than the one
that is promised.
"""

import gc
import os
import pickle
import subprocess
import sys
import tempfile
import threading

from python_site import ROOT, check, end  # first: it finds the package

import brainstorm
import numpy as np
from brainstorm import Error, Graph

ROWS = 4096  # of the net that threads run: long enough that they meet


def refused(name, status, words, call, *arguments, **more):
    """The call raises Error of that status, with a message that has the words."""
    try:
        gave = call(*arguments, **more)
    except Error as error:
        check(name, error.status == f"BS_ERROR_{status}" and all(word in str(error) for word in words.split("|")),
              f"{error.status}: {error}")
    except BaseException as other:  # noqa: B902: none but Error is promised
        check(name, False, f"{type(other).__name__}: {other}")
    else:
        check(name, False, f"not refused: {gave!r}")


def small():
    g = Graph("small")
    rows = g.rows(g.input("x", "f32", [g.symbol("n", 8), 2]))
    route = g.route(rows, "ask", "callback", paths=2)
    outs = [g.affine(g.scatter(route, p, rows), p + 2, 0) for p in range(2)]
    g.output("y", g.collect(g.gather(route, outs)))
    g.output("codes", g.convert(g.input("codes_in", "u8", [3]), "f32"))
    return g.open()


X, CODES = np.ones((4, 2), np.float32), np.arange(3, dtype=np.uint8)
GOOD = {"x": X, "codes_in": CODES}


def opened(model):
    session = model.plan().session()
    session.set_route("ask", lambda scores: [0] * len(scores))
    return session


def test_inputs(model):
    session = opened(model)
    for name, status, words, wrong in (
            ("an unknown input", "ARGUMENT", '"z"|x, codes_in', {"z": X}),
            ("an output given", "ARGUMENT", '"y"', {"y": X}),
            ("a number as a name", "ARGUMENT", "no input", {5: X}),
            ("values that would change", "ARGUMENT", "float64 given|float32 expected|0.1|[1, 0]",
             {"x": np.array([[0.5, 1], [0.1, 2]])}),
            ("whole numbers beyond f32", "ARGUMENT", "int64 given|16777217", {"x": [[2**24 + 1, 0]]}),
            ("numbers beyond all", "ARGUMENT", "int64 given", {"x": [[2**62 + 1, -2**63]]}),
            ("a number beyond f32", "ARGUMENT", "1e+300", {"x": [[1e300, 0]]}),
            ("codes beyond u8", "ARGUMENT", "uint8 expected|256", {"codes_in": [0, 1, 256]}),
            ("codes below 0", "ARGUMENT", "uint8 expected|-1", {"codes_in": np.array([0, 1, -1], np.int8)}),
            ("floats for codes", "ARGUMENT", "float64 given|whole numbers", {"codes_in": [0.0, 1.0, 2.0]}),
            ("complex numbers", "ARGUMENT", "complex128", {"x": np.ones((1, 2), complex)}),
            ("words", "ARGUMENT", "an array of", {"x": "words"}),
            ("objects", "ARGUMENT", "object", {"x": [[None, object()]]}),
            ("ragged lists", "ARGUMENT", "no array", {"x": [[1, 2], [3]]}),
            ("another rank", "SHAPE", "rank 1 given", {"x": np.ones(2, np.float32)}),
            ("rank 5", "SHAPE", "rank 5", {"x": np.ones((1, 1, 1, 1, 1), np.float32)}),
            ("too many rows", "SHAPE", "dimension 0 is 9|n<=8", {"x": np.ones((9, 2), np.float32)}),
            ("no rows", "SHAPE", "dimension 0 is 0", {"x": np.ones((0, 2), np.float32)}),
            ("another width", "SHAPE", "dimension 1 is 3", {"x": np.ones((4, 3), np.float32)})):
        refused(name, status, words, session.run, {**GOOD, **wrong})
        if name != "too many rows":  # the short form plans for as many as are given
            refused(f"{name}, in the short form", status, "", model.run, {**GOOD, **wrong})
    check("a session runs after all that", session.run(GOOD)["y"].tolist() == [[2, 2]] * 4)
    refused("an input that is no longer given", "UNBOUND", '"codes_in"', session.run, {"x": X})
    refused("an input that never was", "UNBOUND", '"codes_in"', opened(model).run, {"x": X})


def test_odd_arrays(model):
    """Layouts that the library has no strides for: copied for a run, refused where they would be used in place."""
    session = opened(model)
    raw = np.zeros(33, np.uint8)
    record = np.zeros(4, np.dtype([("a", "u1"), ("b", "<f4", (2,))]))
    locked = X.copy()
    locked.flags.writeable = False
    odd = {"unaligned": raw[1:].view(np.float32).reshape(4, 2), "of a record": record["b"],
           "all one": np.broadcast_to(np.float32(3), (4, 2)), "of the other order": X.astype(">f4")}
    for name, array in odd.items():
        check(f"what is {name} is copied", np.array_equal(session.run({**GOOD, "x": array})["y"],
                                                          2 * array.astype(np.float32)))
        refused(f"what is {name} is not bound", "ARGUMENT", '"x"', session.bind, "x", array)
    check("what is read-only is read", session.run({**GOOD, "x": locked})["y"][0, 0] == 2)
    session.bind("x", np.broadcast_to(X[:1], (4, 2)))
    check("a row that is repeated is bound", session.run({"codes_in": CODES})["y"].shape == (4, 2))
    refused("a read-only output", "ARGUMENT", "read-only", session.bind, "y", locked)
    refused("an output that repeats itself", "ARGUMENT", "elements overlap", session.bind, "y",
            np.lib.stride_tricks.as_strided(X.copy(), (4, 2), (4, 4)))
    refused("another type is not bound", "ARGUMENT", "float64 given", session.bind, "y", np.ones((4, 2)))
    refused("a list is not bound", "ARGUMENT", "list given", session.bind, "x", [[1, 2]])
    refused("an unknown name is not bound", "ARGUMENT", "no input, output or state", session.bind, "w", X)
    refused("a name with an end in it is not bound", "ARGUMENT", "NUL", session.bind, "x\0", X)


def test_overlap(model):
    session, both = opened(model), np.ones((6, 2), np.float32)
    session.bind("x", both[:4])
    session.bind("y", both[2:])
    refused("what is read and written", "ARGUMENT", '"x"|"y"|overlap', session.run, {"codes_in": CODES})
    session.bind("y", np.zeros((4, 2), np.float32))
    check("apart they run", session.run({"codes_in": CODES})["y"].shape == (4, 2))
    last = session.run({"codes_in": CODES, "x": X})["codes"]
    again = session.run({**GOOD, "codes_in": last.astype(np.uint8)})["codes"]
    check("an output may be the next input", again.sum() == 3)


def test_bound_memory(model):
    session, array = opened(model), np.full((4, 2), 7, np.float32)
    session.bind("x", array)
    try:
        array.resize((1 << 20, 2))
        moved = True
    except ValueError:
        moved = False
    check("what is bound cannot be moved", not moved)
    del array
    gc.collect()
    check("and is kept", (session.run({"codes_in": CODES})["y"] == 14).all())


def test_options(model):
    for name, status, words, options in (
            ("no thread can be", "ARGUMENT", "threads", {"threads": -1}),
            ("threads without end", "LIMIT", "2147483647", {"threads": 2**40}),
            ("too many threads", "ARGUMENT", "threads", {"threads": 65}),
            ("half a thread", "ARGUMENT", "threads is 1.5", {"threads": 1.5}),
            ("an unknown order", "ARGUMENT", "auto, breadth, depth", {"order": "width"}),
            ("an unknown tier", "ARGUMENT", "scalar", {"tier": "abacus"}),
            ("an unknown convolution", "ARGUMENT", "winograd", {"conv": "fast"}),
            ("an unknown router", "ARGUMENT", '"nobody"', {"force": {"nobody": 0}}),
            ("an unknown path", "ARGUMENT", "ask", {"force": {"ask": 2}}),
            ("too many forces", "LIMIT", "17", {"force": {str(i): 0 for i in range(17)}}),
            ("slots below 0", "LIMIT", "slots", {"slots": -1}),
            ("the extents of nothing", "ARGUMENT", '"w"', {"extents": {"w": (1,)}}),
            ("extents of another rank", "SHAPE", '"x"', {"extents": {"x": (1, 2, 3, 4, 5)}}),
            ("extents below 0", "SHAPE", '"x"', {"extents": {"x": (-1, 2)}}),
            ("another width", "SHAPE", "expected 2", {"extents": {"x": (1, 3)}}),
            ("extents without end", "LIMIT", '"x"', {"extents": {"x": (2**63, 2)}}),
            ("words for extents", "ARGUMENT", '"x"', {"extents": {"x": "ab"}}),
            ("a look at nobody", "ARGUMENT", "no node", {"peek": ["nobody"]}),
            ("a look at nothing", "ARGUMENT", "no value 999", {"peek": [999]}),
            ("a look below 0", "ARGUMENT", "-1", {"peek": [-1]}),
            ("a look under a name that is taken", "GRAPH", "taken|y", {"peek": {"y": 1}}),
            ("codes of 99 bits", "ARGUMENT", "99 bits", {"code_bits": 99})):
        refused(name, status, words, model.plan, **options)
    plan = model.plan()
    for name, words, options in (("an unknown policy", "reuse", {"policy": "fifo"}),
                                 ("a profile of no events", "profile_events", {"profile": "p", "profile_events": 0}),
                                 ("weights of another plan", "another plan", {"weights_of": opened(model)})):
        refused(name, "ARGUMENT", words, plan.session, **options)
    refused("a profile in no folder", "IO", "no/such", plan.session, profile="no/such/folder")
    refused("a GPU that is not there", "UNSUPPORTED", "", model.plan(tier="cuda").session)


def test_closed(model):
    session = opened(model)
    plan = session.plan
    second = plan.session(weights_of=session)
    refused("weights in use are not given back", "ARGUMENT", "weights are open: 1", session.close)
    second.close()
    session.run(GOOD)
    session.close()
    session.close()
    for name, call in (("run", lambda: session.run(GOOD)), ("bind", lambda: session.bind("x", X)),
                       ("reset", session.reset), ("stats", lambda: session.stats), ("report", session.report),
                       ("decision", lambda: session.decision("ask")), ("valid", lambda: session.state_valid),
                       ("share", lambda: plan.session(weights_of=session))):
        refused(f"closed: {name}", "ARGUMENT", "closed", call)


def test_callbacks(model):
    session = model.plan().session()
    refused("a router without its function", "UNBOUND", "ask", session.run, GOOD)
    refused("a function of no router", "ARGUMENT", '"nobody"', session.set_route, "nobody", len)
    for name, words, wrong in (("too few paths", "path for each row", lambda s: [0]),
                               ("no numbers", "ask", lambda s: "abcd"),
                               ("half a path", "float64", lambda s: [0.5] * len(s))):
        session.set_route("ask", wrong)
        status = "DATA" if "each row" in words else "ARGUMENT"
        refused(f"a function that gives {name}", status, words, session.run, GOOD)
    session.set_route("ask", lambda s: [7] * len(s))
    refused("a function that gives paths that are not", "DATA", "7", session.run, GOOD)
    session.set_route("ask", lambda s: session.run(GOOD))
    refused("a run in a run", "ARGUMENT", "in use", session.run, GOOD)
    session.set_route("ask", lambda s: session.close())
    refused("a close in a run", "ARGUMENT", "in use", session.run, GOOD)

    def fails(scores):
        raise KeyError("of the caller")

    session.set_route("ask", fails)
    try:
        session.run(GOOD)
        check("what a function raises is raised", False, "nothing")
    except KeyError as error:
        check("what a function raises is raised", error.args == ("of the caller",))
    session.set_route("ask", lambda s: [1] * len(s))
    check("and a run goes on", session.run(GOOD)["y"][0, 0] == 3)


def test_threads():
    """One session, two threads: one after the other; and Python goes on while one runs."""
    g = Graph()
    weights = np.eye(64, dtype=np.float32)
    y = g.rows(g.input("x", "f32", [g.symbol("n", ROWS), 64]))
    for i in range(6):
        y = g.linear(y, f"l{i}", weights)
    g.output("y", g.collect(y))
    session, wrong = g.open().plan(threads=2).session(), []

    def work(seed):
        x = np.random.default_rng(seed).standard_normal((ROWS - seed, 64)).astype(np.float32)
        for _ in range(12):
            if not np.array_equal(session.run({"x": x})["y"], x):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    check("threads take turns", not wrong, wrong)
    met = []

    def runs():
        x = np.ones((ROWS, 64), np.float32)
        for _ in range(500):  # one may end before the other thread has its turn
            if not met:
                session.run({"x": x})

    busy = threading.Thread(target=runs)
    busy.start()
    while busy.is_alive() and not met:
        try:
            session._native.report()  # past the lock of running.py
        except Error as error:
            if "in use" in str(error):
                met.append(error)
    busy.join()
    check("Python goes on while a session runs, which lets nobody in", bool(met))


def test_files(folder):
    path = os.path.join(folder, "model.gguf")
    g = Graph()
    g.output("y", g.linear(g.input("x", "f32", [2, 4]), "l", np.ones((3, 4), np.float32)))
    g.write(path)
    with open(path, "rb") as file:
        whole = file.read()
    refused("no file", "IO", "nowhere", brainstorm.open, os.path.join(folder, "nowhere"))
    refused("a folder", "IO", "", brainstorm.open, folder)
    refused("no bytes", "FORMAT", "", brainstorm.open_bytes, b"")
    crashed = 0
    for at in range(0, len(whole), 97):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1:]):
            try:
                brainstorm.open_bytes(data).run({"x": np.ones((2, 4), np.float32)})
            except Error:
                pass
            except Exception as other:  # noqa: B902
                crashed += 1
                print(f"  byte {at}: {type(other).__name__}: {other}")
    check("damaged files are refused, or run", crashed == 0)
    damaged = bytearray(whole)
    damaged[whole.index(np.ones(12, np.float32).tobytes())] ^= 1
    refused("a damaged record", "FORMAT", "", brainstorm.open_bytes(bytes(damaged)).check)
    os.remove(path)
    with open(os.path.join(folder, "new.gguf"), "wb") as file:
        file.write(whole)
    model = brainstorm.open(os.path.join(folder, "new.gguf"))
    os.remove(os.path.join(folder, "new.gguf"))
    check("a file that is removed is still open", model.run({"x": np.ones((2, 4), np.float32)})["y"].sum() == 24)


def test_memory(model):
    """Arenas that nobody has the memory for; errors that travel."""
    g = Graph()
    g.output("y", g.affine(g.affine(g.input("x", "f32", [2**20, 2**20]), 2, 0), 3, 1))
    try:
        g.open().plan(order="breadth", fusion=False).session()
        check("no memory", False, "not refused")
    except Error as error:
        check("no memory is an error that names the arena", error.status == "BS_ERROR_ARENA" and error.needed > 2**40
              and error.arena in ("transient", "persistent"), f"{error.status} {error.arena} {error.needed}: {error}")
        again = pickle.loads(pickle.dumps(error))
        check("errors can be sent", vars(again) == vars(error))


def test_unbuilt():
    """The source tree alone writes files, and says what is missing to run them."""
    code = ("import sys; sys.path.insert(0, 'python'); import brainstorm\n"
            "g = brainstorm.Graph(); g.output('y', g.input('x', 'f32', [1]))\n"
            "try: g.open()\n"
            "except ImportError as error: print(error)\n")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": ""})
    built = any(name.startswith("_native") for name in os.listdir(os.path.join(ROOT, "python", "brainstorm")))
    check("without a build a message says how to get one", built or "pip install ./python" in done.stdout,
          done.stdout + done.stderr)


def main():
    model = small()
    for test in (test_inputs, test_odd_arrays, test_overlap, test_bound_memory, test_options, test_closed,
                 test_callbacks, test_memory):
        test(model)
    test_threads()
    test_unbuilt()
    with tempfile.TemporaryDirectory() as folder:
        test_files(folder)
    return end()


if __name__ == "__main__":
    sys.exit(main())
