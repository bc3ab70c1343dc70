"""The fake index does what it says, seen through uv and pypi_simple."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import fakeindex as fake
import pytest
from conftest import MakeIndex
from fakeindex import Bug, Damage, FakeIndex, Package, Release, history, nightlies
from packaging.version import Version
from pypi_simple import ACCEPT_HTML_ONLY, PyPISimple
from uv import find_uv_bin

Completed = subprocess.CompletedProcess[str]


class Environment:
    """A virtualenv made by uv from an index."""

    def __init__(self, index: FakeIndex, name: str = "env") -> None:
        self.index, self.folder = index, index.work / name
        made = self.uv("venv", "--quiet", "--python", sys.executable, str(self.folder))
        assert made.returncode == 0, made.stderr

    def uv(self, *arguments: str, retries: int = 0) -> Completed:
        env = self.index.env(retries=retries)
        return subprocess.run(
            [find_uv_bin(), *arguments], env=env, capture_output=True, text=True, timeout=60
        )

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")

    def install(self, *arguments: str, retries: int = 0) -> Completed:
        return self.uv("pip", "install", "--python", self.python, *arguments, retries=retries)

    def versions(self) -> dict[str, str]:
        listed = self.uv("pip", "list", "--python", self.python, "--format", "json")
        return {entry["name"]: entry["version"] for entry in json.loads(listed.stdout)}

    def run(self, code: str) -> Completed:
        env = self.index.env()
        return subprocess.run([self.python, "-c", code], env=env, capture_output=True, text=True, timeout=60)


BUG = "import torch; torch.fake.maybe('bug', compiled=True)"


# Installing


def test_a_release_installs_with_dependencies_of_its_day(fake_index: FakeIndex) -> None:
    env = Environment(fake_index)
    done = env.install("torch==2.1.2", "numpy", "setuptools", "--exclude-newer", "2023-12-15T00:00:00Z")
    assert done.returncode == 0, done.stderr
    assert env.versions() == {"torch": "2.1.2", "numpy": "1.24.0", "setuptools": "65.6.3", "sympy": "1.11.1"}
    said = env.run("import torch; print(torch.__version__, torch.version.git_version, torch.version.cuda)")
    assert said.stdout.split() == ["2.1.2", fake.git_version("2.1.2"), "None"]


def test_exclude_newer_is_respected(fake_index: FakeIndex) -> None:
    env = Environment(fake_index)
    assert env.install("torch", "--exclude-newer", "2024-09-03T00:00:00Z").returncode == 0
    assert env.versions()["torch"] == "2.4.0"
    early = env.install("torch==2.4.1", "--exclude-newer", "2024-09-03T00:00:00Z")
    assert early.returncode == 1
    assert "unsatisfiable" in early.stderr


def test_yanked_and_pre_releases_come_only_by_name(make_index: MakeIndex) -> None:
    index = make_index(
        Release("2.5.0"),
        Release("2.6.0", yanked="it was broken"),
        Release("2.7.0rc1", "2025-04-01"),
        Release("2.8.0.dev20250401", "2025-04-02"),
    )
    env = Environment(index)
    assert env.install("torch").returncode == 0
    assert env.versions()["torch"] == "2.5.0"
    pinned = env.install("torch==2.6.0")
    assert "it was broken" in pinned.stderr
    assert env.versions()["torch"] == "2.6.0"
    assert env.install("torch==2.8.0.dev20250401").returncode == 0


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"damage": Damage.HASH}, "Hash mismatch"),
        ({"damage": Damage.TRUNCATED}, "Failed to extract"),
        ({"damage": Damage.NO_ZIP}, "Invalid zip"),
        ({"damage": Damage.NO_METADATA}, r"dist-info|METADATA"),
        ({"requires": ("no-such-thing>=1",)}, "no-such-thing was not found"),
        ({"platforms": ("win_arm64",)}, "no wheels with a matching platform tag"),
        ({"pythons": ("cp38",)}, "no wheels with a matching Python"),
        ({"requires_python": ">=3.99"}, "does not satisfy Python"),
    ],
)
def test_a_wheel_that_is_broken_or_does_not_fit_is_refused(
    make_index: MakeIndex, fields: dict[str, object], said: str
) -> None:
    env = Environment(make_index(Release("2.5.0", **fields)))  # type: ignore[arg-type]
    done = env.install("torch")
    assert done.returncode == 1
    assert re.search(said, done.stderr), done.stderr
    assert "torch" not in env.versions()


def test_a_wheel_for_each_python_and_platform_is_listed_and_the_fitting_one_installed(
    make_index: MakeIndex,
) -> None:
    pythons, hosts = ("cp38", fake.python_tag(), "cp399"), (fake.platform_tag(), "win_amd64")
    index = make_index(Release("2.8.0", pythons=pythons, platforms=hosts))
    assert Environment(index).install("torch").returncode == 0
    with PyPISimple(index.url) as client:
        assert len(client.get_project_page("torch").packages) == 6
    fitting = f"torch-2.8.0-{fake.python_tag()}-{fake.python_tag()}-{fake.platform_tag()}.whl"
    assert index.downloads("torch-*") == [fitting]


def test_a_second_environment_downloads_nothing(fake_index: FakeIndex) -> None:
    assert Environment(fake_index, "first").install("torch==2.5.0").returncode == 0
    assert sorted(name.split("-")[0] for name in fake_index.downloads()) == ["sympy", "torch"]
    fake_index.forget()
    assert Environment(fake_index, "second").install("torch==2.5.0").returncode == 0
    assert fake_index.count("*.whl") == 0
    assert fake_index.count("torch") == 1


def test_other_packages_of_any_shape_can_be_published(make_index: MakeIndex) -> None:
    extra = Package(
        "einops", "0.8.0", "2024-04-28", {"einops/__init__.py": "answer = 42\n"}, requires=("numpy",)
    )
    env = Environment(make_index(extra))
    assert env.install("einops").returncode == 0
    assert env.run("import einops, numpy; print(einops.answer, numpy.__version__)").stdout == "42 2.3.0\n"


# Listing


def test_pypi_simple_reads_all_that_the_index_knows(make_index: MakeIndex) -> None:
    index = make_index(*history("2.4.0", "2.6.0", change={"2.5.0": {"yanked": "bad"}}))
    with PyPISimple(index.url) as client:
        page = client.get_project_page("torch")
    assert page.versions == ["2.4.0", "2.4.1", "2.5.0", "2.5.1", "2.6.0"] == index.versions
    by_version = {package.version: package for package in page.packages}
    found, wheel = by_version["2.5.0"], index["2.5.0"].wheels(str(index.state))[0]
    assert (found.is_yanked, found.yanked_reason) == (True, "bad")
    assert not by_version["2.5.1"].is_yanked
    assert found.upload_time == wheel.uploaded
    assert (found.digests, found.size) == ({"sha256": wheel.sha256}, len(wheel.body))
    assert found.requires_python == ">=3.8.0"


def test_the_html_page_says_the_same_without_dates(make_index: MakeIndex) -> None:
    index = make_index(Release("2.5.0", yanked="bad"))
    with PyPISimple(index.url, accept=ACCEPT_HTML_ONLY) as client:
        (found,) = client.get_project_page("torch").packages
    assert (found.version, found.is_yanked, found.upload_time) == ("2.5.0", True, None)
    assert found.digests == {"sha256": index["2.5.0"].wheels(str(index.state))[0].sha256}


def test_nightlies_are_listed_by_day_in_plain_html_and_install(make_index: MakeIndex) -> None:
    builds = nightlies("2026-11-01", 6, bug=("2026-11-04", None), vanished=["2026-11-03"])
    index = make_index(*builds)
    with PyPISimple(index.channel_url()) as client:
        packages = client.get_project_page("torch").packages
    assert [package.version for package in packages] == [
        f"2.16.0.dev2026110{day}+cpu" for day in (1, 2, 4, 5, 6)
    ]
    assert {package.upload_time for package in packages} == {None}
    env = Environment(index)
    for day, code in (("20261102", 0), ("20261104", 1)):
        pinned = f"torch==2.16.0.dev{day}"
        assert env.install(pinned, "--index", index.channel_url()).returncode == 0
        assert env.run(BUG).returncode == code


def test_what_is_added_and_removed_is_seen_at_once(fake_index: FakeIndex) -> None:
    env = Environment(fake_index)
    fake_index.add(Release("2.16.0", "2026-12-01"))
    assert env.install("torch").returncode == 0
    assert env.versions()["torch"] == "2.16.0"
    fake_index.remove("2.16.0")
    assert env.install("torch", "--upgrade", "--reinstall").returncode == 0
    assert env.versions()["torch"] == "2.15.0"


def test_a_history_has_the_bug_in_its_windows_alone() -> None:
    spans: dict[str, Bug | list[Bug]] = {
        "oops": [Bug("2.3.0", "2.4.0"), Bug("2.9.1", "2.10.0", "values")],
        "late": Bug("2.15.0"),
    }
    releases = history(bug=("2.5.0", "2.6.1"), bugs=spans)
    assert len(releases) == len(fake.DATES) == 28
    assert all(a.uploaded < b.uploaded for a, b in pairwise(releases))
    assert all(Version(a.version) < Version(b.version) for a, b in pairwise(releases))
    having = {
        name: [release.version for release in releases if name in release.behaviours]
        for name in ("bug", "oops", "late")
    }
    assert having == {
        "bug": ["2.5.0", "2.5.1", "2.6.0"],
        "oops": ["2.3.0", "2.3.1", "2.9.1"],
        "late": ["2.15.0"],
    }


# Faults


def test_connections_are_refused_until_they_are_accepted(fake_index: FakeIndex) -> None:
    env = Environment(fake_index)
    fake_index.refuse()
    refused = env.install("torch")
    assert refused.returncode == 2
    assert "Connection refused" in refused.stderr
    assert fake_index.count() == 0
    fake_index.accept()
    assert env.install("torch").returncode == 0


@pytest.mark.parametrize("status", [500, 503, 429])
def test_errors_are_answered_as_often_as_asked_for(fake_index: FakeIndex, status: int) -> None:
    env = Environment(fake_index)
    fault = fake_index.fail("torch", status=status, times=2)
    for _ in range(2):
        failed = env.install("torch")
        assert (failed.returncode, str(status) in failed.stderr) == (2, True)
    assert env.install("torch").returncode == 0
    assert fault.hits == 2


def test_uv_itself_outlasts_a_short_fault(fake_index: FakeIndex) -> None:
    fake_index.cut("torch-2.5.0-*.whl", times=1)
    assert Environment(fake_index).install("torch==2.5.0", retries=2).returncode == 0
    assert [r.complete for r in fake_index.requests if r.matches("torch-2.5.0-*.whl")] == [False, True]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lambda index: index.cut(times=8), "end of file before message length reached"),
        (lambda index: index.drop("torch-*.whl", times=8), "error sending request"),
        (lambda index: index.nonsense("torch-*.whl"), "Invalid zip"),
        (lambda index: index.nonsense("torch"), "unexpected JSON"),
        (lambda index: index.fail("torch-2.5.0-*", status=404), "404"),
    ],
)
def test_a_faulty_answer_fails_the_install_and_heals(
    fake_index: FakeIndex, fault: Callable[[FakeIndex], object], said: str
) -> None:
    env = Environment(fake_index)
    fault(fake_index)
    failed = env.install("torch==2.5.0")
    assert failed.returncode != 0
    assert said in failed.stderr, failed.stderr
    assert "torch" not in env.versions()
    fake_index.heal()
    assert env.install("torch==2.5.0").returncode == 0


def test_one_version_can_be_missing_while_its_neighbours_install(fake_index: FakeIndex) -> None:
    env = Environment(fake_index)
    fake_index.fail("torch-2.5.0-*", status=404)
    assert env.install("torch==2.5.0").returncode == 1
    assert env.install("torch==2.5.1").returncode == 0


def test_a_slow_index_takes_its_time(make_index: MakeIndex) -> None:
    index = make_index(Release("2.5.0", size=100_000))
    env = Environment(index)
    index.slow("torch-*.whl", bytes_per_second=250_000)
    index.slow("torch", delay=0.2)
    begun = time.monotonic()
    assert env.install("torch").returncode == 0
    assert time.monotonic() - begun > 0.6


def test_this_process_can_enter_an_index(
    fake_index: FakeIndex, in_index: Callable[[FakeIndex], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "elsewhere")
    in_index(fake_index)
    assert os.environ["UV_DEFAULT_INDEX"] == fake_index.url
    assert "PIP_FIND_LINKS" not in os.environ
