"""Environments are made once, whole, of their period, and evicted by nobody's surprise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeIndex
from fakeindex import Damage, FakeIndex, Package, Release

import harness.uv
from harness.disk import disk_usage
from harness.env import MARKER, Environments
from harness.errors import ListingError, SetupError
from harness.release import list_releases
from harness.run import probe
from harness.target import Source, brought, pick_sources

InIndex = Callable[[FakeIndex], None]
HERE = Path(__file__).parent


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness.uv, "BACK_OFF_S", (0.05, 0.05, 0.05))


@pytest.fixture
def enter(in_index: InIndex, monkeypatch: pytest.MonkeyPatch) -> InIndex:
    """Into an index, with a uv that does not ask again by itself."""

    def go(index: FakeIndex) -> None:
        in_index(index)
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    return go


def source(home: Path, text: str = "latest", packages: tuple[str, ...] = ()) -> Source:
    (found,) = pick_sources(list_releases("pypi", home), text, None, packages)
    return found


def installed(facts: dict[str, Any]) -> dict[str, str]:
    return dict(line.split("==") for line in facts["packages"])


def test_an_environment_is_made_once_of_its_period_with_its_marker_last(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    index = make_index(Release("2.1.2"), Release("2.8.0"))
    enter(index)
    old, new = source(home, "2.1.2"), source(home, "2.8.0")
    with Environments(home).use(old) as env:
        assert installed(env.facts) == {
            "torch": "2.1.2", "numpy": "1.24.0", "setuptools": "65.6.3", "sympy": "1.11.1",
        }  # fmt: skip
        assert env.facts["resolved"] == "as of 2023-12-15T12:00:00Z"
        assert env.facts["wheel"].startswith("torch-2.1.2-")
        assert len(env.facts["wheel_sha256"]) == 64
        assert env.facts["release_date"].startswith("2023-12-14")
        assert env.folder is not None
        newest = max(f.stat().st_mtime_ns for f in env.folder.iterdir() if f.name != MARKER)
        assert (env.folder / MARKER).stat().st_mtime_ns >= newest
    with Environments(home).use(new) as env:
        assert installed(env.facts)["setuptools"] == "80.9.0"
    index.forget()
    index.refuse()
    with Environments(home).use(old) as again:  # another process's view
        assert again.facts["torch"] == "2.1.2"
    assert index.requests == []
    assert Environments(home).ready(old)


def test_a_half_made_environment_is_made_again(make_index: MakeIndex, enter: InIndex, home: Path) -> None:
    enter(make_index(Release("2.8.0")))
    what = source(home)
    environments = Environments(home)
    with environments.use(what) as env:
        folder = env.folder
    assert folder is not None
    (folder / MARKER).unlink()
    shutil.rmtree(folder / "lib")
    assert not environments.ready(what)
    assert [row["complete"] for row in environments.listed()] == [False]
    with environments.use(what) as env:
        assert probe(env.python, home)["torch"] == "2.8.0"
    (folder / MARKER).write_text("{half")
    with environments.use(what) as env:
        assert env.facts["torch"] == "2.8.0"
    (folder / "bin" / "python").unlink()  # the Python that it was made from is gone
    assert not environments.ready(what)
    with environments.use(what) as env:
        assert env.python.exists()
    assert [f.name for f in (home / "envs").iterdir()] == [folder.name]


ASKER = """
import sys
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from harness.env import Environments
from harness.release import list_releases
from harness.target import pick_sources
home = Path(sys.argv[1])
environments = Environments(home)
(source,) = pick_sources(list_releases("pypi", home), "latest", None)
with environments.use(source) as env:
    print(env.facts["made"], env.facts["torch"], env.python.exists())
