"""Folders on disk: what they weigh, and how they go."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

GONE = ".gone"  # ends the name of a folder that is being removed


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
