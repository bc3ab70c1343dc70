"""Where an attempt is, kept on disk."""

from __future__ import annotations


class Progress:
    """Where the attempt is, on disk, so that a crash can be placed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.enter("import")

    def enter(self, phase: str) -> None:
        """Say so. Opened each time: a repro may close every file descriptor that it finds."""
        self.phase = phase
        try:
            with open(self._path, "w") as stream:
                stream.write(phase)
        except OSError:
            pass
