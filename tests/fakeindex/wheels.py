"""Wheels made in memory: pure zips with METADATA, WHEEL and RECORD, named like real ones."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import platform
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

TEMPLATE = Path(__file__).parent / "torch_template"


class Damage:
    """Ways in which a wheel can be broken, as the index serves it."""

    HASH = "hash"
    """Another file than the one whose hash is listed: whole, installable, not the one promised."""
    TRUNCATED = "truncated"
    """Half of the file, with the hash of the whole."""
    NO_ZIP = "no-zip"
    """Something else altogether, listed with its own hash."""
    RECORD = "record"
    """A RECORD whose hashes do not match the files. uv installs it all the same."""
    NO_METADATA = "no-metadata"
    """A zip without METADATA."""


@dataclass(frozen=True)
class Wheel:
    """One file of an index."""

    filename: str
    body: bytes
    metadata: bytes
    uploaded: datetime
    sha256: str
    """As listed; differs from the body's where the wheel is damaged so."""
    requires_python: str | None = None
    yanked: str | bool = False
    core_metadata: bool = True
    """Whether the index serves METADATA beside the wheel."""


def python_tag() -> str:
    """The tag of the Python that runs the tests, e.g. `cp311`: the one that surely exists here."""
    return f"cp{sys.version_info.major}{sys.version_info.minor}"


def platform_tag() -> str:
    """The platform tag of this host in the manner of torch's wheels."""
    machine = platform.machine()
    if sys.platform == "darwin":
        return f"macosx_11_0_{machine}"
    return f"manylinux_2_28_{machine}" if sys.platform == "linux" else "win_amd64"


def when(date: str) -> datetime:
    """A point in time, UTC; a bare date is noon of that day."""
    moment = datetime.fromisoformat(date if "T" in date else f"{date}T12:00:00")
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _digest(body: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).rstrip(b"=").decode()


def _metadata(name: str, version: str, python: str | None, requires: Sequence[str]) -> bytes:
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Python: {python}"] if python else []
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    return ("\n".join(lines) + "\n\nA fake.\n").encode()


def _zip(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path, body in files.items():
            # A fixed date: the same wheel has the same hash in every process.
            info = zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0))
            info.external_attr = 0o644 << 16
            archive.writestr(info, body)
    return out.getvalue()


def build(
    name: str,
    version: str,
    files: Mapping[str, bytes],
    *,
    uploaded: datetime,
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    requires_python: str | None = None,
    yanked: str | bool = False,
    core_metadata: bool = True,
    damage: str | None = None,
) -> Wheel:
    """A wheel of these files (path in site-packages to contents)."""
    info = f"{name}-{version}.dist-info"
    metadata = _metadata(name, version, requires_python, requires)
    about = f"Wheel-Version: 1.0\nGenerator: fakeindex\nRoot-Is-Purelib: {str('any' in tag).lower()}\n"
    content = {
        **files,
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": f"{about}Tag: {tag}\n".encode(),
    }
    if damage == Damage.NO_METADATA:
        del content[f"{info}/METADATA"]
    record = "".join(
        f"{path},sha256={_digest(body[1:] if damage == Damage.RECORD else body)},{len(body)}\n"
        for path, body in content.items()
    )
    content[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    body = _zip(content) if damage != Damage.NO_ZIP else b"<html>Not a wheel at all.</html>" * 50
    sha256 = hashlib.sha256(body).hexdigest()
    if damage == Damage.HASH:
        body = _zip({**content, "swapped.txt": b"not the file that was promised"})
    if damage == Damage.TRUNCATED:
        body = body[: len(body) // 2]
    return Wheel(
        filename=f"{name}-{version}-{tag}.whl",
        body=body,
        metadata=metadata,
        uploaded=uploaded,
        sha256=sha256,
        requires_python=requires_python,
        yanked=yanked,
        core_metadata=core_metadata and damage != Damage.NO_METADATA,
    )


@functools.cache
def template() -> Mapping[str, bytes]:
    """The fake torch's files, by their path in site-packages, without the generated ones."""
    return {
        f"torch/{path.relative_to(TEMPLATE).as_posix()}": path.read_bytes()
        for path in sorted(TEMPLATE.rglob("*.py"))
    }


def git_version(version: str) -> str:
    """The commit that a fake release claims to be built from: 40 hex digits, stable."""
    return hashlib.sha1(version.split("+")[0].encode()).hexdigest()


def torch_files(
    version: str, table: Mapping[str, object], cuda: str | None, size: int = 0
) -> dict[str, bytes]:
    """The contents of a torch wheel; `size` bytes of padding make an environment weigh something."""
    generated = (
        f"__version__ = {version!r}\ndebug = False\ncuda = {cuda!r}\nhip = None\n"
        f"git_version = {git_version(version)!r}\n"
    )
    files = {
        **template(),
        "torch/version.py": generated.encode(),
        "torch/_fake_behaviour.json": json.dumps({"version": version, **table}).encode(),
    }
    if size:
        files["torch/lib/libtorch_fake.so"] = bytes(size)
    return files
