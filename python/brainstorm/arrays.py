"""NumPy arrays as the library takes them: of the right type without a changed value, and of strides that it knows.

Relies on: numpy. Must never change a value: what would is refused.
"""

import numpy as np

from .error import Error

# The types of inputs and outputs. NumPy has no bf16: those are the bits, as u16.
NUMPY = {"f32": np.dtype("float32"), "f16": np.dtype("float16"), "bf16": np.dtype("uint16"),
         "u8": np.dtype("uint8"), "u16": np.dtype("uint16"), "i8": np.dtype("int8"), "i32": np.dtype("int32")}
EXACT = 2**62  # beyond it, whole numbers cannot be compared with what they became


def _changed(array, narrowed):
    """Where a value is another one after it was narrowed."""
    with np.errstate(all="ignore"):
        if array.dtype.kind in "iu" and narrowed.dtype.kind == "f":
            apart = np.abs(narrowed.astype(np.float64)) < EXACT
            back = np.where(apart, narrowed, 0).astype(np.int64).astype(array.dtype)
            return ~(apart & (back == array))
        back = narrowed.astype(array.dtype)
        signs = (narrowed < 0) != (array < 0)  # u8 200 becomes i8 -56 and 200 again
        return signs | ((back != array) & ~((back != back) & (array != array)))


def narrowed(what, array, dtype):
    """`array` as `dtype`, if no value changes."""
    if array.dtype == dtype:
        return array
    sort = {"f": "float", "i": "whole numbers", "u": "whole numbers"}
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and dtype.kind != "f"):
        raise Error(f"{what}: an array of {array.dtype} given, {dtype} expected ({sort[dtype.kind]})")
    if array.dtype.kind == "b":
        return array.astype(dtype)
    with np.errstate(all="ignore"):
        result = array.astype(dtype)
    changed = _changed(array, result)
    if changed.any():
        first = tuple(int(i[0]) for i in np.nonzero(changed)) if array.ndim else ()
        raise Error(f"{what}: {array.dtype} given, {dtype} expected, and {array[first]} at {list(first)} would change: "
                    f"pass .astype(numpy.{dtype}) if it may")
    return result


def in_place(array):
    """Whether the library can read and write the array where it is."""
    if not array.flags.aligned or not array.dtype.isnative:
        return False
    steps = [(n, stride) for n, stride in zip(array.shape, array.strides) if n > 1]
    return all(stride % array.itemsize == 0 for _, stride in steps) and (not steps or any(s for _, s in steps))


def as_array(what, value):
    """`value` as an array: what is no array yet, as a list, becomes one."""
    try:
        return np.asarray(value)
    except Exception as wrong:  # whatever __array__ of a stranger raises
        raise Error(f"{what}: no array can be made of it: {wrong}") from None


def as_input(name, value, dtype):
    """What is bound for input `name`: `value` itself where its type and strides allow, else a copy."""
    array = narrowed(f'input "{name}"', as_array(f'input "{name}"', value), dtype)
    return array if in_place(array) else np.array(array, dtype, order="C")


def as_bound(name, array, dtype, written):
    """`array`, which is used in place: refused where that cannot be."""
    if not isinstance(array, np.ndarray):
        raise Error(f'"{name}": {type(array).__name__} given, expected a NumPy array to use in place')
    if dtype is not None and array.dtype != dtype:
        raise Error(f'"{name}": an array of {array.dtype} given, {dtype} expected')
    if not in_place(array):
        raise Error(f'"{name}": the array cannot be used in place: it is not aligned, its strides are no multiples of '
                    "an element, or all of its elements are one")
    if written and not array.flags.writeable:
        raise Error(f'"{name}": the array is read-only, and runs write to it')
    return array
