# tags: uses:bench/products,bench/networks needs:numpy,gguf
"""test_bench_products.py: make bench-products runs every family of cases in small, right, and says what it leaves out.

Without peers: results are compared with their definitions in float64. Owns: $BUILD/bench/products.json.
Relies on: $BUILD/bench/products and networks, which `make test` builds for it. Must never: look at a time.
"""
import json
import os
import subprocess
import sys

BUILD, PEERS = os.environ.get("BUILD", "build"), os.path.join("bench", "peers")
FIGURES = os.path.join(BUILD, "tests", "bench_products.json")
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)


def products(*words):
    done = subprocess.run([sys.executable, os.path.join(PEERS, "products.py"), *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def tiny():
    status, text = products("--tiny", "--turns", "2", "--turn-ms", "0", "--peers", "", "--json", FIGURES)
    check("every family runs", status == 0, text)
    with open(FIGURES) as f:
        figures = json.load(f)
    _, usage = products("--help")
    families = usage.split("Groups: ")[-1].split(".")[0].replace("\n", " ").split(", ")
    rows = figures["rows"]
    check("each family of --help has a row", {f.strip() for f in families} == {r["group"] for r in rows}, text)
    check("results are those of the definitions", all(r["error"] < 1e-5 for r in rows), text)
    check("the greatest error is not that of nothing", max(r["error"] for r in rows) > 0, text)
    check("every row has a limit", all(r["limit"] > 0 for r in rows), text)
    check("nothing is allocated in a run", {r["allocations"] for r in rows} <= {0, -1}, text)
    ragged = [r["same"] for r in rows if "same" in r]
    check("sequences together give the bytes of each alone", ragged and all(ragged), text)


def left_out():
    sys.path[:0] = [PEERS, "bench"]
    import turns
    sys.modules["ncnn"] = None  # as if it were not installed
    here, line = turns.installed(["ncnn"])
    check("a peer that is not installed is named", here == [] and "ncnn left out" in line, line)
    status, text = products("--peers", "nobody")
    check("a peer that nobody knows is refused", status == 2 and "nobody" in text, text)
    status, text = products("--peers", "", "--only", "nothing-of-this-name")
    check("a group that is not there is refused", status == 2 and "nothing-of-this-name" in text, text)


tiny()
left_out()
print(f"{results[True]} passed, {results[False]} failed")
sys.exit(results[False] != 0)
