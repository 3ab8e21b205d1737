"""Material for calibrate.py: pictures and short clips out of photographs, and what every route makes of them.

Units, here and in the other calib_ modules: luma codes 0..255 and mean squared errors of those; only the tables that
are written out are in the router's unit, 1/256 of a squared code.

A tile is 64x64 at low resolution (128x128 of the output). Nets run on whole pictures: the engine gives a tile the halo
it needs, so its tiles equal those of the untiled network.
"""

import glob
import os

import numpy as np
import torch
import torch.nn.functional as F

import data
import video_data

TILE = 64
SCALE = data.SCALE
ROUTES = ("bicubic", "small", "exit1", "exit2", "last")  # columns of every array of errors
BICUBIC, SMALL, EXIT1, EXIT2, LAST = range(len(ROUTES))

# ---------------------------------------------------------------- features, as src/ops/patch_features.c has them


def bucket(value):
    """0 for 0, else 1 + floor(4 log2 value): log2 of the fourth power is exact in integers. Not cut off at the last
    bucket of a table, that is done where there is one."""
    return (int(value) ** 4).bit_length()


def energy(tile):
    """16 x mean squared Laplacian. The engine's op sees the tile's core only: its edges are repeated."""
    c = np.pad(tile.astype(np.int64), 1, mode="edge")
    laplacian = 4 * c[1:-1, 1:-1] - c[:-2, 1:-1] - c[2:, 1:-1] - c[1:-1, :-2] - c[1:-1, 2:]
    return 16 * int((laplacian**2).sum()) // tile.size


def change(tile, reference):
    return 16 * int(((tile.astype(np.int64) - reference) ** 2).sum()) // tile.size


# ---------------------------------------------------------------- networks


class Model:
    """Both nets of a file of weights, run on whole pictures."""

    def __init__(self, path, nets):
        self.small = nets.load_npz(path, "small").eval()
        self.large = nets.load_npz(path, "large").eval()

    def run(self, low):
        """u8 codes [5,2h,2w], one picture per route, and the features [2,32,h,w] the exit predictors see."""
        x = torch.from_numpy(low.astype(np.float32) / 255.0)[None, None].contiguous(memory_format=torch.channels_last)
        with torch.no_grad():
            base = self.large.base(x)
            added = [torch.zeros_like(base), self.small.corrections(x)[0]]
            seen = []
            y = self.large.head(x)
            for depth, block in enumerate(self.large.body, 1):
                y = block(y)
                if depth in self.large.exits:
                    added.append(self.large.tails[self.large.exits.index(depth)](y))
                    seen.append(y[0])
            pictures = torch.cat([F.pixel_shuffle(base + a, SCALE)[0] for a in added])
            return data.to_code(pictures.numpy() * 255.0), torch.stack(seen[:-1]).numpy()


def squared_error(picture, high):
    return np.square(picture.astype(np.float32) - high)


def tile_mean(plane, top, left, size):
    return plane[..., top : top + size, left : left + size].mean((-2, -1), dtype=np.float64)


# ---------------------------------------------------------------- still pictures


def list_photos(folders, limit=None, random=None):
    paths = []
    for folder in folders:
        paths += sorted(glob.glob(os.path.join(folder, "*.webp")) + glob.glob(os.path.join(folder, "*.png")))
    if limit is not None and limit < len(paths):
        paths = [paths[i] for i in sorted(random.choice(len(paths), limit, replace=False))]
    return paths


def shrunk(luma, factor):
    if factor == 1.0:
        return luma
    return np.clip(data.resize(luma, *(int(round(side * factor)) for side in luma.shape)), 0, 255)


def wide_blur(luma, sigma):
    """Gaussian blur of any width, by shrinking first: what is out of focus has nothing fine to lose."""
    if sigma <= 1.2:
        return video_data.blur(luma, sigma)
    small = data.resize(luma, *(max(8, int(side * 1.2 / sigma)) for side in luma.shape))
    return data.resize(video_data.blur(small, 1.0), *luma.shape)


