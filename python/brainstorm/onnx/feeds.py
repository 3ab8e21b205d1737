"""What a model and what was imported of it are compared with: seeded random inputs, others where these tell nothing."""

import numpy as np

TOP = 2**31 - 1
BITS = (0, 1)  # which indices and masks take
LINES = ((1, 97), (0, 24), (0, 6), (0, 3))  # ranges that are tried after these: the first that a model takes
WIDE = ((-97, 97), (0, 2**15), (-TOP, TOP))  # and then each of these


def whole_inputs(shapes):
    """Inputs of whole numbers of which some are larger than random ones."""
    return [name for name, (_, dtype) in shapes.items() if dtype.kind in "iu" and dtype.itemsize > 1]


def random_inputs(shapes, seed, whole=BITS, floats=None):
    """Numbers around 0, or as `floats` makes them of a generator and a shape; whole ones of a range; bytes are any."""
    random, feeds = np.random.default_rng(seed), {}
    floats = floats or (lambda generator, shape: generator.standard_normal(shape))
    for name, (shape, dtype) in shapes.items():
        if dtype.kind in "iub" and dtype.name not in ("uint8", "int8"):
            feeds[name] = whole_numbers(random, shape, dtype, BITS if dtype == bool else whole)
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            feeds[name] = random.integers(info.min, info.max, shape, endpoint=True).astype(dtype)
        else:
            feeds[name] = floats(random, shape).astype(np.float32).astype(dtype)
    return feeds


def whole_numbers(random, shape, dtype, whole):
    info = np.iinfo(dtype) if dtype != bool else None
    low, high = whole if info is None else (max(whole[0], info.min), min(whole[1], info.max))
    return random.integers(low, high, shape, endpoint=True).astype(dtype)


def tone(random, shape):
    """Waves along the last axis."""
    at = np.arange(shape[-1] if shape else 1)
    waves = sum(np.sin(2 * np.pi * at * f + phase) for f, phase in ((0.01, 0.3), (0.037, 1.0), (0.11, 2.0)))
    return np.broadcast_to(0.3 * waves, shape or (1,)).reshape(shape).copy()


def others():
    """(words, what makes floats): where all that came of random numbers was 0."""
    yield "numbers from 0 to 1", lambda random, shape: random.random(shape)
    yield "numbers from 0 to 255", lambda random, shape: 255 * random.random(shape)
    yield "tones", tone
    yield "large numbers", lambda random, shape: 100 * random.standard_normal(shape)
    yield "small numbers", lambda random, shape: 0.01 * random.standard_normal(shape)
