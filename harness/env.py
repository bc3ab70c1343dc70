"""Virtualenvs made with uv: one lock each, marker written last, a disk budget kept.

Layout below the harness's home folder (``HARNESS_HOME``, default ``.harness`` in the project)::

    envs/<id>/            a virtualenv; ``harness-env.json`` in it is the marker
    uv-cache/             uv's cache, on the same file system so that wheels are hard-linked
    locks/ releases/ attempts/ logs/

Nothing outside it is ever deleted, and no folder without the marker of the harness.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from harness.disk import GONE, disk_usage, linked, remove
from harness.errors import SetupError
from harness.release import index_url
from harness.target import Source, slug, wanted_pythons
from harness.uv import Uv, UvFailure

MARKER = "harness-env.json"
HOME_MARKER = "harness-home.json"
ALWAYS = ("setuptools", "numpy")  # inductor needs the one on 3.11 (pytorch#173823), repros the other
GRACE = timedelta(days=1)
DEFAULT_BUDGET = 20 * 10**9


@dataclass(frozen=True)
class Environment:
    """A ready environment. ``facts`` is what the probe saw: torch, git_version, python, ..."""

    id: str
    python: Path
    folder: Path | None
    facts: dict[str, Any] = field(default_factory=dict)


def default_home() -> Path:
    """``HARNESS_HOME``, else ``.harness`` in the current folder."""
    return Path(os.environ.get("HARNESS_HOME") or ".harness").absolute()


class Home:
    """The harness's own folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for name in ("envs", "locks", "attempts", "logs", "releases"):
            (path / name).mkdir(parents=True, exist_ok=True)
        marker = path / HOME_MARKER
        if not marker.exists():
            marker.write_text('{"made_by": "harness"}\n')

    @property
    def envs(self) -> Path:
        return self.path / "envs"

    @property
    def cache(self) -> Path:
        return self.path / "uv-cache"

    def lock(self, name: str) -> FileLock:
        """A lock that a dead process does not hold: the kernel drops it."""
        return FileLock(self.path / "locks" / f"{slug(name)}.lock")


