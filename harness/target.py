"""Where a cell runs: a release, or an interpreter that the user brings, with a Python and a device."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from harness.errors import UsageError
from harness.ranges import ReleaseRange
from harness.release import Listing, Release, compile_python

DEVICES = ("cpu", "cuda")


@dataclass(frozen=True)
class Source:
    """What an environment is made of; several targets (devices) share one environment.

    ``interpreter`` is set for a Python that the user brings: it is read, never changed.
    """

    channel: str
    release: Release | None = None
    interpreter: str | None = None
    python: str | None = None  # what the user asked for: "3.10" or a path
    packages: tuple[str, ...] = ()

    @property
    def torch(self) -> str:
        """Version as released; ``interpreter`` where only the probe can tell."""
        return self.release.version if self.release else "interpreter"

    @property
    def label(self) -> str:
        """Short name for people."""
        return self.torch if self.release else f"interpreter {self.interpreter}"


@dataclass(frozen=True)
class Target:
    """A source on a device."""

    source: Source
    device: str

    @property
    def label(self) -> str:
        return f"{self.source.label} {self.device}"


def parse_devices(text: str) -> list[str]:
    """``cpu,cuda`` as typed.

    Raises:
        UsageError: an unknown device.
    """
    devices = [part.strip() for part in text.split(",") if part.strip()]
    for device in devices:
        if device not in DEVICES:
            raise UsageError(f"no device is named {device!r}", "known: cpu, cuda")
    if not devices:
        raise UsageError("no device is given", "known: cpu, cuda")
    return list(dict.fromkeys(devices))


def pick_sources(
    listing: Listing, text: str, python: str | None, packages: tuple[str, ...] = ()
) -> list[Source]:
    """Sources for the releases that the range ``text`` means, newest first.

    Raises:
        UsageError: the range is malformed or holds no release; the hint says what there is.
    """
    chosen = ReleaseRange.parse(text).pick([r.parsed for r in listing.releases])
    by_version = {r.parsed: r for r in listing.releases}
    if not chosen:
        left = listing.left_out.get(text)
        why = f": {left}" if left else ""
        span = (
            f"the channel has {listing.releases[0].version} to {listing.releases[-1].version}"
            if listing.releases
            else "the channel is empty"
        )
        raise UsageError(f"no release of channel {listing.channel!r} is in {text!r}{why}", span)
    return [
        Source(listing.channel, by_version[v], python=python, packages=packages) for v in reversed(chosen)
    ]


def brought(interpreter: str, packages: tuple[str, ...] = ()) -> Source:
    """A source for a Python that the user brings.

    Raises:
        UsageError: it is no executable file.
    """
    path = Path(interpreter).expanduser()
    import shutil

    found = shutil.which(str(path))
    if not found:
        raise UsageError(f"{interpreter} is no program that can be run", "give the path of a python")
    return Source("interpreter", None, str(Path(found).absolute()), None, packages)


def wanted_pythons(source: Source) -> list[str]:
    """Pythons to try for ``source``, best first, as uv names them.

    The newest that has a wheel and on which the release's torch.compile works; then older ones;
    then newer ones, on which the records will say ``unsupported`` rather than nothing.
    """
    if source.python:
        return [source.python]
    release = source.release
    assert release is not None
    newest = compile_python(Version(release.version))
    minors = release.pythons()
    good = [m for m in minors if m[1] <= newest]
    rest = sorted(m for m in minors if m[1] > newest)
    return [f"{major}.{minor}" for major, minor in good + rest]


def slug(text: str) -> str:
    """``text`` as a file name: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text).strip("-")
