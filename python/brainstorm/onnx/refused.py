"""Why a model, or a node of it, is not taken."""


class Refused(Exception):
    """Says what is not taken, and why: for people."""


class NeedConstant(Refused):
    """A node's input that must be known when the model is imported: its number."""

    def __init__(self, index, what):
        super().__init__(f"{what} is computed in a run; it must be a constant")
        self.index = index


class NotTaken(Refused):
    """What of a model is not taken, all of it."""

    def __init__(self, troubles):
        super().__init__("\n".join(map(str, troubles)))
        self.troubles = troubles
