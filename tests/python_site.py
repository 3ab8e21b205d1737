"""python_site.py - the Python package, built and installed below build/python for the tests that run it.

Importing it puts the installed package on the path, or ends the program, which then says why it skips. As a program it
only builds, however long that takes: for a machine that is slow or busy, before the tests. The extension module is
built once for its sources (a hash of them), without optimizing and in one piece: half of the compiler's time, which the
tests do not give back. The Python files are those of now.
Relies on: pip, and what it fetches to build (scikit-build-core, nanobind; cmake where there is none); a C++ compiler.
Must never leave half a build: it is renamed when it is whole. Several tests may ask at once.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = ("brainstorm.c", "brainstorm.h", "python/CMakeLists.txt", "python/pyproject.toml", "python/native")
FOLDER = os.path.join(ROOT, "build", "python")  # one for all builds of the C programs: it shares nothing with them
OPTIONS = [f"--config-settings=cmake.define.{option}" for option in (
    "BRAINSTORM_OPTIMIZE=-O0", "CMAKE_CXX_FLAGS_RELEASE=-O0", "CMAKE_UNITY_BUILD=ON")]
BUILD_SECONDS = 3600
results = {True: 0, False: 0}


def check(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def end():
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


def skip(why):
    print(f"skipped: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def files(path):
    path = os.path.join(ROOT, path)
    return [path] if os.path.isfile(path) else sorted(os.path.join(path, name) for name in os.listdir(path))


def key():
    """Of what is built, and for which interpreter."""
    digest = hashlib.sha256(f"{sys.version}{sys.executable}{OPTIONS}".encode())
    for path in (file for source in SOURCES for file in files(source)):
        with open(path, "rb") as file:
            digest.update(path[len(ROOT):].encode() + b"\0" + file.read())
    return digest.hexdigest()[:16]


def reachable(log):
    """Whether pip failed for another reason than that it could fetch nothing."""
    return not any(word in log for word in ("No matching distribution", "Could not find a version", "ConnectionError",
                                            "Temporary failure in name resolution", "Max retries exceeded"))


def build(target):
    """"", or why nothing could be built; a build that fails is a failure."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode:
        return f"{sys.executable} has no pip"
    if not any(shutil.which(name) for name in ("c++", "g++", "clang++")):
        return "no C++ compiler"
    if not os.path.isfile(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
        return f"no Python.h of {sys.executable} (python3-dev)"
    started = time.monotonic()
    shutil.rmtree(f"{target}.new", ignore_errors=True)
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--target",
               f"{target}.new", *OPTIONS, os.path.join(ROOT, "python")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_SECONDS)
    except subprocess.TimeoutExpired:
        return f"it is not built after {BUILD_SECONDS} s"
    if done.returncode and not reachable(done.stdout + done.stderr):
        return "pip reaches no index: " + (done.stderr.strip().splitlines() or [""])[-1]
    check("pip install ./python builds", done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:])
    if done.returncode:
        sys.exit(end())
    print(f"built in {time.monotonic() - started:.0f} s")
    os.rename(f"{target}.new", target)
    return ""


def refresh(target):
    """The Python files of now, in the place of those that were installed."""
    source, package = os.path.join(ROOT, "python", "brainstorm"), os.path.join(target, "brainstorm")
    for name in os.listdir(package):
        path = os.path.join(package, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif not name.startswith("_native"):
            os.remove(path)
    shutil.copytree(source, package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", "_native*"))


def stamp():
    """Of the Python files: whether those that were copied are those of now."""
    walked = [os.path.join(folder, name) for folder, _, names in os.walk(os.path.join(ROOT, "python", "brainstorm"))
              for name in names if not name.endswith(".pyc")]
    return repr(sorted((path, os.stat(path).st_mtime_ns) for path in walked))


def installed():
    if os.environ.get("RUN"):
        skip("in an emulator")
    target = os.path.join(FOLDER, key())
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(target):
            for old in os.listdir(FOLDER):
                if old != "lock":
                    shutil.rmtree(os.path.join(FOLDER, old), ignore_errors=True)
            why = build(target)
            if why:
                skip(why)
        marker, now = os.path.join(target, "stamp"), stamp()
        if not os.path.exists(marker) or open(marker).read() != now:
            refresh(target)
            with open(marker, "w") as file:
                file.write(now)
    return target


SITE = installed()
sys.path.insert(0, SITE)

if __name__ == "__main__":
    check("the package is there", os.path.isdir(os.path.join(SITE, "brainstorm")))
    sys.exit(end())
