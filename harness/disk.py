"""Folders on disk: what they weigh, and how they go."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
import uuid
from pathlib import Path

ALIVE = "alive"  # is locked by the process whose folder it lies in
GONE = ".gone"  # ends the name of a folder that is being removed


def forget(folder: Path, patience_s: float = 3.0) -> None:
    """Remove a folder, whatever a repro did to its permissions, and though it may still be dying."""
    end = time.monotonic() + patience_s
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.is_dir() or time.monotonic() > end:
            return
        for where, _, _ in os.walk(folder):
            with contextlib.suppress(OSError):
                Path(where).chmod(0o700)
        time.sleep(0.02)


class Claim:
    """A folder below ``parent`` that is this process's until released; the kernel tells of its death.

    Making one removes what dead processes left beside it.
    """

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        _sweep(parent)
        name = f"run-{uuid.uuid4().hex[:12]}"
        made = parent / f".{name}"
        made.mkdir()
        self._alive = (made / ALIVE).open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        self.path = made.rename(parent / name)  # from now on it is swept if the lock is gone

    def release(self) -> None:
        """Remove the folder."""
        forget(self.path)
        self._alive.close()


def _sweep(parent: Path) -> None:
    for folder in parent.glob("run-*"):
        with contextlib.suppress(OSError), (folder / ALIVE).open() as alive:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            forget(folder)


def linked(entry: Path) -> bool:
    """Whether a file below ``entry`` has another hard link."""
    for folder, _, files in os.walk(entry):
        for name in files:
            try:
                if (Path(folder) / name).lstat().st_nlink > 1:
                    return True
            except OSError:
                continue
    return False


def remove(folder: Path) -> None:
    """Remove a folder, renamed first, so that no half of it is found under its name."""
    if not folder.exists():
        return
    doomed = folder.with_name(f".{folder.name.strip('.')}.{uuid.uuid4().hex[:8]}{GONE}")
    folder.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def disk_usage(*folders: Path) -> int:
    """Bytes on disk, hard links counted once."""
    seen: set[tuple[int, int]] = set()
    total = 0
    stack = [str(folder) for folder in folders]
    while stack:
        try:
            with os.scandir(stack.pop()) as entries:
                for entry in entries:
                    try:
                        info = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        stack.append(entry.path)
                    elif info.st_nlink == 1:
                        total += info.st_blocks * 512
                    elif (info.st_dev, info.st_ino) not in seen:
                        seen.add((info.st_dev, info.st_ino))
                        total += info.st_blocks * 512
        except OSError:
            continue
    return total
