"""Luma frames for the Python benchmarks, and the driver's end of bench/frames.c.

Owns: reading 8-bit y4m, the rendered clip, the pipe to `frames`. Relies on: numpy, BUILD/bench/frames, BUILD/demo_clip.
Must never: time anything itself: nanoseconds come from inside the program that runs.
"""

import os
import re
import subprocess

import numpy as np


def build_dir():
    return os.environ.get("BUILD", "build")


def read_luma(path, limit=None):
    """u8 [frames, height, width]."""
    with open(path, "rb") as f:
        tags = f.readline().decode("latin-1").split()
        layout = next((t[1:] for t in tags if t[0] == "C"), "420")
        base = re.match(r"mono|42[02]|444", layout)
        if tags[0] != "YUV4MPEG2" or not base or "p10" in layout:
            raise ValueError(f"{path}: 8-bit y4m expected")
        width, height = (int(next(t[1:] for t in tags if t[0] == c)) for c in "WH")
        halved_x, halved_y = base[0] in ("420", "422"), base[0] == "420"
        chroma = 0 if base[0] == "mono" else 2 * (-(-width // (1 + halved_x))) * (-(-height // (1 + halved_y)))
        frames = []
        while (limit is None or len(frames) < limit) and f.readline():
            frames.append(np.frombuffer(f.read(width * height), np.uint8).reshape(height, width))
            f.seek(chroma, os.SEEK_CUR)
    return np.stack(frames)


def program(name):
    return os.path.join(build_dir(), name)


def scratch(name):
    os.makedirs(os.path.join(build_dir(), "bench"), exist_ok=True)
    return os.path.join(build_dir(), "bench", name)


def rendered_clip(frames, width, height):
    """Luma of the demo clip, rendered for this: no file is needed."""
    path = scratch("rendered.y4m")
    subprocess.run([program("demo_clip"), "--quiet", "--frames", str(frames),
                    "--width", str(width), "--height", str(height), path],
                   check=True)
    return read_luma(path)


def halved_clip(path, frames):
    """(small, reference) luma of a video; None: the rendered clip. Anything but y4m goes through ffmpeg."""
    whole, small, reference = (scratch(name) for name in ("whole.y4m", "small.y4m", "reference.y4m"))
    if path is None:
        rendered_clip(frames, 1280, 736)
        whole = scratch("rendered.y4m")
    elif path.endswith(".y4m"):
        whole = path
    else:
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-i", path, "-frames:v", str(frames),
                        "-pix_fmt", "yuv420p", whole],
                       check=True)
    subprocess.run([program("halve"), "--quiet", whole, small], check=True)
    subprocess.run([program("halve"), "--quiet", "--crop-only", whole, reference], check=True)
    return read_luma(small, frames), read_luma(reference, frames)


def clips_given(paths):
    """What to measure on: the paths given, else the project's clips where they are, else the rendered one (None)."""
    shared = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "shared", "data", "video")
    names = os.listdir(shared) if os.path.isdir(shared) else []
    found = sorted(os.path.join(shared, n) for n in names if n.endswith(".mp4"))
    return paths or found or [None]


def clip_name(path):
    return os.path.splitext(os.path.basename(path))[0] if path else "rendered street"


def psnr(picture, reference):
    error = np.mean(np.square(picture.astype(np.float32) - reference), dtype=np.float64)
    return 10 * np.log10(255**2 / error) if error else float("inf")


def fitted(frames, width, height):
    """Cut to width x height; a smaller clip is repeated beside itself."""
    down, across = -(-height // frames.shape[1]), -(-width // frames.shape[2])
    return np.ascontiguousarray(np.tile(frames, (1, down, across))[:, :height, :width])


class Run:
    """What one run took; tallies are sums since the set-up was opened."""

    def __init__(self, line):
        numbers = [int(n) for n in line.split()]
        self.ms, self.cpu_ms, self.routing_ms = (n * 1e-6 for n in numbers[:3])
        self.cells, self.exits = np.array(numbers[3:7]), np.array(numbers[7:10])
        self.route_ns, self.exit_ns = np.array(numbers[10:14]), np.array(numbers[14:18]).reshape(2, 2)


class Frames:
    """One process, several set-ups of one model. See bench/frames.c."""

    def __init__(self, model, width, height, setups, executable=None):
        self.width, self.height = width, height
        command = [executable or program(os.path.join("bench", "frames")), model]
        self.process = subprocess.Popen([*command, str(width), str(height), *setups], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def send(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("frames has stopped: it said why above") from None

    def ask(self, line):
        self.send(line)
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise SystemExit(f"frames gave no answer to '{line}': it said why above")
        return answer

    def frame(self, luma):
        self.send("frame", np.ascontiguousarray(luma).tobytes())

    def run(self, setup, fresh=False):
        return Run(self.ask(f"{'fresh' if fresh else 'run'} {setup}"))

    def result(self, setup):
        self.send(f"result {setup}")
        data = self.process.stdout.read(4 * self.width * self.height)
        return np.frombuffer(data, np.uint8).reshape(2 * self.height, 2 * self.width)

    def peak(self, tier):
        return float(self.ask(f"peak {tier}"))

    def tier(self):
        return self.ask("tier")

    def close(self):
        self.process.stdin.close()
        self.process.wait()
