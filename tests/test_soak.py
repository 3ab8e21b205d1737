# tags: long
"""test_soak.py: video_sr goes on for as long as video comes, and is at the end what it was at the beginning.

A clip is fed to it again and again for $MINUTES [0.2], with streamed weights, a profile and a trace. Every loop must
give the same bytes, memory must not grow, and no descriptor or thread may be left behind; every event of profile and
trace is looked at as it comes. `make soak MINUTES=30` is the long version, with a line a minute.

Owns: that run and what it measures. Relies on: $BUILD/video_sr, demo_clip and brainstorm; /proc. Must never leave a
file behind outside $BUILD, or keep what grows with time: profile and trace go through pipes, of the profile the first
part is kept.
"""

import json
import os
import re
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
import zlib

BUILD, RUN = os.environ.get("BUILD", "build"), os.environ.get("RUN", "").split()
SECONDS = 60 * float(os.environ.get("MINUTES") or 0.2)
MODEL = os.environ.get("MODEL", "models/sr2x_video.gguf")
WORK = os.path.join(BUILD, "tests", "soak")
CLIP = ["--frames", "24", "--width", "320", "--height", "184"]
# slots: not both nets at once
OPTIONS = ["--model", MODEL, "--slots", "95%", "--lanes", "2", "--threads", "2", "--check-records"]
KEPT_BYTES = 40 * 25000  # of the profile
LEAST_LOOPS = 20  # the profile is first written when its ring is half full: after half of these
GROWTH_KIB = 64  # of 4 KiB pages that are counted late there may be some
MEMORY = ("VmRSS", "RssAnon", "VmHWM", "VmData")
COUNTS = ("descriptors", "threads")
HANGS = 200  # seconds without a frame
KINDS = range(1, 15)  # of events, see docs/profile.md
RUN_ENDED, LOST = 1, 12
results = {True: 0, False: 0}


def check(name, passed):
    results[bool(passed)] += 1
    print("ok" if passed else "FAIL", name, flush=True)


def skip(why):
    print(f"skipped: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def program(name):
    return [*RUN, os.path.join(BUILD, name)]


# --- what comes out ---------------------------------------------------------------------------------------------


class Profile:
    """Reads the profile's bytes as they come: header, tables, then event after event."""

    def __init__(self, file, kept_path, begun):
        self.begun = begun
        self.runs = self.events = self.lost = 0
        self.wrong = None
        try:
            with open(kept_path, "wb") as self.kept:
                self.read(file)
        except (AssertionError, struct.error) as wrong:
            self.wrong = wrong
            while file.read(1 << 16):
                pass

    def take(self, file, size):
        data = file.read(size)
        if self.kept.tell() < KEPT_BYTES:
            self.kept.write(data)
        return data

    def read(self, file):
        header = self.take(file, 64)
        magic, _, header_bytes, event_bytes, routers, units, phases, phase_units, nodes = struct.unpack(
            "<4s7I24xI4x", header)
        assert magic == b"BSPF" and header_bytes == 64 and event_bytes == 40, "header"
        self.take(file, 72 * routers + 88 * units + 8 * phases + 4 * (phase_units + phase_units % 2) + 184 * nodes)
        last = -1
        while data := self.take(file, 40 * 64):
            self.begun.set()
            for start, end, value, subject, _, kind, _, zero in struct.iter_unpack("<QQQiihhi", data):
                assert kind in KINDS and start <= end and zero == 0, (
                    f"event {self.events}: kind {kind}, {start} to {end}")
                self.events += 1
                self.lost += value if kind == LOST else 0
                if kind == RUN_ENDED:
                    assert subject > last, f"run {subject} after run {last}"
                    self.runs, last = self.runs + 1, subject


class Trace:
    """Reads the trace's lines as they come."""

    def __init__(self, file):
        self.events, self.wrong, last = 0, None, b""
        for line in file:
            last = line.strip()
            text = last.rstrip(b",").removeprefix(b"[")
            try:
                if text not in (b"", b"]"):
                    self.events += json.loads(text)["ph"] in "XiMCsf"
            except (ValueError, KeyError) as wrong:
                self.wrong = self.wrong or f"{wrong}: {text[:80]!r}"
        if last != b"]":
            self.wrong = self.wrong or "its end is missing"


class Feeder(threading.Thread):
    """Gives the clip to the program until the time is over: whole loops, so that the last frame is the clip's last
    one."""

    def __init__(self, pipe, head, frames, until):
        super().__init__(daemon=True)
        self.pipe, self.head, self.frames, self.until, self.loops = pipe, head, frames, until, 0
        self.start()

    def run(self):
        try:
            self.pipe.write(self.head)
            while time.monotonic() < self.until or self.loops < LEAST_LOOPS:
                self.pipe.write(self.frames)
                self.loops += 1
            self.pipe.close()
        except OSError:
            pass  # the program has gone, and its status tells


def sample(pid):
    """Memory in KiB, threads and descriptors of a process."""
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":", 1) for line in file)
    taken = {key: int(status[key].split()[0]) for key in MEMORY}
    taken["threads"] = int(status["Threads"])
    taken["descriptors"] = len(os.listdir(f"/proc/{pid}/fd"))
    return taken


# --- the run ----------------------------------------------------------------------------------------------------


def in_thread(call, *arguments):
    """Starts it; what is returned waits for it, and gives its result."""
    made = []
    thread = threading.Thread(target=lambda: made.append(call(*arguments)), daemon=True)
    thread.start()
    return lambda: (thread.join(), made[0])[1]