def softened(luma, random):
    """Out of focus, in haze, or both: populates the low buckets with what is there in real footage."""
    if random.random() < 0.75:
        luma = wide_blur(luma, float(random.choice([0.6, 0.9, 1.5, 3.0, 6.0])))
    if random.random() < 0.6:
        luma = luma.mean() + (luma - luma.mean()) * float(random.choice([0.6, 0.35, 0.15]))
    return luma


def clean_pair(luma):
    high = data.crop_to_multiple(np.clip(luma, 0, 255).astype(np.float32), SCALE)
    return high, data.to_code(data.downscale(high))


def still_pairs(luma, random, video, share):
    """(high, low) of one photograph. `share` < 1 takes only so many of the versions.

    A video model sees footage that went through a camera and an encoder, besides clean material.
    """
    makers = [lambda: clean_pair(shrunk(luma, 1.0)), lambda: clean_pair(shrunk(luma, 0.7)),
              lambda: clean_pair(shrunk(luma, 0.5)), lambda: clean_pair(softened(shrunk(luma, 0.7), random))]
    if video:
        makers = makers[1:] + [lambda: next(video_data.camera_pairs(luma, random)) for _ in range(2)]
    for make in makers:
        if random.random() < share:
            yield make()


def tiles_of(model, low, high, random, density=1.5):
    """One record per random tile of a picture: energy, errors of the routes, pooled features."""
    pictures, seen = model.run(low)
    errors = squared_error(pictures, high)
    height, width = low.shape
    for _ in range(max(1, int(density * height * width / TILE**2))):
        top, left = int(random.integers(0, height - TILE + 1)), int(random.integers(0, width - TILE + 1))
        yield (energy(low[top : top + TILE, left : left + TILE]),
               tile_mean(errors, SCALE * top, SCALE * left, SCALE * TILE), tile_mean(seen, top, left, TILE))


def collect_stills(model, paths, random, video, share=1.0):
    """Arrays over tiles: energy bucket, errors [n,5], pooled features [n,2,32], number of the photograph."""
    rows, photo = [], []
    for number, path in enumerate(paths):
        luma = data.load_luma(path)
        for high, low in still_pairs(luma, random, video, share):
            found = list(tiles_of(model, low, high, random))
            rows += found
            photo += [number] * len(found)
    energies, errors, pooled = zip(*rows)
    return (np.array([bucket(e) for e in energies]), np.array(errors), np.array(pooled, np.float32), np.array(photo))


# ---------------------------------------------------------------- clips


def window(luma, scale, top, left, size):
    """A window of `size` pixels of the picture shrunk to `scale`, at a fractional position: one frame of a pan."""
    def axis0(plane, start, count):
        centre = (np.arange(count) + start + 0.5) / scale - 0.5
        reach = int(np.ceil(2 / scale)) + 1
        index = np.floor(centre).astype(int)[:, None] + np.arange(-reach, reach + 1)
        weight = data.cubic_kernel((centre[:, None] - index) * scale)
        weight = (weight / weight.sum(1, keepdims=True)).astype(np.float32)
        index = np.clip(index, 0, plane.shape[0] - 1)
        return sum(plane[index[:, tap]] * weight[:, tap, None] for tap in range(index.shape[1]))

    return axis0(axis0(luma, top, size[0]).T, left, size[1]).T


