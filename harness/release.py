"""What the indexes publish: torch's releases with dates, wheels and hashes.

Channels: ``pypi`` (the default index of the tools, or ``UV_DEFAULT_INDEX``), PyTorch's own
indexes (``cpu``, ``cu126``, ..., ``nightly/cpu``, ``nightly/cu130``), and ``wheelhouse:DIR``, a
local folder of wheels for hosts without network.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from packaging.tags import Tag, compatible_tags, cpython_tags, platform_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from harness.errors import ListingError, UsageError

PYTORCH_INDEX = "https://download.pytorch.org/whl/"
OLDEST = Version("2.0.0")  # the first release with torch.compile

# The newest Python whose torch.compile works in a release, from the release notes: newer ones have
# wheels that import, and torch.compile then refuses ("Python 3.12+ not yet supported").
COMPILE_PYTHON: tuple[tuple[str, int], ...] = (
    ("2.9", 14),
    ("2.6", 13),
    ("2.4", 12),
    ("2.1", 11),
    ("2.0", 10),
)


@dataclass(frozen=True)
class Wheel:
    """One wheel of a release. ``size`` in bytes; ``source`` is a URL or a path."""

    filename: str
    sha256: str | None = None
    size: int | None = None
    uploaded: str | None = None
    requires_python: str | None = None
    source: str | None = None

    def tags(self) -> frozenset[Tag]:
        """The wheel's compatibility tags."""
        return parse_wheel_filename(self.filename)[3]


@dataclass(frozen=True)
class Release:
    """A torch version as an index publishes it. ``date`` is the upload of its first wheel."""

    version: str
    date: str | None
    wheels: tuple[Wheel, ...]
    yanked: str | None = None

    @property
    def parsed(self) -> Version:
        return Version(self.version)

    @property
    def day(self) -> str:
        """Date as YYYY-MM-DD, or an empty string."""
        return (self.date or "")[:10]

    def pythons(self) -> list[tuple[int, int]]:
        """CPython versions with a wheel for this machine, newest first."""
        platforms = set(platform_tags())
        found = set()
        for wheel in self.wheels:
            for tag in wheel.tags():
                match = re.fullmatch(r"cp(\d)(\d+)", tag.interpreter)
                if match and tag.platform in platforms and tag.abi == tag.interpreter:
                    found.add((int(match[1]), int(match[2])))
        return sorted(found, reverse=True)

    def wheel_for(self, python: tuple[int, int]) -> Wheel | None:
        """The wheel that an installer takes on this machine for CPython ``python``."""
        ranked = {tag: i for i, tag in enumerate(tags_for(python))}
        fitting = []
        for wheel in self.wheels:
            ranks = [ranked[tag] for tag in wheel.tags() if tag in ranked]
            if ranks:
                build = parse_wheel_filename(wheel.filename)[2]
                fitting.append((min(ranks), [-part for part in build if isinstance(part, int)], wheel))
        return min(fitting, key=lambda item: (item[0], item[1]))[2] if fitting else None


@dataclass(frozen=True)
class Listing:
    """What a channel has, oldest first, and what was left out of it, with reasons."""

    channel: str
    releases: tuple[Release, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    fetched: str = ""
    stale: str | None = None  # why this is an old copy, where it is one

    def find(self, version: str) -> Release | None:
        """The release named ``version``."""
        wanted = Version(version)
        return next((r for r in self.releases if r.parsed == wanted), None)


def tags_for(python: tuple[int, int]) -> list[Tag]:
    """Tags that CPython ``python`` accepts on this machine, best first."""
    platforms = list(platform_tags())
    found = list(cpython_tags(python, platforms=platforms))
    return found + list(compatible_tags(python, platforms=platforms))


def compile_python(version: Version) -> int:
    """Newest minor of Python 3 whose torch.compile works in torch ``version``."""
    for since, minor in COMPILE_PYTHON:
        if version.release >= Version(since).release:
            return minor
    return COMPILE_PYTHON[-1][1]


def index_url(channel: str) -> str | None:
    """Where a channel is listed; None stands for the tools' default index."""
    if channel == "pypi":
        return os.environ.get("UV_DEFAULT_INDEX") or os.environ.get("UV_INDEX_URL")
    if re.fullmatch(r"(nightly/)?(cpu|cu\d{2,3}|rocm[\d.]+|xpu)|nightly", channel):
        name = "nightly/cpu" if channel == "nightly" else channel
        return os.environ.get("HARNESS_PYTORCH_INDEX", PYTORCH_INDEX).rstrip("/") + "/" + name
    raise UsageError(
        f"no channel is named {channel!r}",
        "write pypi, cpu, cu126, nightly, nightly/cu130, or wheelhouse:DIR",
    )


def list_releases(channel: str, home: Path, offline: bool = False) -> Listing:
    """Ask the index of ``channel``; without network, the last listing is used and said.

    Raises:
        ListingError: the index gave nothing usable and no listing was kept from before.
    """
    if channel.startswith("wheelhouse:"):
        return from_folder(channel, Path(channel.removeprefix("wheelhouse:")))
    kept = home / "releases" / f"{re.sub(r'[^a-z0-9]+', '-', _identity(channel))}.json"
    why = "offline was asked for"
    if not offline:
        try:
            listing = _fetch(channel)
        except (OSError, ValueError, ListingError) as exc:
            why = _short(exc)
        else:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(asdict(listing)))
            part.replace(kept)
            return listing
    try:
        old = json.loads(kept.read_text())
        return replace(_from_json(old), stale=why)
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ListingError(
            f"the index of channel {channel!r} gave no listing ({why}), and none is kept from before",
            "check the network, or use --interpreter or --channel wheelhouse:DIR",
        ) from exc


