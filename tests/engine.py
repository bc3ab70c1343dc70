"""A fake torch in a ready environment, and one attempt in it: what tests of the engine start from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from fakeindex import Behaviour, FakeIndex, Release

from harness.env import Environments
from harness.outcome import Outcome
from harness.release import list_releases
from harness.run import Request, Server
from harness.target import Source, pick_sources

FORWARD = "def forward(x):\n    return torch.fake.maybe({name!r}, x + 1)\n"


@contextmanager
def seeing(index: FakeIndex) -> Iterator[None]:
    """This process sees ``index`` and no other."""
    wanted = index.env()
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(wanted):
            patch.delenv(name)
        for name, value in index.settings().items():
            patch.setenv(name, value)
        yield


def sources(home: Path, text: str = "all") -> list[Source]:
    """What the index publishes, newest first."""
    return pick_sources(list_releases("pypi", home), text, None)


@contextmanager
def world(work: Path, *releases: Release) -> Iterator[dict[str, Path]]:
    """Pythons with these releases of the fake torch, by version; all below ``work``."""
    home = work / "home"
    work.mkdir(exist_ok=True)
    with FakeIndex(releases, work=work / "index") as index, seeing(index):
        environments = Environments(home)
        pythons = {}
        for source in sources(home):
            with environments.use(source) as env:
                pythons[source.torch] = env.python
        yield pythons


def spec(model: str, **changes: Any) -> dict[str, Any]:
    """A cell's spec as ``cell.make_cell`` resolves it."""
    base: dict[str, Any] = {
        "model": model,
        "script": None,
        "inputs": {"x": tensor([4])},
        "by_keyword": False,
        "entry": "compile",
        "compile": {},
        "config": {},
        "env": {},
        "compare": ["dtype", "shape", "values"],
        "tolerance": {"rtol": None, "atol": None},
        "seed": 0,
        "device": "cpu",
    }
    return {**base, **changes}


def tensor(shape: list[int], **changes: Any) -> dict[str, Any]:
    """An input as a case describes it."""
    base: dict[str, Any] = {
        "shape": shape, "dtype": "float32", "fill": "randn", "value": None, "low": 0, "high": 10,
        "stride": None, "requires_grad": False, "device": None,
    }  # fmt: skip
    return {**base, **changes}


def attempt(
    server: Server, model: str, *, fresh: bool = True, timeout_s: float = 30, **changes: Any
) -> Outcome:
    """One attempt at a model."""
    return server.attempt(Request(spec(model, **changes), fresh=fresh, timeout_s=timeout_s))


def left_processes() -> list[str]:
    """Living processes below this one."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with_state = child.as_dict(["cmdline", "status"])
        if with_state["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(with_state["cmdline"] or [str(child.pid)]))
    return found


Behaviours = Mapping[str, str | Behaviour]