"""


def test_of_eight_processes_that_ask_at_once_one_builds(
    make_index: MakeIndex, home: Path, tmp_path: Path
) -> None:
    index = make_index(Release("2.8.0", size=100_000))
    index.slow("torch-*.whl", delay=0.5)
    command = [sys.executable, "-c", ASKER, str(home), str(HERE.parent)]
    askers = [
        subprocess.Popen(command, env=index.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    answers = [asker.communicate(timeout=120) for asker in askers]
    assert [asker.returncode for asker in askers] == [0] * 8, answers
    assert len({out for out, _ in answers}) == 1
    assert answers[0][0].endswith(" 2.8.0 True\n")
    assert len(index.downloads("torch-*")) == 1
    assert [f.name for f in (home / "envs").iterdir() if f.name.startswith(".")] == []


def test_a_lock_of_a_dead_process_blocks_nobody(make_index: MakeIndex, enter: InIndex, home: Path) -> None:
    enter(make_index(Release("2.8.0")))
    what = source(home)
    environments = Environments(home)
    name, _ = environments.identify(what)
    code = (
        "import sys, time\nsys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\nfrom harness.env import Home\n"
        "lock = Home(Path(sys.argv[2])).lock(sys.argv[3])\nlock.acquire()\n"
        "print('held', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(HERE.parent), str(home), name], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.readline()
    stopped = Environments(home)
    stopped.identify(what)
    threading.Timer(0.3, stopped.uv.stop).start()
    with pytest.raises(SetupError, match="being stopped"), stopped.use(what):
        pass
    child.kill()
    child.wait()
    child.stdout.close()
    with environments.use(what) as env:
        assert env.facts["torch"] == "2.8.0"


def reason_of(environments: Environments, what: Source) -> str:
    with pytest.raises(SetupError) as caught, environments.use(what):
        pass
    return caught.value.message


@pytest.mark.parametrize("fault", ["fail", "cut", "drop", "nonsense"])
def test_an_install_is_tried_again_where_the_network_is_at_fault(
    make_index: MakeIndex, enter: InIndex, home: Path, fault: str
) -> None:
    index = make_index(Release("2.8.0"))
    enter(index)
    what = source(home)
    if fault == "nonsense":
        index.nonsense("/simple/numpy/", times=2)
    else:
        getattr(index, fault)("torch-*.whl", times=2)
    with Environments(home).use(what) as env:
        assert env.facts["torch"] == "2.8.0"


def test_a_network_that_stays_away_is_a_setup_error_with_its_reason(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    index = make_index(Release("2.8.0"))
    enter(index)
    what = source(home)
    environments = Environments(home)
    fault = index.fail("torch-*.whl")
    said = reason_of(environments, what)
    assert fault.hits == 4
    assert "503 Service Unavailable" in said
    assert "127.0.0.1" not in said
    index.heal()
    index.refuse()
    assert "Connection refused" in reason_of(environments, what)
    assert list((home / "envs").iterdir()) == []
    index.accept()
    with environments.use(what) as env:
        assert env.facts["torch"] == "2.8.0"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"damage": Damage.HASH}, "Hash mismatch"),
        ({"damage": Damage.NO_METADATA}, "No .dist-info directory"),
        ({"requires": ("no-such-thing>=1",)}, "no-such-thing was not found"),
    ],
)
def test_what_another_try_would_not_mend_is_tried_once(
    make_index: MakeIndex, enter: InIndex, home: Path, fields: dict[str, Any], said: str
) -> None:
    index = make_index(Release("2.8.0", **fields))
    enter(index)
    assert said in reason_of(Environments(home), source(home))
    assert index.count("torch-*.whl") <= 4  # at most once as of its period and once as of today
    assert list((home / "envs").iterdir()) == []


def test_a_torch_that_cannot_be_imported_still_is_an_environment(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    broken = Package(
        "torch", "2.8.0", "2025-08-06", {"torch/__init__.py": "raise ImportError('no libcudart')\n"}
    )
    index = make_index(Release("2.7.0"))
    enter(index)
    what = source(home)
    index.remove("2.7.0")
    index.add(Package("torch", "2.7.0", "2025-04-23", broken.files))
    with Environments(home).use(what) as env:
        assert env.facts["import_error"] == "no libcudart"


def test_packages_of_a_case_are_installed_and_have_an_environment_of_their_own(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    enter(
        make_index(
            Release("2.8.0"), Package("extra", "1.0", "2024-01-01"), Package("extra", "2.0", "2026-01-01")
        )
    )
    environments = Environments(home)
    with environments.use(source(home, packages=("extra",))) as env, environments.use(source(home)) as plain:
        assert installed(env.facts)["extra"] == "1.0"
        assert "extra" not in installed(plain.facts)
        assert env.folder != plain.folder


def test_a_release_whose_period_has_nothing_that_fits_gets_what_there_is_today(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    enter(make_index(Release("2.8.0", requires=("sympy", "late")), Package("late", "1.0", "2026-11-01")))
    with Environments(home).use(source(home)) as env:
        assert env.facts["resolved"] == "as of today: nothing fits as of 2025-08-07T12:00:00Z"


def test_the_least_recently_used_environment_goes_first_and_none_that_is_in_use(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    size = 3_000_000
    index = make_index(*(Release(f"2.{minor}.0", size=size) for minor in (5, 6, 7, 8)))
    enter(index)
    roomy = Environments(home)
    for text in ("2.5", "2.6", "2.7"):
        with roomy.use(source(home, text)):
            pass
    names = {row["torch"]: row["id"] for row in roomy.listed()}
    for age, text in ((300, "2.6.0"), (200, "2.5.0"), (100, "2.7.0")):
        marker = home / "envs" / names[text] / MARKER
        os.utime(marker, (time.time() - age, time.time() - age))
    foreign = home / "envs" / "someone-elses"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("not ours")
    roomy.home.cache.rename(home / "elsewhere")  # hard links would make the environments weigh nothing
    need = 4 * size + 50_000_000
    tight = Environments(home, budget=disk_usage(home / "envs") + need - size // 2)
    with tight.use(source(home, "2.6")):  # the oldest, now in use
        os.utime(home / "envs" / names["2.6.0"] / MARKER, (1, 1))
        tight.make_room(need)
        left = {row["torch"] for row in tight.listed()}
        assert left == {"2.6.0", "2.7.0", None}
        tight.budget = 1
        tight.make_room(need)
        assert {row["torch"] for row in tight.listed()} == {"2.6.0", None}
    freed, removed = tight.prune(everything=True)
    assert removed == [names["2.6.0"]]
    assert freed > 0
    assert (foreign / "thesis.txt").read_text() == "not ours"


def test_a_disk_without_room_is_said_before_anything_is_made(
    make_index: MakeIndex, enter: InIndex, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(make_index(Release("2.8.0")))
    environments = Environments(home)
    monkeypatch.setattr(environments, "_free", lambda: 1_000_000)
    assert "the disk has 0.0 GB left" in reason_of(environments, source(home))


def test_a_folder_that_cannot_be_written_is_a_setup_error(
    make_index: MakeIndex, enter: InIndex, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enter(make_index(Release("2.8.0")))
    environments = Environments(home)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(environments, "_probe", full)
    assert "cannot be made: No space left on device" in reason_of(environments, source(home))
    monkeypatch.undo()


def test_prune_removes_what_is_half_made_and_the_cache_that_nothing_uses(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    enter(make_index(Release("2.8.0")))
    environments = Environments(home)
    with environments.use(source(home)) as env:
        assert environments.prune()[1] == []
    assert env.folder is not None
    (env.folder / MARKER).unlink()
    assert environments.prune()[1] == [env.id]
    assert not env.folder.exists()


def test_a_python_that_the_user_brings_is_read_and_not_changed(
    make_index: MakeIndex, enter: InIndex, home: Path
) -> None:
    enter(make_index(Release("2.8.0")))
    environments = Environments(home)
    with environments.use(source(home)) as env:
        before = disk_usage(env.python.parent.parent)
        with environments.use(brought(str(env.python))) as own:
            assert own.facts["torch"] == "2.8.0"
            assert own.facts["brought"] is True
            assert own.folder is None
        assert disk_usage(env.python.parent.parent) == before


def test_offline_the_last_listing_is_used_and_said(make_index: MakeIndex, enter: InIndex, home: Path) -> None:
    index = make_index(Release("2.8.0"), Release("2.7.0", yanked="broken"), Release("1.13.0", "2022-10-28"))
    enter(index)
    with pytest.raises(ListingError, match="none is kept from before"):
        list_releases("pypi", home, offline=True)
    fresh = list_releases("pypi", home)
    assert fresh.stale is None
    assert [r.version for r in fresh.releases] == ["2.8.0"]
    assert fresh.left_out == {
        "2.7.0": "yanked: broken",
        "1.13.0": "older than 2.0, the first release with torch.compile",
    }
    index.refuse()
    for offline, why in ((True, "offline was asked for"), (False, "ConnectionError while asking the index")):
        old = list_releases("pypi", home, offline)
        assert (old.releases, old.fetched, old.stale) == (fresh.releases, fresh.fetched, why)
    index.accept()
    index.nonsense("/simple/torch/")
    assert list_releases("pypi", home).stale
    (kept,) = (home / "releases").glob("*.json")
    kept.write_text(json.dumps({"releases": 3}))
    with pytest.raises(ListingError):
        list_releases("pypi", home, offline=True)