def _identity(channel: str) -> str:
    url = index_url(channel)
    return channel if url is None or channel != "pypi" else f"{channel}-{url}"


def _short(exc: BaseException) -> str:
    text = str(exc).splitlines()[0] if str(exc) else type(exc).__name__
    return text if len(text) < 200 else text[:200] + "..."


def _fetch(channel: str) -> Listing:
    import pypi_simple
    import requests

    url = index_url(channel) or pypi_simple.PYPI_SIMPLE_ENDPOINT
    try:
        with pypi_simple.PyPISimple(endpoint=url) as client:
            page = client.get_project_page("torch", timeout=30, accept=pypi_simple.ACCEPT_JSON_PREFERRED)
    except requests.RequestException as exc:
        raise ListingError(f"{type(exc).__name__} while asking the index") from exc
    except pypi_simple.NoSuchProjectError as exc:
        raise ListingError("the index has no torch") from exc
    except (pypi_simple.UnsupportedContentTypeError, UnicodeDecodeError) as exc:
        raise ListingError("the index answered with nonsense") from exc
    found: dict[str, list[Any]] = {}
    for package in page.packages:
        if package.package_type == "wheel" and package.version:
            found.setdefault(package.version, []).append(package)
    if not found:
        raise ListingError("the index lists no torch wheel")
    releases, left_out = [], {}
    for text, packages in found.items():
        try:
            version = Version(text)
        except ValueError:
            left_out[text] = "its version is not of the standard form"
            continue
        if version.release < OLDEST.release:
            left_out[text] = "older than 2.0, the first release with torch.compile"
            continue
        wheels = tuple(
            Wheel(
                filename=p.filename,
                sha256=(p.digests or {}).get("sha256"),
                size=p.size,
                uploaded=p.upload_time.isoformat() if p.upload_time else None,
                requires_python=p.requires_python,
                source=p.url,
            )
            for p in packages
            if not p.is_yanked
        )
        yanked = next((p.yanked_reason or "yanked" for p in packages if p.is_yanked), None)
        if not wheels:
            left_out[text] = f"yanked: {yanked}"
            continue
        release = Release(text, _first_date(wheels, version), wheels)
        if not release.pythons():
            left_out[text] = f"has no wheel for {sys.platform} on {platform.machine()}"
            continue
        releases.append(release)
    releases.sort(key=lambda r: r.parsed)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Listing(channel, tuple(releases), left_out, now)


def _first_date(wheels: Iterable[Wheel], version: Version) -> str | None:
    dates = sorted(w.uploaded for w in wheels if w.uploaded)
    if dates:
        return dates[0]
    if version.dev and len(str(version.dev)) == 8:  # a nightly carries its day
        day = str(version.dev)
        return f"{day[:4]}-{day[4:6]}-{day[6:]}T00:00:00+00:00"
    return None


def from_folder(channel: str, folder: Path) -> Listing:
    """Releases of the torch wheels that lie in ``folder``."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", "harness wheelhouse unpack makes one")
    found: dict[str, list[Wheel]] = {}
    for file in sorted(folder.glob("torch-*.whl")):
        try:
            version = parse_wheel_filename(file.name)[1]
        except InvalidWheelFilename:
            continue
        found.setdefault(str(version), []).append(
            Wheel(file.name, None, file.stat().st_size, None, None, str(file))
        )
    releases = sorted(
        (Release(v, None, tuple(wheels)) for v, wheels in found.items()), key=lambda r: r.parsed
    )
    return Listing(channel, tuple(releases), {}, datetime.now(UTC).isoformat(timespec="seconds"))


def _from_json(value: dict[str, Any]) -> Listing:
    releases = tuple(
        Release(
            r["version"],
            r["date"],
            tuple(Wheel(**w) for w in r["wheels"]),
            r.get("yanked"),
        )
        for r in value["releases"]
    )
    return Listing(value["channel"], releases, dict(value["left_out"]), value["fetched"])