def soft_mask(height, width):
    """An ellipse with an edge two pixels wide."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    radius = np.hypot((y + 0.5) / height * 2 - 1, (x + 0.5) / width * 2 - 1)
    return np.clip((1 - radius) * min(height, width) / 4, 0, 1)


def moving_camera(luma, random, frames, size, zooming=False):
    scale = float(random.uniform(0.72, 0.85))
    speed = float(2.0 ** random.uniform(-2, 2))
    angle = float(random.uniform(0, 2 * np.pi))
    step = speed * np.array([np.sin(angle), np.cos(angle)])
    room = np.maximum(np.array(luma.shape) * scale - size, 0)
    growth = float(random.choice([1.002, 1.005, 1.01])) if zooming else 1.0
    result = []
    for t in range(frames):
        now = scale * growth**t
        corner = room / 2 + (0 if zooming else step * (t - (frames - 1) / 2)) + np.array(size) / 2 * (growth**t - 1)
        result.append(window(luma, now, corner[0], corner[1], size))
    return result


def fixed_camera(luma, other, random, frames, size, objects):
    """A background that stands still and, in front of it, pieces of another photograph that move."""
    scale = float(random.uniform(0.72, 0.9))
    background = window(luma, scale, 0, 0, size)
    result = [background.copy() for _ in range(frames)]
    for _ in range(objects):
        height, width = (int(s) for s in random.integers(24, 90, 2))
        speed = random.uniform(-6, 6, 2)
        start = random.uniform(0.1, 0.7, 2) * size
        source = random.uniform(20, 200, 2)
        mask = soft_mask(height, width)
        for t, frame in enumerate(result):
            at = start + speed * t
            whole = np.floor(at).astype(int)
            if (whole < 0).any() or whole[0] + height > size[0] or whole[1] + width > size[1]:
                continue
            piece = window(other, 0.7, *(source - (at - whole)), (height, width))
            part = frame[whole[0] : whole[0] + height, whole[1] : whole[1] + width]
            part += mask * (piece - part)
    return result


CLIP_KINDS = ("pan", "zoom", "static", "objects")


def make_clip(kind, luma, other, random, frames, size, strongest, crf):
    """Decoded frames as u8 codes; strongest: of the sensor's noise; crf 0: not encoded."""
    if kind in ("pan", "zoom"):
        clip = moving_camera(luma, random, frames, size, kind == "zoom")
    else:
        clip = fixed_camera(luma, other, random, frames, size, 3 if kind == "objects" else 0)
    if strongest > 0:
        # One camera has one noise level: draw it once, not per frame.
        read, shot = random.uniform(0, strongest, 2)
        clip = [f + np.sqrt(read**2 + shot**2 * np.clip(f, 0, 255) / 255)
                * random.standard_normal(f.shape).astype(np.float32) for f in clip]
    clip = [data.to_code(f) for f in clip]
    return video_data.through_h264(clip, crf) if crf else clip


def random_clips(paths, random, count, frames, size, video):
    """Clips of all kinds in turn: noisy, encoded, both or neither. A clean pan has no flicker, real footage always
    has."""
    for number in range(count):
        luma = data.load_luma(paths[number % len(paths)])
        other = data.load_luma(paths[(number + 7) % len(paths)])
        kind = CLIP_KINDS[number % len(CLIP_KINDS)]
        clean = kind != "static" and random.random() < (0.15 if video else 0.35)
        strongest = 0.0 if clean else float(random.choice([0.0, 1.5, 3.0]))
        crf = 0 if clean or (strongest and random.random() < 0.2) else int(random.integers(18, 31))
        yield kind, make_clip(kind, luma, other, random, frames, size, strongest, crf)


def collect_reuse(model, clips, lags=(1, 2, 4)):
    """Per tile and pair of frames: bucket of the change, and what showing the older result costs."""
    rows = []
    for kind, clip in clips:
        lows = [data.to_code(data.downscale(f.astype(np.float32))) for f in clip]
        outs = [model.run(low)[0] for low in lows]
        for t, high in enumerate(clip):
            own = squared_error(outs[t][LAST], high)
            for old in (t - lag for lag in lags if t >= lag):
                again = squared_error(outs[old][LAST], high)
                rows += [(change(tile_at(lows[t], y, x), tile_at(lows[old], y, x)),
                          tile_mean(again, 2 * y, 2 * x, 2 * TILE) - tile_mean(own, 2 * y, 2 * x, 2 * TILE))
                         for y, x in grid(lows[t].shape)]
    changes, excess = zip(*rows)
    return np.array([bucket(c) for c in changes]), np.array(excess)


def tile_at(plane, top, left):
    return plane[top : top + TILE, left : left + TILE]


def grid(shape):
    return [(y, x) for y in range(0, shape[0] - TILE + 1, TILE) for x in range(0, shape[1] - TILE + 1, TILE)]
