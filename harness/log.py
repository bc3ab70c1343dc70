"""One log file a run, with enough in it to debug the run afterwards."""

from __future__ import annotations

import logging
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

LOG = logging.getLogger("harness")
KEEP = 50


def start_log(home: Path, command: str, verbose: bool = False) -> Path:
    """Log to ``<home>/logs/<time>-<command>-<pid>.log``; to stderr too where ``verbose``.

    Only the newest 50 logs are kept.
    """
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("*.log"))[: -KEEP + 1]:
        old.unlink(missing_ok=True)
    file = folder / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{command}-{os.getpid()}.log"
    handlers: list[logging.Handler] = [logging.FileHandler(file, delay=True)]
    if verbose:
        handlers.append(logging.StreamHandler())
    form = logging.Formatter("%(asctime)s %(threadName)s %(levelname)s %(message)s")
    LOG.setLevel(logging.DEBUG)
    for handler in handlers:
        handler.setFormatter(form)
        LOG.addHandler(handler)
    LOG.info("%s; Python %s; %s", sys.argv, platform.python_version(), platform.platform())
    return file
