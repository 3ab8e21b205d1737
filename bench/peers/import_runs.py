"""Who runs an imported network: ours by the program bench/networks, ONNX Runtime, ncnn; one thread each, and how long.

Each has bind(), run(times), which gives processor seconds, and results(), arrays in the order of the model's outputs.
Must never: time a conversion.
"""

import os
import re
import subprocess
import tempfile
import time

import numpy as np

import luma


class Ours:
    """One file in bench/networks; ports: ([(name, array)], [(name, shape, type)])."""
    name = "brainstorm"

    def __init__(self, program, path, tier, ports):
        self.program, self.allocations = program, 0
        self.bytes = sum(int(n) for n in program.ask(f"open {path} {tier}").split())
        self.outputs = ports[1]
        for name, array in ports[0]:
            program.ask(" ".join(["input", name, *map(str, array.shape)]), np.ascontiguousarray(array).tobytes())
        for name, shape, _ in self.outputs:
            program.ask(" ".join(["output", name, *map(str, shape)]))

    def run(self, times):
        seconds, allocations = self.program.ask(f"run {times}").split()
        self.allocations = -1 if int(allocations) < 0 else max(self.allocations, int(allocations))
        return float(seconds)

    def results(self):
        return [self.result(*output) for output in self.outputs]

    def result(self, name, shape, dtype):
        self.program.process.stdin.write(f"result {name}\n".encode())
        self.program.process.stdin.flush()
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.program.process.stdout.read(size), dtype).reshape(shape)


class Onnx:
    name = "onnxruntime"

    def __init__(self, path, feeds):
        from network_onnx import session
        self.session, self.feeds = session(path), feeds

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            self.made = self.session.run(None, self.feeds)
        return time.process_time() - since

    def results(self):
        return self.made


class Ncnn:
    name = "ncnn"

    def __init__(self, path, feeds, outputs):
        import ncnn
        from brainstorm.ncnn.compare import ncnn_net
        self.net, self.names = ncnn_net(path, path[:-6] + ".bin"), outputs
        self.mats = {name: ncnn.Mat(np.ascontiguousarray(x)).clone() for name, x in feeds.items()}

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            extractor = self.net.create_extractor()
            extractor.set_light_mode(True)
            for name, mat in self.mats.items():
                extractor.input(name, mat)
            self.made = [extractor.extract(name)[1] for name in self.names]
        return time.process_time() - since

    def results(self):
        return [np.array(mat) for mat in self.made]


def coverage(path, tier, ports):
    """The share of a run that its ops take, by `brainstorm run --time`, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        words = []
        for i, (name, array) in enumerate(ports[0]):
            file = os.path.join(folder, f"{i}.npy")
            np.save(file, array)
            words += ["--input", f"{name}={file}"]
        words += [] if tier == "auto" else ["--tier", tier]
        done = subprocess.run([luma.program("brainstorm"), "run", path, "--time", "--quiet", "--threads", "1", *words],
                              capture_output=True, text=True)
    found = re.search(r"ops take ([0-9.]+) % of it", done.stdout)
    return (float(found[1]) / 100 if found else None), done.stdout + done.stderr


def opened(plan, ports, profile=None, weights_of=None):
    """A session of the package's extension module with everything bound."""
    session = plan.session(profile=profile, profile_ops=profile is not None, weights_of=weights_of)
    for name, array in ports[0]:
        session.bind(name, np.ascontiguousarray(array))
    for name, port in plan.outputs.items():
        session.bind(name, np.empty(port.shape, port.numpy_dtype))
    return session


def recording(path, tier, ports, turns, seconds):
    """What recording every op adds to the fastest turn of several; None where the extension module is not built."""
    try:
        from brainstorm import running
        running.native()
    except ImportError:
        return None

    def timed(session, times):
        since = time.process_time()
        for _ in range(times):
            session.run()
        return time.process_time() - since

    with tempfile.TemporaryDirectory() as folder:
        plan = running.open(path).plan(tier=tier, extents={name: array.shape for name, array in ports[0]})
        plain = opened(plan, ports)
        both = [plain, opened(plan, ports, os.path.join(folder, "run.bsprof"), plain)]
        once = max(min(timed(s, 1) for s in both * 2), 1e-6)
        times = max(1, min(512, int(seconds / once)))
        least = [np.inf, np.inf]
        for turn in range(2 * turns):
            which = turn % 2
            least[which] = min(least[which], timed(both[which], times))
        for session in reversed(both):
            session.close()
    return least[1] / least[0] - 1
