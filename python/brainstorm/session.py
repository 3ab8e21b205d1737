"""Runs our model files, for comparing: by the extension module of this package where it is built, else by the program
bench/networks of the repository, one process that opens file after file.

    with opened() as session:
        session.open(path)
        arrays = session.run([(name, array)], [(name, shape, type)])
"""

import contextlib
import os
import subprocess
import tempfile

import numpy as np

TYPES = {"f32": np.float32, "i32": np.int32, "u8": np.uint8, "i8": np.int8}


class Failed(Exception):
    """The library refused a file, or a run: its message."""


class Native:
    """By brainstorm.open."""

    def __init__(self, running):
        self.running = running

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.model = None

    def open(self, path):
        import brainstorm
        try:
            self.model = brainstorm.open(path)
        except self.running.Error as why:
            raise Failed(str(why)) from None

    def run(self, inputs, outputs):
        try:
            made = self.model.run(dict(inputs))
        except self.running.Error as why:
            raise Failed(str(why)) from None
        return [made[name] for name, _, _ in outputs]


class Program:
    def __init__(self, program):
        self.program, self.process = program, None
        self.errors = tempfile.TemporaryFile()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _start(self):
        self.errors.seek(0)
        self.errors.truncate()
        self.process = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors)

    def _fail(self, what):
        self.process.stdin.close() if not self.process.stdin.closed else None
        status = self.process.wait()
        self.process.stdout.close()
        self.process = None
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace").strip()
        if status < 0:
            raise RuntimeError(f"the program crashed ({what}, signal {-status}): {text}")
        raise Failed(text.removeprefix("networks: ") or what)

    def _ask(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        return answer if answer else self._fail(line)

    def open(self, path):
        if self.process is None:
            self._start()
        self._ask(f"open {path} auto")

    def run(self, inputs, outputs):
        """inputs: [(name, array)], outputs: [(name, shape, type)]: their arrays. shape None: as this run makes it."""
        dims = lambda shape: " ".join(map(str, shape))
        for name, array in inputs:
            self._ask(f"input {name} {dims(array.shape)}", np.ascontiguousarray(array).tobytes())
        for name, shape, _ in outputs:
            self._ask(f"output {name} {dims(shape or ())}".rstrip())
        self._ask("run 1")
        results = []
        for name, shape, kind in outputs:
            corner = None
            if shape is None:
                corner, shape = [tuple(map(int, part.split())) for part in
                                 self._ask(f"extents {name}").decode().split("of")]
            self.process.stdin.write(f"result {name}\n".encode())
            self.process.stdin.flush()
            size = int(np.prod(shape)) * np.dtype(TYPES[kind]).itemsize
            data = self.process.stdout.read(size)
            if len(data) != size:
                self._fail(f"result {name}")
            array = np.frombuffer(data, TYPES[kind]).reshape(shape)
            results.append(array if corner is None else array[tuple(slice(0, d) for d in corner)])
        return results

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
        self.errors.close()


def program():
    """The program, in $BUILD or build/ of the repository that this file is in."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    return os.path.join(root, os.environ.get("BUILD", "build"), "bench", "networks")


def opened():
    """What runs models here; None where nothing does."""
    try:
        from . import running
        running.native()
        return Native(running)
    except ImportError:
        return Program(program()) if os.access(program(), os.X_OK) else None


@contextlib.contextmanager
def used(refused):
    """opened(), as long as it is needed; what it refuses is raised as `refused`."""
    with opened() or contextlib.nullcontext() as runs:
        try:
            yield runs
        except (Failed, RuntimeError) as why:
            raise refused(f"it was written, but does not run: {why}") from None