class Guard(threading.Thread):
    """Ends a program that hangs: of which nothing has come for HANGS seconds. A busy machine is only slow."""

    def __init__(self, process):
        super().__init__(daemon=True)
        self.process, self.seen, self.over = process, time.monotonic(), threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(1):
            if time.monotonic() - self.seen > HANGS:
                self.process.kill()
                return


def watch(process, frame_bytes, count, until, begun, guard):
    """Reads the video frame by frame. Returns the checksums of loops that there are, how many frames, samples after the
    warm-up: the thread that writes the profile takes its buffers when it first writes.
    """
    started, period = time.monotonic(), min(2.0, SECONDS / 100)
    sums, samples, frames, crc, sampled, told = {}, [], 0, 0, 0.0, started
    process.stdout.readline()
    while len(data := process.stdout.read(frame_bytes)) == frame_bytes:
        now, frames, crc = time.monotonic(), frames + 1, zlib.crc32(data, crc)
        guard.seen = now
        if frames % count == 0:
            sums.setdefault(crc, frames // count)
            crc = 0
        if now - sampled < period or now >= until:
            continue
        taken, sampled = sample(process.pid), now
        if now - started >= SECONDS / 10 and begun.is_set():
            samples.append(taken)
        if now - told >= 60:
            told += 60
            facts = ", ".join(f"{key} {taken[key]}" for key in MEMORY + COUNTS)
            print(f"# minute {(now - started) / 60:.0f}: {frames // count} loops, {len(sums)} checksum, {facts}",
                  flush=True)
    return sums, frames, samples, len(data)


def judge_samples(samples):
    quarter = len(samples) // 4
    check(f"{len(samples)} samples were taken", quarter >= 5)
    if quarter < 5:
        return
    for key in MEMORY:
        first, last = (statistics.median(s[key] for s in part) for part in (samples[:quarter], samples[-quarter:]))
        check(f"{key} does not grow: {first:.0f} KiB in the first quarter, {last:.0f} in the last",
              last - first <= GROWTH_KIB)
    for key in COUNTS:
        seen = sorted({s[key] for s in samples})
        check(f"{key} stay the same: {seen}", len(seen) == 1)


def judge_events(profile, trace, runs, message, kept):
    found = re.search(r"the profile lacks (\d+) events", message)
    lost = int(found.group(1)) if found else 0
    check(f"the profile is well-formed: {profile.events} events ({profile.wrong})", profile.wrong is None)
    check(f"... and tells what it lacks: {lost} events", profile.lost == lost)
    check(f"... and every run otherwise: {profile.runs} of {runs}", 0 <= runs - profile.runs <= lost)
    check(f"the trace is well-formed: {trace.events} events ({trace.wrong})",
          trace.wrong is None and trace.events > profile.runs)
    json_path = os.path.join(WORK, "kept.json")
    for name, command in (("brainstorm profile", [*program("brainstorm"), "profile", kept]),
                          ("brainstorm trace", [*program("brainstorm"), "trace", kept, json_path]),
                          ("... gives a trace whose parts fit", [sys.executable, "tests/trace_check.py", json_path])):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(name + ("" if done.returncode == 0 else f": {done.stdout[-300:]}"), done.returncode == 0)


def main():
    if RUN:
        skip("what grows could be the emulator")
    if not os.path.exists("/proc/self/status") or not os.path.exists("/dev/fd"):
        skip("no /proc here")
    if not os.path.exists(MODEL):
        skip("no model file (MODEL=file.gguf names one)")
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    clip = subprocess.run([*program("demo_clip"), "--quiet", *CLIP, "-"], stdout=subprocess.PIPE, check=True).stdout
    at = clip.index(b"\n") + 1
    head, frames, count = clip[:at], clip[at:], int(CLIP[1])
    frame_bytes = (len(frames) // count - len(b"FRAME\n")) * 4 + len(b"FRAME\n")

    pipes = [os.pipe(), os.pipe()]
    events = [f"/dev/fd/{writing}" for _, writing in pipes]
    kept, message_path = os.path.join(WORK, "kept.profile"), os.path.join(WORK, "message")
    with open(message_path, "w") as message:
        command = [*program("video_sr"), *OPTIONS, "--profile", events[0], "--trace", events[1], "-", "-"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=message,
                                   pass_fds=[w for _, w in pipes])
    for _, writing in pipes:
        os.close(writing)
    begun = threading.Event()
    profile = in_thread(Profile, os.fdopen(pipes[0][0], "rb"), kept, begun)
    trace = in_thread(Trace, os.fdopen(pipes[1][0], "rb"))
    guard = Guard(process)
    until = time.monotonic() + SECONDS
    feeder = Feeder(process.stdin, head, frames, until)
    sums, made, samples, rest = watch(process, frame_bytes, count, until, begun, guard)
    status = process.wait()
    guard.over.set()

    with open(message_path) as file:
        message = file.read()
    print("".join(f"# {line}\n" for line in message.splitlines()[-5:]), end="")
    check(f"it ends well ({status})", status == 0)
    check(f"{feeder.loops} loops of {count} frames were fed: {made} frames and {rest} bytes",
          made == feeder.loops * count and rest == 0)
    check("each loop gave the same bytes" + ("" if len(sums) == 1 else f", but {sums}"), len(sums) == 1)
    judge_samples(samples)
    judge_events(profile(), trace(), made, message, kept)
    shutil.rmtree(WORK)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
