#!/bin/sh
# python_install.sh - what a user does: an empty virtual environment, pip install ./python, a network written and run
# there, from a folder that knows nothing of the repository. Prints the seconds; skips where pip reaches no index.
# SDIST=1: the same from an sdist, which has a copy of the library.
# Must never leave anything in the tree: what an sdist copies there, python/carried, is removed.
set -u
PYTHON="${PYTHON:-python3}"
cd "$(dirname "$0")/.." || exit 1
root=$PWD
here=$(mktemp -d) || exit 1
trap 'rm -rf "$here" "$root/python/carried"' EXIT
passed=0 failed=0

report() { # STATUS NAME
    if [ "$1" -eq 0 ]; then passed=$((passed + 1)) && echo "ok $2"; else failed=$((failed + 1)) && echo "FAIL $2"; fi
}

skip() {
    echo "skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || skip "$PYTHON has no venv or no ensurepip"
command -v c++ >/dev/null || command -v g++ >/dev/null || command -v clang++ >/dev/null || skip "no C++ compiler"
started=$(date +%s)
"$PYTHON" -m venv "$here/venv" || exit 1
export PYTHONPATH='' PIP_DISABLE_PIP_VERSION_CHECK=1
source=$root/python
if [ -n "${SDIST:-}" ]; then
    "$here/venv/bin/pip" install -q build >"$here/log" 2>&1 || skip "pip reaches no index"
    "$here/venv/bin/python" -m build --sdist --outdir "$here" "$source" >"$here/log" 2>&1
    report $? "an sdist is made"
    mkdir "$here/unpacked" && tar -xzf "$here"/brainstorm-*.tar.gz -C "$here/unpacked"
    cmp "$here"/unpacked/brainstorm-*/carried/brainstorm.c brainstorm.c
    report $? "it carries the library"
    source=$(echo "$here"/brainstorm-*.tar.gz)
fi
"$here/venv/bin/pip" install "$source" >"$here/log" 2>&1
status=$?
if [ $status -ne 0 ]; then
    ! grep -q 'No matching distribution\|ConnectionError\|Max retries exceeded' "$here/log" ||
        skip "pip reaches no index"
    tail -n 60 "$here/log"
fi
report $status "pip install"
built=$(date +%s)
cd "$here" || exit 1
cat >program.py <<'END'
import brainstorm
import numpy as np

g = brainstorm.Graph("twice")
g.output("y", g.affine(g.input("x", "f32", [g.symbol("n", 8)]), 2, 1))
model = g.open()
assert model.run({"x": np.float32([1, 2, 3])})["y"].tolist() == [3, 5, 7]
print(brainstorm.tiers())
END
venv/bin/python program.py
report $? "what is installed runs"
venv/bin/brainstorm-import --help | grep -q onnx
report $? "brainstorm-import is there"
venv/bin/python -c 'import importlib.resources as r
p = r.files("brainstorm")
assert p.joinpath("py.typed").is_file()
assert "class Session" in p.joinpath("_native.pyi").read_text()'
report $? "types are installed"
echo "pip install: $((built - started)) s; with a run: $(($(date +%s) - started)) s"
cd "$root" || exit 1
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
