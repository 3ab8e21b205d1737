"""What brainstorm raises, whether or not the library is built.

Relies on: nothing.
"""


class Error(Exception):
    """What the library, or its binding, refuses.

    status: the name of the bs_status, as "BS_ERROR_SHAPE". message: one line, which says what was expected.
    arena, needed, available: of BS_ERROR_ARENA, the arena that is too small and its bytes; else None.
    """

    def __init__(self, message, status="BS_ERROR_ARGUMENT", arena=None, needed=None, available=None):
        super().__init__(message)
        self.message, self.status = message, status
        self.arena, self.needed, self.available = arena, needed, available

    def __reduce__(self):
        return type(self), (self.message, self.status, self.arena, self.needed, self.available)
