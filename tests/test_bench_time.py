# tags: uses:bench/products,bench/networks needs:numpy,gguf
"""test_bench_time.py: make bench-time runs every group of networks in small, right, and times nothing that is wrong.

Results are compared with definitions in float64, and stand beside peers where they are installed.
Owns: $BUILD/tests/bench_time.json. Relies on: $BUILD/bench/products and networks, which `make test` builds for it.
Must never: look at a time.
"""
import json
import os
import subprocess
import sys

BUILD, PEERS = os.environ.get("BUILD", "build"), os.path.join("bench", "peers")
FIGURES = os.path.join(BUILD, "tests", "bench_time.json")
NO_ONNX = ("blockdrop", "beam", "grows", "skipnet", "treelstm", "treefc", "graphs", "structure")
ALONE = "ablations"  # their forms stand beside each other
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)


def times(*words):
    done = subprocess.run([sys.executable, os.path.join(PEERS, "times.py"), *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def tiny():
    status, text = times("--tiny", "--turns", "2", "--turn-ms", "0", "--json", FIGURES)
    check("every group runs", status == 0, text)
    with open(FIGURES) as f:
        rows = json.load(f)["rows"]
    _, usage = times("--help")
    groups = usage.split("Groups: ")[-1].split(".")[0].replace("\n", " ").split(", ")
    check("each group of --help has a row", {g.strip() for g in groups} == {r["group"] for r in rows}, text)
    check("results are those of the definitions", all(r["error"] < 1e-5 for r in rows), text)
    check("the greatest error is not that of nothing", max(r["error"] for r in rows) > 0, text)
    check("every row has a limit and bytes", all(r["limit"] > 0 and r["arenas"] > 0 for r in rows), text)
    check("nothing is allocated in a run", {r["allocations"] for r in rows} <= {0, -1}, text)
    check("a loop stands beside runs of a step each", any("runs" in r for r in rows), text)
    check("forms of an ablation stand beside the whole", all("whole" in r for r in rows if r["group"] == ALONE), text)
    check("a step stands beside its kernels", any("kernels" in r for r in rows), text)
    for peer in ("onnxruntime", "torch"):
        left_out = f"{peer} left out" in text
        print(f"{peer} is not installed: without it" if left_out else f"beside {peer}")
        check(f"every row stands beside {peer}, or it is named as left out",
              all((peer in r) != left_out for r in rows
                  if r["group"] != ALONE and (r["group"] not in NO_ONNX or peer == "torch")), text)
    trees = [r for r in rows if r["group"] in ("treelstm", "treefc", "graphs", "grows")]
    check("trees stand beside a recursion where PyTorch is installed",
          all(("recursion" in r) == ("torch" in r) for r in trees), text)


def wrong():
    """A network whose definition is another one."""
    sys.path[:0] = [PEERS, "bench", "tools"]
    import times as suite
    import time_cases
    make = time_cases.TINY["nasrnn"]

    def spoilt():
        net, = make()
        truth = net.definition() + 1e-3
        net.definition = lambda: truth
        return [net]

    time_cases.TINY["nasrnn"] = spoilt
    sys.argv[1:] = ["--tiny", "--only", "nasrnn", "--peers", "", "--json", FIGURES]
    status = suite.products.main(suite.SUITE)
    with open(FIGURES) as f:
        rows = json.load(f)["rows"]
    untimed = all("wrong" in r and "us" not in r for r in rows)
    check("what is wrong fails, and has no time", status == 1 and untimed, rows)


def refused():
    status, text = times("--peers", "nobody")
    check("a peer that nobody knows is refused", status == 2 and "nobody" in text, text)
    status, text = times("--tiny", "--peers", "", "--only", "nothing-of-this-name")
    check("a group that is not there is refused", status == 2 and "nothing-of-this-name" in text, text)


tiny()
wrong()
refused()
print(f"{results[True]} passed, {results[False]} failed")
sys.exit(results[False] != 0)
