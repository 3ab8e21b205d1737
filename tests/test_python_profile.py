# tags: long needs:numpy,gguf
"""test_python_profile.py: the profile of a session of Python is written beside its name and takes it when the session
is closed; what was there stays until then, and for good where the session is refused or the disk is full.

Relies on: python_site.py, which builds the package. Must never leave a file that is half a profile.
"""

import gc
import os
import subprocess
import sys
import tempfile

from files_rig import OLD, content, names, put
from python_site import SITE, check, end  # first: it finds the package

import brainstorm
import numpy as np
from brainstorm import Error, Graph

NAME, MAGIC = "run.bspf", b"BSPF"


def model():
    g = Graph("small")
    rows = g.rows(g.input("x", "f32", [g.symbol("n", 8), 2]))
    g.output("y", g.collect(g.affine(rows, 2, 0)))
    return g.open()


def alone(*more):
    """Whether nothing else lies there: no file that was begun."""
    return names() == sorted([NAME, *more])


def run(session):
    session.run({"x": np.ones((4, 2), np.float32)})


def test_kept(plan):
    put(NAME)
    os.link(NAME, "hard")
    os.symlink(NAME, "link")
    session = plan.session(profile="link")
    run(session)
    check("what was there stays while the session goes on", content(NAME) == OLD)
    session.close()
    session.close()
    check("closed, the profile has the name, and a link still leads to it",
          content(NAME)[:4] == MAGIC and os.path.islink("link") and alone("hard", "link"))
    with open("hard", "rb") as file:
        check("another name of the file keeps what it had", file.read() == OLD)
    os.remove("hard"), os.remove("link"), os.remove(NAME)
    with plan.session(profile=NAME) as session:
        run(session)
    check("where there was none, `with` leaves one", content(NAME)[:4] == MAGIC and alone())


def test_left(plan):
    put(NAME)
    session = plan.session(profile=NAME)
    run(session)
    del session
    gc.collect()
    check("a session that nobody closes completes it, too", content(NAME)[:4] == MAGIC and alone())
    put(NAME)
    first = plan.session(profile=NAME)
    second = plan.session(weights_of=first)
    try:
        first.close()
        check("weights in use are not given back", False)
    except Error as error:
        check("weights in use are not given back, and nothing is written",
              "open: 1" in str(error) and content(NAME) == OLD)
    second.close()
    first.close()
    check("closed later it is whole", content(NAME)[:4] == MAGIC and alone())


def test_refused(plan):
    put(NAME)
    for name, options in (("a policy", {"policy": "fifo"}), ("no events", {"profile_events": 0}),
                          ("half an event", {"profile_events": 1.5}),
                          ("weights of another plan", {"weights_of": model().plan().session()})):
        try:
            plan.session(profile=NAME, **options)
            check(f"{name}: refused", False)
        except Error:
            check(f"{name}: refused, the old file stays", content(NAME) == OLD and alone())


def test_full(folder):
    """In a process of its own, whose files end at 100 bytes."""
    put(NAME)
    code = ("import numpy as np, brainstorm\n"
            "g = brainstorm.Graph('f'); g.output('y', g.affine(g.input('x', 'f32', [4]), 2, 0))\n"
            f"s = g.open().plan().session(profile='{NAME}', profile_ops=True)\n"
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
            "for _ in range(99): s.run({'x': np.ones(4, np.float32)})\n"
            "try: s.close()\n"
            "except brainstorm.Error as error: print(error.status, error)\n"
            "s.close()\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": SITE})
    check("a full disk is an error, and the old file stays", "BS_ERROR_IO" in done.stdout and not done.stderr
          and content(NAME) == OLD and alone(), done.stdout + done.stderr + str(names()))


def main():
    plan = model().plan()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        test_kept(plan)
        test_left(plan)
        test_refused(plan)
        test_full(folder)
        os.chdir("/")
    return end()


if __name__ == "__main__":
    sys.exit(main())
