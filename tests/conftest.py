"""Fixtures for every test: a local index of fake releases, and an environment that sees only it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fakeindex import FakeIndex, Package, Release, history

from harness.cell import Cell
from harness.env import Environments
from harness.release import list_releases
from harness.target import pick_sources

# A shell that starts us in the background has SIGINT ignored, and children inherit that: the tests
# that press Ctrl-C would press it in vain.
signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parent.parent
REAL = dict(os.environ)  # before any test puts this process into the environment of a fake index
MakeIndex = Callable[..., FakeIndex]


def chosen(cells: list[Cell]) -> list[Cell]:
    """The cells that tests on real torch run: with HARNESS_REAL_ALL the whole corpus, which takes half
    an hour a release on two cores; else the quick ones among the triggers and controls."""
    if REAL.get("HARNESS_REAL_ALL"):
        return cells
    quick = {"zero-rows", "zero-vector", "zero-columns", "one-row", "legal-strides", "elementwise"}
    return [cell for cell in cells if cell.repro in quick]


@pytest.fixture
def make_index(tmp_path: Path) -> Iterator[MakeIndex]:
    """Starts a FakeIndex of the given releases, in a folder of its own; ends with the test."""
    started: list[FakeIndex] = []

    def make(*releases: Release | Package) -> FakeIndex:
        work = tmp_path / f"index-{len(started)}"
        work.mkdir()
        started.append(FakeIndex(releases, work=work))
        return started[-1]

    yield make
    for index in started:
        index.close()


@pytest.fixture
def fake_index(make_index: MakeIndex) -> FakeIndex:
    """The real release numbers 2.0.0 to 2.15.0, with the bug `bug` in 2.3.0 to 2.5.1."""
    return make_index(*history(bug=("2.3.0", "2.6.0")))


@pytest.fixture
def index_env(fake_index: FakeIndex) -> dict[str, str]:
    """The environment for subprocesses that shall see `fake_index` and no other."""
    return fake_index.env()


@pytest.fixture
def in_index(monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeIndex], None]:
    """Puts this very process, for the length of the test, into the environment of an index."""

    def enter(index: FakeIndex) -> None:
        wanted = index.env()
        for name in set(os.environ) - set(wanted):
            monkeypatch.delenv(name)
        for name, value in index.settings().items():
            monkeypatch.setenv(name, value)

    return enter


@pytest.fixture(scope="session")
def real_python() -> Iterator[list[tuple[str, Path]]]:
    """Real torch releases from the package index, as (version, python); named by HARNESS_REAL.

    They are made with the harness's own environments, below HARNESS_HOME or the project, and stay
    there for the next run.
    """
    names = REAL.get("HARNESS_REAL", "")
    if not names:
        pytest.skip("HARNESS_REAL names no release, such as HARNESS_REAL=2.6.0,2.15.0")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name in set(os.environ) - set(REAL):
                patch.delenv(name)
            for name, value in REAL.items():
                patch.setenv(name, value)
            home = Path(REAL.get("HARNESS_HOME") or ROOT / ".harness").absolute()
            sources = pick_sources(list_releases("pypi", home), names, None)
            environments = Environments(home)
            found = [(s.torch, stack.enter_context(environments.use(s)).python) for s in sources]
        yield found