class Environments:
    """Makes environments, keeps the disk budget, hands them out."""

    def __init__(self, home: Path, budget: int = DEFAULT_BUDGET, offline: bool = False) -> None:
        self.home = Home(home)
        self.budget = budget
        self.uv = Uv(self.home.path, self.home.cache, offline)

    @contextlib.contextmanager
    def use(self, source: Source) -> Iterator[Environment]:
        """The environment of ``source``, made if it is not there, safe from eviction meanwhile.

        Raises:
            SetupError: it could not be made; the message is the reason.
        """
        if source.interpreter:
            yield self._brought(source)
            return
        name, python = self.identify(source)
        use = (self.home.path / "locks" / f"{name}.use").open("a")
        try:
            with self._held(name):
                fcntl.flock(use, fcntl.LOCK_SH)
                env = self._open(name) or self._make(name, python, source)
                os.utime(self.home.envs / name / MARKER)
            yield env
        finally:
            use.close()

    @contextlib.contextmanager
    def _held(self, name: str) -> Iterator[None]:
        """The lock of ``name``; another process may be installing for minutes, a stop ends the wait."""
        lock = self.home.lock(name)
        try:
            lock.acquire(cancel_check=lambda: self.uv.stopping)
        except Timeout as exc:
            raise SetupError("the run is being stopped") from exc
        try:
            yield
        except OSError as exc:
            raise SetupError(
                f"the environment {name} cannot be made: {exc.strerror or exc}",
                "make room or mend the permissions below HARNESS_HOME, and run again",
            ) from exc
        finally:
            lock.release()

    def identify(self, source: Source) -> tuple[str, Path]:
        """Id and base interpreter of the environment for ``source``.

        Raises:
            SetupError: there is no fitting Python and none can be fetched.
        """
        assert source.release is not None
        wanted = wanted_pythons(source)
        tried = []
        for text in wanted:
            python = self.uv.find_python(text)
            if python is not None:
                extra = hashlib.sha256(repr(source.packages).encode()).hexdigest()[:8]
                tail = f"-{extra}" if source.packages else ""
                version = self.uv.python_version(python)
                channel = source.channel
                if channel.startswith("wheelhouse:"):
                    channel = "wheelhouse"
                return f"{slug(source.torch)}-{slug(channel)}-py{version}{tail}", python
            tried.append(text)
        if not tried:
            raise SetupError(f"torch {source.torch} has no wheel for this machine")
        raise SetupError(
            f"no Python for torch {source.torch}: tried {', '.join(tried)}",
            "name one with --python, or install one that uv can find",
        )

    def ready(self, source: Source) -> bool:
        """Whether the environment is there already."""
        if source.interpreter:
            return True
        try:
            return self._open(self.identify(source)[0]) is not None
        except SetupError:
            return False

    def _open(self, name: str) -> Environment | None:
        folder = self.home.envs / name
        try:
            facts = json.loads((folder / MARKER).read_text())
        except (OSError, ValueError):
            return None
        python = folder / "bin" / "python"
        if not isinstance(facts, dict) or not python.exists():  # its base may have been removed
            return None
        return Environment(name, python, folder, facts)

    def _make(self, name: str, python: Path, source: Source) -> Environment:
        folder = self.home.envs / name
        remove(folder)
        self.make_room(_estimate(source))
        started = time.monotonic()
        try:
            self.uv.venv(folder, python)
            note = self._install(folder / "bin" / "python", source)
        except UvFailure as exc:
            remove(folder)
            raise SetupError(str(exc)) from exc
        facts = self._probe(folder / "bin" / "python", source)
        facts["packages"] = self.uv.freeze(folder / "bin" / "python")
        facts["resolved"] = note
        facts["made_s"] = round(time.monotonic() - started, 1)
        facts["made"] = datetime.now(UTC).isoformat(timespec="seconds")
        part = folder / f"{MARKER}.part"
        part.write_text(json.dumps(facts, indent=1))
        part.replace(folder / MARKER)
        env = self._open(name)
        assert env is not None
        return env

    def _install(self, python: Path, source: Source) -> str:
        """Install torch and what always belongs beside it; returns how it was resolved."""
        assert source.release is not None
        packages = [f"torch=={source.release.version}", *ALWAYS, *source.packages]
        if source.channel.startswith("wheelhouse:"):
            folder = Path(source.channel.removeprefix("wheelhouse:")).absolute()
            return self._install_from(folder, python, source.release.version, packages)
        where = []
        if source.channel != "pypi":
            # PyTorch's own indexes come first and the default one fills in; they give no upload
            # dates, so the cut-off is set for the other packages by name.
            where = ["--index", str(index_url(source.channel)), "--index-strategy", "unsafe-best-match"]
        if not source.release.date:
            self.uv.install(python, [*where, *packages])
            return "as of today: the index gives no date"
        cut = datetime.fromisoformat(source.release.date) + GRACE
        until = cut.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        if source.channel == "pypi":
            dated = ["--exclude-newer", until]
        else:
            dated = [
                part
                for name in (*ALWAYS, "sympy", "networkx", "typing-extensions", "fsspec")
                for part in ("--exclude-newer-package", f"{name}={until}")
            ]
        try:
            self.uv.install(python, [*where, *dated, *packages])
        except UvFailure as exc:
            if exc.network or ("exclude" not in str(exc) and "No solution" not in exc.output):
                raise
            self.uv.install(python, [*where, *packages])
            return f"as of today: nothing fits as of {until}"
        return f"as of {until}"

    def _install_from(self, folder: Path, python: Path, version: str, packages: list[str]) -> str:
        """Install from a folder of wheels, with no index."""
        from harness.wheelhouse.hostlibs import link_host_libraries, site_packages
        from harness.wheelhouse.unpack import find_target

        found = find_target(folder, version, self.uv.python_version(python))
        if found is None:
            self.uv.install(python, ["--no-index", "--find-links", str(folder), *packages])
            return "from a folder of wheels"
        target, wheels = found
        self.uv.install(python, ["--no-index", "--no-deps", *map(str, wheels)])
        if not target.reuse_host:
            return "from a wheelhouse"
        lent = link_host_libraries(site_packages(python), site_packages(Path(sys.executable)))
        return "from a wheelhouse; the host lends " + ", ".join(f"{k} {v}" for k, v in sorted(lent.items()))

    def _probe(self, python: Path, source: Source) -> dict[str, Any]:
        from harness.run import probe  # run is a layer above; only its probe is needed here

        facts = probe(python, self.home.path)
        if source.release is not None:
            version = facts.get("python", "3.0").split(".")
            wheel = source.release.wheel_for((int(version[0]), int(version[1])))
            if wheel is not None:
                facts["wheel"] = wheel.filename
                facts["wheel_sha256"] = wheel.sha256
            facts["release_date"] = source.release.date
        slim = _slimmed(python.parent.parent)
        if slim:
            facts["slimmed"] = slim
        return facts

    def _brought(self, source: Source) -> Environment:
        from harness.run import probe

        assert source.interpreter is not None
        python = Path(source.interpreter)
        facts = probe(python, self.home.path)
        facts["brought"] = True
        return Environment("interpreter", python, None, facts)

    def make_room(self, need: int) -> None:
        """Evict until ``need`` bytes fit into the budget and on the disk, oldest use first.

        Raises:
            SetupError: the disk has no room even so.
        """
        with self.home.lock("budget"):
            for folder in self._by_age():
                if self.usage() + need <= self.budget and self._free() >= need:
                    break
                self._evict(folder)
            if self.usage() + need > self.budget or self._free() < need:
                self._trim_cache(need)
        if self._free() < need // 2:
            raise SetupError(
                f"the disk has {self._free() / 1e9:.1f} GB left and about {need / 1e9:.1f} GB are needed",
                "make room, or set HARNESS_HOME to a larger disk",
            )

    def _free(self) -> int:
        return shutil.disk_usage(self.home.path).free

    def _by_age(self) -> list[Path]:
        def used(folder: Path) -> float:
            try:
                return (folder / MARKER).stat().st_mtime
            except OSError:
                return 0.0

        return sorted((f for f in self.home.envs.iterdir() if f.is_dir()), key=used)

    def _evict(self, folder: Path) -> bool:
        """Remove an environment that nobody uses, and no folder that the harness did not make."""
        if not _ours(folder):
            return False
        with (self.home.path / "locks" / f"{folder.name}.use").open("a") as use:
            try:
                fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
            remove(folder)
            return True

    def _trim_cache(self, need: int) -> None:
        """Drop unpacked wheels of uv's cache that no environment is linked to, oldest first.

        uv takes a missing archive for a cache miss. Where nothing is linked any more the file's
        link count is one.
        """
        archive = self.home.cache / "archive-v0"
        entries = [e for e in archive.iterdir() if e.is_dir()] if archive.is_dir() else []
        for entry in sorted(entries, key=lambda e: e.stat().st_mtime):
            if self.usage() + need <= self.budget and self._free() >= need:
                return
            if not linked(entry):
                shutil.rmtree(entry, ignore_errors=True)

    def usage(self) -> int:
        """Bytes on disk of environments and cache, hard links counted once."""
        return disk_usage(self.home.envs, self.home.cache)

    def listed(self) -> list[dict[str, Any]]:
        """What is there, newest use first: id, size (shared files counted in each), last use."""
        rows = []
        for folder in reversed(self._by_age()):
            env = self._open(folder.name)
            used = (folder / MARKER).stat().st_mtime if env else folder.stat().st_mtime
            rows.append(
                {
                    "id": folder.name,
                    "torch": env.facts.get("torch") if env else None,
                    "python": env.facts.get("python") if env else None,
                    "bytes": disk_usage(folder),
                    "last_use": datetime.fromtimestamp(used, UTC).isoformat(timespec="seconds"),
                    "complete": env is not None,
                }
            )
        return rows

    def prune(self, everything: bool = False) -> tuple[int, list[str]]:
        """Remove half-made and, with ``everything``, all unused environments and the cache.

        Returns bytes freed and the ids removed.
        """
        before = self.usage()
        removed = []
        with self.home.lock("budget"):
            for folder in self._by_age():
                if (everything or self._open(folder.name) is None) and self._evict(folder):
                    removed.append(folder.name)
            if everything:
                shutil.rmtree(self.home.cache, ignore_errors=True)
            else:
                self._trim_cache(0)
        return before - self.usage(), removed


def _estimate(source: Source) -> int:
    """Bytes that the environment will take, from the size of torch's wheel.

    CUDA builds unpack to 4.2 GB (2.0) to 7 GB (2.10) with the libraries they depend on.
    """
    wheel = None
    if source.release is not None and source.release.wheels:
        wheel = max((w.size or 0) for w in source.release.wheels)
    if wheel is None or wheel == 0:
        return 500_000_000
    if wheel > 300_000_000:
        return 7_000_000_000
    return 4 * wheel + 50_000_000


def _slimmed(folder: Path) -> list[dict[str, Any]]:
    """Markers of wheels that were slimmed to one GPU architecture."""
    found = []
    for file in sorted(folder.glob("lib/python*/site-packages/*.dist-info/SLIMMED.json")):
        try:
            found.append(
                {"package": file.parent.name.removesuffix(".dist-info"), **json.loads(file.read_text())}
            )
        except (OSError, ValueError):
            continue
    return found


def _ours(folder: Path) -> bool:
    """Whether the harness made ``folder``: ready, half made by uv, or half removed."""
    if folder.is_symlink():
        return False
    return folder.name.endswith(GONE) or any((folder / f).exists() for f in (MARKER, "pyvenv.cfg"))
