# tags: plain
"""test_endings.py: programs that are stopped, or whose streams are odd: files hold whole frames, and a message says
what happened.

Signals while a header is awaited, while a pipe is full, while frames are made; files that may not grow; readers that
are gone; standard streams that do not block, or are closed.
Programs sleep most of the time: groups of tests run beside each other, each in a process and a folder of its own.
`test_endings.py GROUP` runs one. Owns: these runs. Relies on: $BUILD's programs; POSIX. Must never leave a process
behind, nor say that a program is wrong because it is slow.
"""
import array
import fcntl
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import termios
import threading
import time

BUILD, RUN = os.environ.get("BUILD", "build"), os.environ.get("RUN", "").split()
WORK = os.path.join(BUILD, "tests", "endings")
MODEL, TEXT_MODEL = "models/sr2x_video.gguf", "models/moe_text.gguf"
PATIENCE = 200  # seconds, after which a program hangs: sanitizers and busy machines are slow
W, H, FRAMES = 96, 72, 4
PROMPT = "And it came to pass. " * 300  # fills a small pipe
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)
    return good


def program(name):
    return [*RUN, os.path.join(BUILD, name)]


def at(name):
    return os.path.join(WORK, name)


def frame_bytes(width, height):
    return width * height + 2 * ((width + 1) // 2) * ((height + 1) // 2)


def is_whole(path, width, height):
    """How many frames of that size the file holds, -1 where it ends within one."""
    with open(path, "rb") as file:
        data = file.read()
    if not data:
        return 0
    head, step = data.find(b"\n") + 1, 6 + frame_bytes(width, height)
    return (len(data) - head) // step if head > 0 and (len(data) - head) % step == 0 else -1


class Run:
    """A program that ends within PATIENCE, or is killed and counts as hung."""

    def __init__(self, arguments, **streams):
        self.process = subprocess.Popen(arguments, stderr=subprocess.PIPE, **streams)
        self.alarm = threading.Timer(PATIENCE, self.process.kill)
        self.alarm.start()

    def end(self):
        message = self.process.stderr.read().decode(errors="replace")
        status = self.process.wait()
        self.alarm.cancel()
        return status, message

    def asleep(self, what, since=0.15):
        """Waits until what() holds and the program has not run for a while."""
        until, before, quiet = time.monotonic() + PATIENCE, None, time.monotonic()
        while time.monotonic() < until and self.process.poll() is None:
            with open(f"/proc/{self.process.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            now = (fields[11], fields[12]) if fields[0] == "S" and what() else None
            if now is None or now != before:
                before, quiet = now, time.monotonic()
            elif time.monotonic() - quiet > since:
                return True
            time.sleep(0.02)
        return False


def ends_by(name, run, number, said="stopped by a signal"):
    run.process.send_signal(number)
    sent = time.monotonic()
    status, message = run.end()
    took = time.monotonic() - sent
    check(f"{name}: {signal.Signals(number).name} ends it", status == 1 and said in message,
          f"status {status}, {took:.1f} s: {message}")


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def doubling(*arguments):
    return [*program("video_sr"), "--quiet", "--model", MODEL, *arguments]


# --- signals ------------------------------------------------------------------------------------------------


def test_header_awaited():
    head = f"YUV4MPEG2 W{W} H{H} F25:1 C420jpeg\n".encode()
    cases = [(number, "a header", b"") for number in SIGNALS]
    cases.append((signal.SIGTERM, "its first frame", head + b"FRAME\n" + bytes(999)))
    for number, what, sent in cases:
        for name, command in (("video_sr", doubling("-", at("out.y4m"))),
                              ("halve", [*program("halve"), "--quiet", "-", at("out.y4m")])):
            with open(at("out.y4m"), "w") as file:
                file.write("old")
            reading, writing = os.pipe()
            run = Run(command, stdin=reading)
            os.close(reading)
            os.write(writing, sent)
            run.asleep(lambda: True)
            ends_by(f"{name} awaits {what}", run, number)
            os.close(writing)
            with open(at("out.y4m"), "rb") as file:
                check("... and the old output is there", file.read() == b"old")
    os.unlink(at("out.y4m"))
    fifo = at("fifo")
    os.mkfifo(fifo)
    run = Run(doubling(fifo, at("out.y4m")))
    run.asleep(lambda: True)
    ends_by("video_sr awaits a pipe's other end", run, signal.SIGTERM)
    check("... and leaves nothing", not os.path.exists(at("out.y4m")))


def stopped_early(command, folder, files, old):
    """A program that reads its weights slowly, and is sent a signal when it sleeps; its files are there, or are not."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for file in files if old else ():
        with open(os.path.join(folder, file), "w") as out:
            out.write("old")
    run = Run(command, stdout=subprocess.DEVNULL)
    run.asleep(lambda: True)
    run.process.send_signal(signal.SIGTERM)
    return run


def test_nothing_written(clip):
    """A signal while the weights are read, slowly: results that are there stay, whatever is recorded. Where all was
    read by then, as on a busy machine, it is read more slowly.
    """
    sr = ["out.y4m", "stats.json", "map.y4m", "run.bsp", "run.json"]
    cases = (("video_sr", sr, lambda f: doubling("--stats", f[1], "--map", f[2], "--profile", f[3], "--trace", f[4],
                                                 clip, f[0])),
             ("moe_text", sr[3:], lambda f: [*program("moe_text"), "--model", TEXT_MODEL, "--profile", f[0], "--trace",
                                             f[1]]))
    speeds = {"video_sr": ("300K", "60K", "15K"), "moe_text": ("2500K", "500K", "125K")}
    said = "stopped by a signal; nothing was written"
    for name, files, command in cases:
        folders = {old: at(f"{name}_{old}") for old in (True, False)}
        for speed in speeds[name]:
            runs = {}
            for old, folder in folders.items():
                paths = [os.path.join(folder, file) for file in files]
                runs[old] = stopped_early([*command(paths), "--throttle", speed], folder, files, old)
            ends = {old: run.end() for old, run in runs.items()}
            if all(said in message for _, message in ends.values()):
                break
        for old, folder in folders.items():
            status, message = ends[old]
            check(f"{name} loads: SIGTERM ends it", status == 1 and said in message, f"status {status}: {message}")
            for file in files:
                path = os.path.join(folder, file)
                if not old:
                    check(f"... and leaves no {file}", not os.path.exists(path))
                    continue
                with open(path, "rb") as kept:
                    check(f"... and the old {file} is there", kept.read() == b"old")


def held(descriptor):
    """Bytes in a pipe."""
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def test_full_pipe(clip):
    commands = (("video_sr", doubling(clip, "-")), ("halve", [*program("halve"), "--quiet", "--crop-only", clip, "-"]),
                ("demo_clip",
                 [*program("demo_clip"), "--quiet", "--frames", "9", "--width", "96", "--height", "72", "-"]),
                ("moe_text", [*program("moe_text"), "--model", TEXT_MODEL, "--prompt", PROMPT]))
    for name, command in commands:
        for number in SIGNALS:
            reading, writing = os.pipe()
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
            run = Run(command, stdout=writing)
            os.close(writing)
            run.asleep(lambda: held(reading) > 0)
            ends_by(f"{name}, a full pipe", run, number)
            os.close(reading)


def test_stalled_profile(clip):
    """A profile goes into a pipe whose reader has it open and never reads; the signal comes when the pipe is full."""
    fifo, longer = at("stalled"), at("longer.y4m")
    os.mkfifo(fifo)
    with open(clip, "rb") as file, open(longer, "wb") as out:
        head, frames = file.readline(), file.read()
        out.write(head + 50 * frames)
    for name, command in (("video_sr", doubling("--profile", fifo, longer, "/dev/null")),
                          ("moe_text", [*program("moe_text"), "--model", TEXT_MODEL, "--profile", fifo])):
        reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
        run = Run(command, stdout=subprocess.DEVNULL)
        check(f"{name}: nobody reads its profile", run.asleep(lambda: held(reading) > 0, 0.5), "it did not wait")
        ends_by(f"{name}, its profile is not read", run, signal.SIGTERM)
        os.close(reading)
    os.unlink(fifo)


def test_between_frames(clip):
    """Frames come one by one; the signal comes while the next is awaited, in the middle of it."""
    with open(clip, "rb") as file:
        data = file.read()
    head, step = data.find(b"\n") + 1, 6 + frame_bytes(W, H)
    out, drawn = at("some.y4m"), at("drawn.y4m")
    for number in SIGNALS:
        for name, command, side, files in (("video_sr", doubling("-", out), 2, (out,)),
                                           ("video_sr --map", doubling("--map", drawn, "-", out), 2, (out, drawn)),
                                           ("halve", [*program("halve"), "--quiet", "-", out], 0.5, (out,))):
            size = (int(W * side), int(H * side))
            run = Run(command, stdin=subprocess.PIPE)
            run.process.stdin.write(data[:head + 2 * step + 999])
            run.process.stdin.flush()
            run.asleep(lambda: all(os.path.exists(file) and is_whole(file, *size) == 2 for file in files))
            ends_by(f"{name} awaits a frame", run, number)
            for file in files:
                check(f"... and two frames are in {os.path.basename(file)}", is_whole(file, *size) == 2,
                      f"{os.path.getsize(file)} bytes")
                os.unlink(file)
            run.process.stdin.close()


def test_any_time():
    """Whenever the signal comes, a file holds whole frames, and the status is not 0."""
    out = at("any.y4m")
    for i in range(12):
        number = SIGNALS[i % 3]
        run = Run([*program("demo_clip"), "--quiet", "--frames", "10000", "--width", "96", "--height", "72", out])
        while run.process.poll() is None and (not os.path.exists(out) or os.path.getsize(out) < 1000):
            time.sleep(0.005)
        time.sleep(0.013 * i)
        run.process.send_signal(number)
        status, message = run.end()
        frames = is_whole(out, 96, 72)
        check(f"demo_clip, {signal.Signals(number).name}: {frames} whole frames",
              status == 1 and frames > 0 and "signal" in message,
              f"status {status}, {message}")
        os.unlink(out)


def test_nohup():
    reading, writing = os.pipe()
    run = Run([*program("halve"), "--quiet", "-", at("nohup.y4m")], stdin=reading,
              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    os.close(reading)
    run.asleep(lambda: True)
    run.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    os.close(writing)
    status, message = run.end()
    check("a hangup that the parent ignores is ignored", status == 1 and "the input is empty" in message,
          f"status {status}: {message}")


# --- files that may not grow, readers that are gone ----------------------------------------------------------


def limited(limit):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_limits(clip):
    out = at("limited.y4m")
    for name, command, width, height in (
            ("video_sr", doubling(clip, out), 2 * W, 2 * H),
            ("video_sr --map", doubling("--map", out, clip, "/dev/null"), 2 * W, 2 * H),
            ("halve", [*program("halve"), "--quiet", clip, out], W // 2, H // 2),
            ("demo_clip",
             [*program("demo_clip"), "--quiet", "--frames", "4", "--width", str(W), "--height", str(H), out], W, H)):
        size = frame_bytes(width, height) + 6
        for limit, frames in ((7, 0), (size, 0), (2 * size + 300, 2), (3 * size - 1, 2)):
            run = Run(command, preexec_fn=limited(limit))
            status, message = run.end()
            held = is_whole(out, width, height)
            check(f"{name}, at most {limit} bytes: {frames} frames",
                  status == 1 and held == frames and "too large" in message,
                  f"status {status}, {held} frames: {message}")
    for option in ("--stats", "--map", "--profile", "--trace"):
        name = at("limited.png") if option == "--map" else at("limited" + option)
        run = Run(doubling("--frames", "2", option, name, clip, "/dev/null"), preexec_fn=limited(100))
        status, message = run.end()
        check(f"{option}, at most 100 bytes", status == 1 and "File too large" in message,
              f"status {status}: {message}")
    run = Run([*program("moe_text"), "--model", TEXT_MODEL, "--length", "50", "--profile", at("limited.p")],
              stdout=subprocess.DEVNULL,
              preexec_fn=limited(100))
    status, message = run.end()
    check("moe_text --profile, at most 100 bytes", status == 1 and "File too large" in message,
          f"status {status}: {message}")
    run = Run([*program("moe_text"), "--model", TEXT_MODEL, "--length", "50", "--profile", at("whole.p")],
              stdout=subprocess.DEVNULL)
    check("a profile", run.end()[0] == 0)
    run = Run([*program("brainstorm"), "trace", at("whole.p"), at("limited.json")], preexec_fn=limited(100))
    status, message = run.end()
    check("brainstorm trace, at most 100 bytes", status == 1 and "File too large" in message,
          f"status {status}: {message}")
    with open(at("text"), "w") as text:
        run = Run([*program("brainstorm"), "inspect", MODEL], stdout=text, preexec_fn=limited(100))
        status, message = run.end()
    check("brainstorm inspect, at most 100 bytes", status == 1 and "File too large" in message,
          f"status {status}: {message}")
    if os.path.exists("/dev/full"):
        for option in ("--stats", "--profile", "--trace"):
            run = Run(doubling("--frames", "2", option, "/dev/full", clip, "/dev/null"))
            status, message = run.end()
            check(f"{option} on a full disk", status == 1 and "No space left" in message, f"status {status}: {message}")


def test_gone(clip):
    for name, command in (("video_sr", doubling(clip, "-")), ("halve", [*program("halve"), "--quiet", clip, "-"]),
                          ("moe_text", [*program("moe_text"), "--model", TEXT_MODEL])):
        reading, writing = os.pipe()
        os.close(reading)
        run = Run(command, stdout=writing)
        os.close(writing)
        status, message = run.end()
        check(f"{name}, nobody reads", status == 1 and "Broken pipe" in message, f"status {status}: {message}")


# --- odd standard streams -------------------------------------------------------------------------------------


def pump(data, descriptor):
    """Gives it bit by bit, with pauses."""
    for i in range(0, len(data), 9999):
        os.write(descriptor, data[i:i + 9999])
        time.sleep(0.001)
    os.close(descriptor)


def take(descriptor, into):
    while data := os.read(descriptor, 7777):
        into.append(data)
        time.sleep(0.001)
    os.close(descriptor)


def pair(kind):
    """Its reading and its writing end, neither of which blocks for the program."""
    if kind == "pipe":
        return os.pipe()
    a, b = socket.socketpair()
    b.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return a.detach(), b.detach()


def test_not_blocking(clip):
    with open(clip, "rb") as file:
        data = file.read()
    plain = at("plain.y4m")
    check("a clip is doubled", Run(doubling(clip, plain)).end()[0] == 0)
    with open(plain, "rb") as file:
        doubled = file.read()
    smaller = [*program("halve"), "--quiet", "-", "-"]
    halved = subprocess.run(smaller, input=data, stdout=subprocess.PIPE, check=True).stdout
    street = [*program("demo_clip"), "--quiet", "--frames", "9", "--width", str(W), "--height", str(H), "-"]
    rendered = subprocess.run(street, stdout=subprocess.PIPE, check=True).stdout
    told = subprocess.run([*program("brainstorm"), "inspect", MODEL], stdout=subprocess.PIPE, check=True).stdout
    written = subprocess.run([*program("moe_text"), "--model", TEXT_MODEL, "--prompt", PROMPT, "--length", "9"],
                             stdout=subprocess.PIPE, check=True).stdout
    for kind in ("pipe", "socket"):
        cases = [("video_sr", doubling("-", "-"), data, doubled), ("halve", smaller, data, halved),
                 ("demo_clip", street, b"", rendered)]
        if kind == "pipe":  # a socket is waited for by what reads and writes video only
            cases += [("brainstorm", [*program("brainstorm"), "inspect", MODEL], b"", told),
                      ("moe_text", [*program("moe_text"), "--model", TEXT_MODEL, "--prompt", PROMPT, "--length", "9"],
                       b"", written)]
        for name, command, given, wanted in cases:
            in_read, in_write = pair(kind)
            out_read, out_write = pair(kind)
            for descriptor in (in_read, out_write):
                os.set_blocking(descriptor, False)
            if kind == "pipe":
                fcntl.fcntl(out_write, fcntl.F_SETPIPE_SZ, 4096)
            got = []
            run = Run(command, stdin=in_read, stdout=out_write)
            os.close(in_read), os.close(out_write)
            threads = [threading.Thread(target=pump, args=(given, in_write)),
                       threading.Thread(target=take, args=(out_read, got))]
            for thread in threads:
                thread.start()
            status, message = run.end()
            for thread in threads:
                thread.join()
            check(f"{name}: a {kind} that does not block is waited for", status == 0 and b"".join(got) == wanted,
                  f"status {status}, {len(b''.join(got))} of {len(wanted)} bytes: {message}")


def closed(*descriptors):
    return lambda: [os.close(d) for d in descriptors]


def test_closed(clip):
    out, stats, profile = at("closed.y4m"), at("closed.json"), at("closed.profile")
    plain = at("plain.y4m")
    for descriptors in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        name = "descriptors " + ", ".join(map(str, descriptors))
        # Not quiet: what is told goes to standard error, whatever lies there.
        command = [*program("video_sr"), "--model", MODEL, "--stats", stats, "--profile", profile, "--slots", "100%",
                   clip, out]
        run = Run(command, preexec_fn=closed(*descriptors))
        status, message = run.end()
        with open(out, "rb") as a, open(plain, "rb") as b:
            same = a.read() == b.read()
        check(f"{name} closed: the video is as it should be", status == 0 and same, f"status {status}: {message}")
        done = subprocess.run([*program("brainstorm"), "profile", profile], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        check("... and the profile", done.returncode == 0 and f"{FRAMES} runs".encode() in done.stdout,
              done.stdout[:200])
        with open(stats) as file:
            check("... and the statistics", file.read().startswith("{\n"))
    run = Run(doubling(clip, "-"), preexec_fn=closed(1))
    status, message = run.end()
    check("an output that is closed is told", status == 1 and "standard output: it is closed" in message,
          f"status {status}: {message}")
    run = Run(doubling("-", out), preexec_fn=closed(0))
    status, message = run.end()
    check("an input too", status == 1 and "standard input: it is closed" in message, f"status {status}: {message}")
    run = Run([*program("brainstorm"), "inspect", MODEL], preexec_fn=closed(1))
    status, message = run.end()
    check("brainstorm: output that is closed is told", status == 1 and "standard output" in message,
          f"status {status}: {message}")


# --- groups -------------------------------------------------------------------------------------------------

GROUPS = {
    "await": (test_header_awaited, test_between_frames, test_nohup),
    "load": (test_nothing_written, test_gone),
    "full": (test_full_pipe, test_limits),
    "stall": (test_stalled_profile, test_any_time),
    "odd": (test_not_blocking, test_closed),
}


def run_group(name):
    global WORK
    WORK = at(name)
    for number in SIGNALS:  # a shell ignores some for what it runs in the background, and programs leave it at that
        signal.signal(number, signal.SIG_DFL)
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    clip = at("clip.y4m")
    subprocess.run([*program("demo_clip"), "--quiet", "--frames", str(FRAMES), "--width", str(W), "--height", str(H),
                    clip], check=True)
    for test in GROUPS[name]:
        test(clip) if test.__code__.co_argcount else test()
    shutil.rmtree(WORK)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


def main():
    if RUN or not os.path.exists("/proc/self/stat"):
        print("no /proc of the program here\n0 passed, 0 failed, 1 skipped")
        return 0
    if len(sys.argv) > 1:
        return run_group(sys.argv[1])
    shutil.rmtree(WORK, ignore_errors=True)
    groups = [subprocess.Popen([sys.executable, __file__, name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True) for name in GROUPS]
    for name, group in zip(GROUPS, groups):
        told = group.communicate()[0].splitlines()
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed", told[-1] if told else "")
        print("\n".join(told[:-1] if counts else told))
        if not counts or (group.returncode != 0) != (counts[2] != "0"):
            check(f"group {name} comes to its end", False, f"status {group.returncode}")
        results[True] += int(counts[1]) if counts else 0
        results[False] += int(counts[2]) if counts else 0
    shutil.rmtree(WORK, ignore_errors=True)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
