"""Files that commands read and write: none is both, and what is written is whole before it takes its name.

    check(read=["net.onnx"], written=["net.gguf"])     # before anything is done
    with Beside("net.gguf") as new:
        ...                                            # written to new.path, which is in the same folder
        new.keep()                                     # now net.gguf is the new one; without it, it stays as it was

Relies on: error.py. Must never open what is no file: a pipe is waited for until somebody writes to it.
"""

import contextlib
import os
import secrets
import stat

from .error import Error


class WrongFile(Error, OSError):
    """A file that cannot be what it is given for."""

    def __init__(self, message, status="BS_ERROR_IO", *more):
        super().__init__(message, status, *more)


def _identity(path):
    """What is one for all names of a file. Of a file that is not there, its name without links."""
    try:
        facts = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return (facts.st_dev, facts.st_ino) if stat.S_ISREG(facts.st_mode) or stat.S_ISBLK(facts.st_mode) else None


def _writable(path):
    """Whether a file can take this name when it is whole. What is no file is written to as it is."""
    folder = os.path.dirname(os.path.realpath(path))
    in_place = os.path.exists(path) and not os.path.isfile(path)
    return in_place or (os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK))


def only_file(path, error=WrongFile):
    """Fails where there is something that is no file. A pipe has no end to seek from, and no second reading."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise error(f"{path} is not a file (what comes from a pipe must be written to one first)")


def check(read=(), written=()):
    """Refuses a file that is read and has no size of its own, as a pipe or a device; and one that is written and is
    also read, or written for something else, under whatever name. None among them is no file; a folder may be read."""
    known = {}
    for path in filter(None, read):
        if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
            raise WrongFile(f"{path}: it is a pipe or a device, whose size is not known: expected a file")
        known[_identity(path)] = f"{path}, which is read"
    for path in filter(None, written):
        if os.path.isdir(path):
            raise WrongFile(f"{path}: it is a folder, expected the name of a file to write")
        if not _writable(path):
            raise WrongFile(f"{path}: nothing can be written in that folder, or it is not there")
        one = _identity(path)
        if one is not None and one in known:
            raise WrongFile(f"{path}: it is the same file as {known[one]}: name another one to write")
        known[one] = f"{path}, which is written too"


class Beside:
    """A file that is written in the place of `path`. What is there stays until keep(), and what was not kept goes.
    A pipe or a device is written to as it is. Rights of the file of before stay, and so do links with names to it."""

    def __init__(self, path):
        path = os.fsdecode(path)
        self._target, self._in_place = os.path.realpath(path), os.path.exists(path) and not os.path.isfile(path)
        new = os.path.join(os.path.dirname(self._target), f".brainstorm.{secrets.token_hex(4)}")
        self.path = path if self._in_place else new

    def __enter__(self):
        if not self._in_place:
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            if os.path.exists(self._target):
                os.chmod(self.path, os.stat(self._target).st_mode & 0o777)
        return self

    def keep(self):
        if not self._in_place:
            os.replace(self.path, self._target)

    def drop(self):
        if not self._in_place and os.path.exists(self.path):
            os.remove(self.path)

    def __exit__(self, *_):
        self.drop()


def write_all(writers):
    """{path: what writes to the path that it is given}. All are written before the first one takes its name."""
    with contextlib.ExitStack() as stack:
        new = [stack.enter_context(Beside(path)) for path in writers]
        for beside, write in zip(new, writers.values()):
            write(beside.path)
        for beside in new:
            beside.keep()
