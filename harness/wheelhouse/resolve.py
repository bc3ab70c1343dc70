"""Which wheels a torch release needs on the far host, and fetching them.

uv resolves, as of a date, for a Python and a platform that need not be this host's, and writes a
lock file in the standard form (pylock.toml) with the address and hash of each wheel.
"""

from __future__ import annotations

import subprocess
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import requests
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from uv import find_uv_bin

from harness.wheelhouse.manifest import WheelhouseError, sha256_of

# Always there beside torch: setuptools because several releases need it and do not ask for it,
# numpy because repros do (see the harness's environments).
ALWAYS = ("setuptools", "numpy")
RESOLVE_LIMIT_S = 600
NETWORK_LIMIT_S = 180
FAR_AHEAD = "2200-01-01T00:00:00Z"


@dataclass(frozen=True)
class Pin:
    """A project at a version, and the wheel that fits the far host."""

    project: str
    version: str
    filename: str
    url: str
    sha256: str


def resolve(
    requirements: list[str],
    *,
    python: str,
    glibc: tuple[int, int] = (2, 28),
    until: datetime | None = None,
    overrides: Mapping[str, str] | None = None,
    wheels_from: Path | None = None,
) -> list[Pin]:
    """All wheels that the requirements need on Linux x86-64.

    ``python``: like ``3.12``. ``glibc``: the far host's, at least; it bounds the manylinux tags.
    ``until``: nothing uploaded later is taken; it needs a time zone. ``overrides``: versions that
    replace whatever a project asks for. ``wheels_from``: a folder of wheels to use in place of the
    index. Raises WheelhouseError if there is no solution or a project has no fitting wheel.
    """
    command = [find_uv_bin(), "pip", "compile", "-", "--quiet", "--no-header", "--no-config"]
    command += ["--format", "pylock.toml", "--only-binary", ":all:", "--python-version", python]
    command += ["--python-platform", f"x86_64-manylinux_{glibc[0]}_{glibc[1]}"]
    if wheels_from is not None:
        command += ["--no-index", "--find-links", str(wheels_from.resolve())]
    elif until is not None:
        command += ["--exclude-newer", until.isoformat()]
        # An override is somebody's choice; the date does not bind it.
        for name in overrides or {}:
            command += ["--exclude-newer-package", f"{name}={FAR_AHEAD}"]
    with tempfile.TemporaryDirectory() as folder:
        if overrides:
            file = Path(folder, "overrides.txt")
            file.write_text("".join(f"{name}=={v}\n" for name, v in overrides.items()))
            command += ["--override", str(file)]
        lock = _uv(command, "".join(f"{line}\n" for line in requirements))
    return read_lock(lock, python, glibc)


def _uv(command: list[str], lines: str) -> str:
    try:
        done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=RESOLVE_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise WheelhouseError(f"uv did not resolve within {RESOLVE_LIMIT_S} s") from error
    if done.returncode != 0:
        raise WheelhouseError(f"uv found no set of wheels: {done.stderr.strip()}")
    return done.stdout


def read_lock(text: str, python: str, glibc: tuple[int, int]) -> list[Pin]:
    """The pins of a pylock.toml, in its order, with the best wheel of each for the far host.

    Raises WheelhouseError for a project that has no wheel there.
    """
    rank = {tag: place for place, tag in enumerate(far_tags(python, glibc))}
    pins = []
    for package in tomllib.loads(text).get("packages", []):
        name, version = canonicalize_name(package["name"]), package["version"]
        fitting = []
        for wheel in package.get("wheels", []):
            filename = unquote(urlsplit(wheel["url"]).path).rsplit("/", 1)[-1]
            _, _, build, tags = parse_wheel_filename(filename)
            places = [rank[tag] for tag in tags if tag in rank]
            if places:
                # Of two wheels with the same tags the later build number wins, as in pip.
                key = (-min(places), build)
                fitting.append((key, Pin(name, version, filename, wheel["url"], _sha256(wheel))))
        if not fitting:
            raise WheelhouseError(
                f"{name} {version} has no wheel for Python {python} on Linux x86-64",
                hint="name another Python",
            )
        pins.append(max(fitting, key=lambda pair: pair[0])[1])
    return pins


def _sha256(wheel: Mapping[str, dict[str, str]]) -> str:
    return wheel["hashes"]["sha256"]


def far_tags(python: str, glibc: tuple[int, int]) -> list[Tag]:
    """The wheel tags that the far host takes, best first."""
    major, minor = (int(part) for part in python.split(".")[:2])
    legacy = {5: "manylinux1_x86_64", 12: "manylinux2010_x86_64", 17: "manylinux2014_x86_64"}
    platforms = []
    for level in range(glibc[1], 4, -1):
        platforms.append(f"manylinux_{glibc[0]}_{level}_x86_64")
        if level in legacy:
            platforms.append(legacy[level])
    platforms.append("linux_x86_64")
    own = list(cpython_tags((major, minor), platforms=platforms))
    interpreter = f"cp{major}{minor}"
    return own + list(compatible_tags((major, minor), interpreter, platforms))


def fetch(pin: Pin, folder: Path) -> Path:
    """The wheel of a pin, downloaded into ``folder`` unless it is there already.

    Raises WheelhouseError if it cannot be had or its hash is not the index's.
    """
    target = folder / pin.filename
    if not target.exists():
        parts = urlsplit(pin.url)
        if parts.scheme == "file":
            target = Path(unquote(parts.path))
        else:
            _download(pin, target)
    found = sha256_of(target)
    if found != pin.sha256:
        raise WheelhouseError(
            f"{target.name} has SHA-256 {found}, the index says {pin.sha256}",
            hint=f"delete {target} and build again",
        )
    return target


def _download(pin: Pin, target: Path) -> None:
    fresh = target.with_name(target.name + ".tmp")
    try:
        with requests.get(pin.url, stream=True, timeout=NETWORK_LIMIT_S) as answer:
            answer.raise_for_status()
            with fresh.open("wb") as file:
                for block in answer.iter_content(1 << 20):
                    file.write(block)
    except requests.RequestException as error:
        raise WheelhouseError(f"cannot download {pin.filename}: {error}") from error
    fresh.replace(target)
