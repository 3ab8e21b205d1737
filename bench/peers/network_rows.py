"""Rows of sequences of different lengths, padded to the longest."""

import numpy as np


def padded(rows, lengths):
    """[all rows, features] -> [sequences, longest, features]"""
    out = np.zeros((len(lengths), max(lengths), rows.shape[1]), np.float32)
    for i, (part, n) in enumerate(zip(np.split(rows, np.cumsum(lengths)[:-1]), lengths)):
        out[i, :n] = part
    return out
