"""The fake index as tests use it: what is published, what goes wrong, what was asked."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from packaging.version import Version

from .releases import NIGHTLY, STABLE, SUPPORT, Package, Release
from .server import Fault, Request, Server
from .wheels import Wheel

Published = Release | Package

# Whatever points package tools elsewhere, or around the index, must not leak into a test.
_FOREIGN = ("UV_", "PIP_", "FAKE_")
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


class FakeIndex:
    """A running index of fake releases; a context manager.

    `work` is a folder of the test's own: it holds uv's cache and the counters of flaky behaviours.
    """

    def __init__(
        self,
        releases: Iterable[Published] = (),
        *,
        work: Path,
        support: Iterable[Package] = SUPPORT,
    ) -> None:
        self.work = work
        self.cache = work / "uv-cache"
        self.state = work / "fake-state"
        self._catalog: dict[str, dict[str, list[Wheel]]] = {STABLE: {}, NIGHTLY: {}}
        self._published: list[Published] = []
        self.server = Server(self._catalog)
        self.add(*support, *releases)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops serving."""
        self.server.close()

    # Addresses

    @property
    def url(self) -> str:
        """The stable index, for `--default-index` and for PyPISimple."""
        return f"{self.server.root}/{STABLE}"

    def channel_url(self, channel: str = NIGHTLY) -> str:
        """The index of a channel, e.g. `nightly/cpu`: plain HTML without dates."""
        return f"{self.server.root}/{channel}"

    def env(self, base: Mapping[str, str] | None = None, *, retries: int | None = None) -> dict[str, str]:
        """The environment for a subprocess that shall see this index and no other.

        From `base` (default: this process's) without settings of uv, pip and proxies. `retries` is
        how often uv itself asks again (its default, 3, takes seconds).
        """
        kept = {
            name: value
            for name, value in (os.environ if base is None else base).items()
            if not name.startswith(_FOREIGN) and name.lower() not in _PROXIES
        }
        limit = {} if retries is None else {"UV_HTTP_RETRIES": str(retries)}
        return {**kept, **self.settings(), **limit}

    def settings(self) -> dict[str, str]:
        """What `env` adds."""
        return {
            "UV_DEFAULT_INDEX": self.url,
            "UV_CACHE_DIR": str(self.cache),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_NO_PROGRESS": "1",
            # pip too, and not the host's pip.conf with other indexes in it.
            "PIP_INDEX_URL": self.url,
            "PIP_CONFIG_FILE": os.devnull,
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
            "FAKE_STATE": str(self.state),
        }

    # What is published

    def add(self, *releases: Published) -> None:
        """Publishes more, visible at once."""
        for release in releases:
            self._published.append(release)
            channel = self._catalog.setdefault(release.channel, {})
            # A new list: a request may be reading the old one.
            files = [*channel.get(release.name, ()), *release.wheels(str(self.state))]
            self._catalog[release.channel] = {**channel, release.name: files}

    def remove(self, version: str, name: str = "torch") -> Published:
        """Takes a release away, as nightlies vanish, and returns it."""
        taken = self[version, name]
        self._published.remove(taken)
        remaining = [p for p in self._published if (p.channel, p.name) == (taken.channel, name)]
        files = [wheel for other in remaining for wheel in other.wheels(str(self.state))]
        channel = self._catalog[taken.channel]
        self._catalog[taken.channel] = {**channel, name: files}
        return taken

    def __getitem__(self, key: str | tuple[str, str]) -> Published:
        version, name = (key, "torch") if isinstance(key, str) else key
        for release in self._published:
            if (release.version, release.name) == (version, name):
                return release
        raise KeyError(f"{name} {version} is not published here")

    @property
    def versions(self) -> list[str]:
        """The versions of torch in the stable index, oldest first."""
        found = [p.version for p in self._published if (p.name, p.channel) == ("torch", STABLE)]
        return sorted(found, key=Version)

    # What goes wrong: patterns are globs on the path or on its last segment, e.g. `torch-2.5.0-*`
    # for a file, `/simple/torch/` for a page, `*` for everything.

    def refuse(self) -> None:
        """Refuses connections until `accept`."""
        self.server.refuse()

    def accept(self) -> None:
        """Ends `refuse`."""
        self.server.accept()

    def fail(
        self,
        pattern: str = "*",
        *,
        status: int = 503,
        times: int | None = None,
        retry_after: int | None = None,
    ) -> Fault:
        """Answers with this status, `times` times or forever; 404 makes one file vanish."""
        return self._fault(Fault(pattern, times, status=status, retry_after=retry_after))

    def slow(
        self,
        pattern: str = "*.whl",
        *,
        bytes_per_second: int | None = None,
        delay: float = 0.0,
        times: int | None = None,
    ) -> Fault:
        """Waits `delay` seconds before the answer, or sends it slowly."""
        return self._fault(Fault(pattern, times, delay=delay, bytes_per_second=bytes_per_second))

    def cut(self, pattern: str = "*.whl", *, times: int | None = None) -> Fault:
        """Hangs up in the middle of the body."""
        return self._fault(Fault(pattern, times, cut=True))

    def drop(self, pattern: str = "*", *, times: int | None = None) -> Fault:
        """Hangs up without an answer."""
        return self._fault(Fault(pattern, times, drop=True))

    def nonsense(
        self, pattern: str = "*", body: bytes = b"\x00\xffnonsense", *, times: int | None = None
    ) -> Fault:
        """Sends this body with the right status and content type."""
        return self._fault(Fault(pattern, times, body=body))

    def heal(self) -> None:
        """Ends every fault."""
        self.server.faults.clear()
        self.accept()

    def _fault(self, fault: Fault) -> Fault:
        self.server.faults.append(fault)
        return fault

    # What was asked

    @property
    def requests(self) -> list[Request]:
        """All requests since the start or `forget`, oldest first."""
        return list(self.server.requests)

    def count(self, pattern: str = "*") -> int:
        """How many requests matched."""
        return sum(request.matches(pattern) for request in self.requests)

    def downloads(self, pattern: str = "*.whl") -> list[str]:
        """The file names of wheels that were sent whole, in order."""
        return [
            request.filename
            for request in self.requests
            if request.method == "GET"
            and request.status == 200
            and request.complete
            and request.path.endswith(".whl")
            and request.matches(pattern)
        ]

    def forget(self) -> None:
        """Starts counting anew."""
        self.server.requests.clear()

    def attempts(self, name: str, version: str) -> int:
        """How often a flaky behaviour of that release was asked so far."""
        counter = self.state / f"{name}@{version}"
        return counter.stat().st_size if counter.exists() else 0
