"""files_rig.py - what the tests of files that are read and written share: names, contents, and commands that may find
no room or wait for ever.

Works in the current folder, which a test makes for itself. Relies on Python's standard library.
"""

import os
import resource
import subprocess

PATIENCE = 200  # seconds, after which a command waits for ever
OLD = b"what was there before"


def content(path):
    with open(path, "rb") as file:
        return file.read()


def put(path, data=OLD):
    with open(path, "wb") as file:
        file.write(data)


def names():
    return sorted(os.listdir("."))


def ran(command, limit=None):
    """(exit status, all that it says). limit: bytes that a file may have, as where a disk is full."""
    before = None
    if limit is not None:
        def before():
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=before)
    except subprocess.TimeoutExpired:
        return None, "it waits for ever"
    return done.returncode, done.stdout + done.stderr
