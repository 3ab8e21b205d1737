"""networks_runner.py - runs model files by the program bench/networks, for tests where nothing but the C side is built.

Owns: its protocol (bench/networks.c). `make test` builds it for tests that run networks. Must never time: what is timed
is the program's business.
"""

import os
import subprocess

import numpy as np


def program():
    """Where the program is, or None."""
    path = os.path.join(os.environ.get("BUILD", "build"), "bench", "networks")
    return path if os.access(path, os.X_OK) else None


class Runner:
    """One process, which has one model open."""

    def __init__(self, path, tier="auto"):
        self.process = subprocess.Popen([program()], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.session_bytes, self.beside_bytes = map(int, self._ask(f"open {path} {tier}").split())
        self.shapes = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def _ask(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise ValueError(self.process.stderr.read().decode().strip() or f"no answer to {line!r}")
        return answer

    def bind(self, inputs, outputs):
        """inputs: {name: array}; outputs: {name: shape}, all f32."""
        for name, x in inputs.items():
            self._ask(f"input {name} " + " ".join(map(str, x.shape)), np.ascontiguousarray(x, np.float32).tobytes())
        for name, shape in outputs.items():
            self._ask(f"output {name} " + " ".join(map(str, shape)))
        self.shapes = dict(outputs)

    def seconds(self, times=1):
        """Runs it so often: seconds of the processor in all."""
        return float(self._ask(f"run {times}").split()[0])

    def results(self):
        made = {}
        for name, shape in self.shapes.items():
            self.process.stdin.write(f"result {name}\n".encode())
            self.process.stdin.flush()
            data = self.process.stdout.read(4 * int(np.prod(shape)))
            made[name] = np.frombuffer(data, np.float32).reshape(shape)
        return made


def run(path, inputs, outputs):
    """{name: array} of one run."""
    with Runner(path) as runner:
        runner.bind(inputs, outputs)
        runner.seconds()
        return runner.results()
