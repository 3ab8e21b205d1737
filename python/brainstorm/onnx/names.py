"""Names that our file can hold, each once: those of ports, and those of layers, which may be the same.

ONNX names are any text; ours are printable ASCII of at most 63 bytes. What had to change is kept, to be told.
"""

from ..ops import MAX_NAME

ROOM = 12  # that the library's suffixes of weights and our numbers take


class Names:
    def __init__(self):
        self.ports, self.taken, self.changed, self.numbers = set(), set(), {}, {}

    def plain(self, name):
        text = "".join(c if 33 <= ord(c) < 127 else "_" for c in str(name))
        return text or "unnamed"

    def port(self, name):
        """Of an input or output."""
        text = self.plain(name)[:MAX_NAME]
        out, number = text, 1
        while out in self.ports:
            number += 1
            out = f"{text[:MAX_NAME - len(str(number)) - 1]}.{number}"
        self.ports.add(out)
        if out != name:
            self.changed[name] = out
        return out

    def fresh(self, stem):
        """Of a layer: its weights are named after it."""
        stem = self.plain(stem)[-(MAX_NAME - ROOM):]
        number = self.numbers.get(stem, 0)
        while True:
            number += 1
            out = stem if number == 1 and stem != "constant" else f"{stem}.{number}"
            if out not in self.taken:
                break
        self.numbers[stem] = number
        self.taken.add(out)
        return out
