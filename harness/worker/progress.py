"""Where an attempt is, kept on disk."""

from __future__ import annotations

import os


class Progress:
    """Where the attempt is, on disk, so that a crash can be placed."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        self.phase = "import"
        self.enter("import")

    def enter(self, phase: str) -> None:
        self.phase = phase
        os.pwrite(self._descriptor, phase.ljust(16).encode(), 0)
