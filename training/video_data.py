"""Stores for the video variant: what real cameras and H.264 do, on top of the downscale.

    python3 video_data.py --photos DIR --camera OUT --poor OUT [--clips 3]

Each photograph becomes short pans, encoded by ffmpeg (libx264) and decoded again:

`camera`  the high-resolution pan is softened, made noisy and encoded; the low resolution is
          a clean bicubic of the decoded frame and the target the decoded frame itself: footage
          that has already been through a camera, halved.
`poor`    the low resolution is made by a random kernel, made noisy and encoded; the target is
          the untouched photograph: footage to be cleaned as well as enlarged.
"""

import argparse
import subprocess

import numpy as np

import data

FRAMES = 5
KEPT = 2  # frames taken of each pan: intra, predicted and bidirectional ones by chance


# ---------------------------------------------------------------- H.264


def y4m_of(frames):
    height, width = frames[0].shape
    grey = np.full((height // 2) * (width // 2) * 2, 128, np.uint8).tobytes()
    head = f"YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420mpeg2\n".encode()
    return head + b"".join(b"FRAME\n" + f.tobytes() + grey for f in frames)


def through_h264(frames, crf):
    """The luma frames as a decoder of their H.264 stream gives them back."""
    encode = "ffmpeg -v error -f yuv4mpegpipe -i - -c:v libx264 -threads 1 -preset medium".split()
    encode += ["-crf", str(crf), "-f", "h264", "-"]
    stream = subprocess.run(encode, input=y4m_of(frames), stdout=subprocess.PIPE, check=True).stdout
    decode = "ffmpeg -v error -f h264 -threads 1 -i - -pix_fmt gray -vf extractplanes=y -f rawvideo -".split()
    raw = subprocess.run(decode, input=stream, stdout=subprocess.PIPE, check=True).stdout
    height, width = frames[0].shape
    return list(np.frombuffer(raw, np.uint8).reshape(len(frames), height, width))


# ---------------------------------------------------------------- cameras


def blur(plane, sigma):
    radius = 3
    taps = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    taps /= taps.sum()
    for _ in range(2):
        padded = np.pad(plane, ((radius, radius), (0, 0)), mode="symmetric")
        plane = sum(t * padded[i : i + plane.shape[0]] for i, t in enumerate(taps)).T
    return plane.astype(np.float32)


def sensor_noise(plane, random, strongest):
    """Read noise plus a part that grows with brightness."""
    read, shot = random.uniform(0, strongest, 2)
    sigma = np.sqrt(read**2 + shot**2 * np.clip(plane, 0, 255) / 255)
    return plane + sigma * random.standard_normal(plane.shape).astype(np.float32)


def pan(luma, random):
    """Even-sized windows sliding over a shrunk photograph, sometimes in full range."""
    shrink = random.choice([1.0, 0.85, 0.7, 0.55])
    height, width = (int(round(side * shrink)) for side in luma.shape)
    if shrink < 1.0:
        luma = np.clip(data.resize(luma, height, width), 0, 255)
    if random.random() < 0.25:
        luma = np.clip((luma - 16) * (255 / 219), 0, 255)
    speed = random.integers(-3, 4, 2) if random.random() < 0.7 else np.zeros(2, int)
    reach = np.abs(speed) * (FRAMES - 1)
    size = (np.array(luma.shape) - reach) // 4 * 4
    start = np.where(speed < 0, reach, 0)
    corners = [start + speed * t for t in range(FRAMES)]
    return [luma[y : y + size[0], x : x + size[1]] for y, x in corners]


def camera_pairs(luma, random):
    frames = pan(luma, random)
    if random.random() < 0.5:
        sigma = random.uniform(0.4, 0.9)
        frames = [blur(f, sigma) for f in frames]
    strongest = random.choice([0.0, 1.5, 3.0])
    frames = [data.to_code(sensor_noise(f, random, strongest)) for f in frames]
    decoded = through_h264(frames, int(random.integers(17, 29)))
    for t in random.choice(FRAMES, KEPT, replace=False):
        high = decoded[t].astype(np.float32)
        yield high, data.to_code(data.downscale(high))


def poor_pairs(luma, random):
    frames = pan(luma, random)
    kernel = random.choice(["bicubic", "bicubic", "bilinear", "area"])
    soften = random.uniform(0.5, 1.0) if random.random() < 0.3 else 0
    strongest = random.choice([0.0, 1.0, 2.5])
    small = [data.downscale(blur(f, soften) if soften else f, kernel) for f in frames]
    small = [data.to_code(sensor_noise(f, random, strongest)) for f in small]
    if random.random() < 0.8:
        small = through_h264(small, int(random.integers(18, 31)))
    for t in random.choice(FRAMES, KEPT, replace=False):
        yield frames[t], small[t]


def build(folders, store, make_pairs, clips, seed):
    random = np.random.default_rng(seed)
    writer = data.StoreWriter(store)
    for folder in folders:
        for path in data.list_pictures(folder):
            luma = data.load_luma(path)
            for _ in range(clips):
                for high, low in make_pairs(luma, random):
                    writer.add(high, low)
    writer.close()
    print(store, len(writer.rows), "pairs", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--photos", action="append", required=True)
    parser.add_argument("--camera", required=True)
    parser.add_argument("--poor", required=True)
    parser.add_argument("--clips", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    build(args.photos, args.camera, camera_pairs, args.clips, args.seed)
    build(args.photos, args.poor, poor_pairs, args.clips, args.seed + 1)


if __name__ == "__main__":
    main()
