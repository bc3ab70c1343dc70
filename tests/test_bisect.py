"""The bisect command as a user types it, over fake releases of torch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import MakeIndex
from fakeindex import (
    Bug,
    Damage,
    FakeIndex,
    Release,
    crash,
    error,
    flaky,
    history,
    missing_operator,
    nightlies,
)

HARNESS = Path(sys.executable).parent / "harness"
SCRIPT = """\
import torch
x = torch.fake.maybe("bug", torch.ones(3), compiled=True)
print(torch.__version__)
"""
CASE = """\
id: fake-1
title: a fake bug
failure:
  - {kind: error, exception: RuntimeError, message: 'Expected result >= 0'}
repros:
  shows:
    role: trigger
    model: |
      def forward(x):
          return torch.fake.maybe("bug", x + 1)
    inputs: {x: {shape: [4]}}
  plain:
    role: control
    model: |
      def forward(x):
          return torch.fake.maybe("control", x + 1)
    inputs: {x: {shape: [4]}}
workarounds:
  eager-backend: {compile: {backend: eager}}
  useless: {config: {torch._dynamo.config.cache_size_limit: 9}}
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with a script and a corpus."""
    (tmp_path / "repro.py").write_text(SCRIPT)
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "fake-1.yaml").write_text(CASE)
    return tmp_path


def environment(index: FakeIndex, here: Path) -> dict[str, str]:
    return {**index.env(retries=0), "HARNESS_HOME": str(here / "home")}


def bisect(index: FakeIndex, here: Path, *args: str, code: int = 0) -> Any:
    """The command's JSON; its exit code is checked."""
    done = subprocess.run(
        [str(HARNESS), "bisect", *args, "--format", "json"],
        env=environment(index, here), cwd=here, capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert done.returncode == code, done.stderr[-3000:]
    return json.loads(done.stdout) if done.stdout else None


def ends(report: dict[str, Any]) -> tuple[str | None, str | None]:
    before, after = report["before"], report["after"]
    return before and before["torch"], after and after["torch"]


def test_a_window_with_both_ends_clean_is_found_with_its_commits(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.9.0", "2.10.0")))
    introduced, fixed = bisect(index, here, "repro.py", "--fails-with", "Expected result")
    assert ends(introduced) == ("2.8.0", "2.9.0")
    assert ends(fixed) == ("2.9.1", "2.10.0")
    before, after = index["2.8.0"], index["2.9.0"]
    assert isinstance(before, Release)
    assert isinstance(after, Release)
    assert introduced["after"]["git_version"] == after.git_version
    assert before.git_version in introduced["compare"]
    assert introduced["confidence"] >= 0.95


def test_what_is_on_record_is_not_run_again(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.6.0", None)))
    first = bisect(index, here, "repro.py", "--find", "introduced")
    index.forget()
    again = bisect(index, here, "repro.py", "--find", "introduced")
    assert ends(first) == ends(again) == ("2.5.1", "2.6.0")
    assert first["runs"] > 0
    assert (again["runs"], again["installed"]) == (0, 0)
    assert not index.downloads()


def test_not_fixed_and_everywhere_are_answers(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.0.0", None)))
    introduced, fixed = bisect(index, here, "repro.py", "--torch", "2.10..")
    assert introduced["kind"] == "in every candidate that can run it"
    assert fixed["kind"] == "not fixed as of the newest"
    assert fixed["last_with"]["torch"] == "2.15.0"


def test_a_release_that_cannot_be_installed_widens_the_range(make_index: MakeIndex, here: Path) -> None:
    change: dict[str, dict[str, Any]] = {"2.8.0": {"damage": Damage.TRUNCATED}}
    index = make_index(*history(bug=("2.8.0", None), change=change))
    report = bisect(index, here, "repro.py", "--find", "introduced", "--torch", "2.5..2.10")
    assert ends(report) == ("2.7.1", "2.9.0")
    assert report["hidden"] == ["2.8.0"]


def test_a_release_without_the_operator_is_neither_bug_nor_clean(make_index: MakeIndex, here: Path) -> None:
    bugs = {"bug": [Bug("2.0.0", "2.3.0", missing_operator()), Bug("2.3.0", "2.6.0", error("boom"))]}
    index = make_index(*history(bugs=bugs))
    introduced, fixed = bisect(index, here, "repro.py", "--torch", "..2.8")
    assert introduced["kind"] == "in every candidate that can run it"
    assert introduced["first_with"]["torch"] == "2.3.0"
    assert ends(fixed) == ("2.5.1", "2.6.0")
    assert any("Lacks what is used" in note for note in introduced["notes"])


def test_a_signal_is_told_from_another_failure(make_index: MakeIndex, here: Path) -> None:
    bugs = {"bug": [Bug("2.2.0", "2.5.0", error("unrelated")), Bug("2.5.0", "2.7.0", crash("SIGFPE"))]}
    index = make_index(*history(bugs=bugs))
    report = bisect(index, here, "repro.py", "--signal", "SIGFPE", "--find", "fixed", "--torch", "2.4..2.9")
    assert ends(report) == ("2.6.0", "2.7.0")
    introduced = bisect(
        index, here, "repro.py", "--signal", "SIGFPE", "--find", "introduced", "--torch", "2.2..2.6"
    )
    assert introduced["first_with"]["torch"] == "2.5.0"
    assert introduced["before"] is None, "what failed otherwise must not count as clean"


def test_a_flaky_bug_is_found(make_index: MakeIndex, here: Path) -> None:
    bugs = {"bug": [Bug("2.6.0", None, flaky(error("now and then"), p=0.6))]}
    index = make_index(*history(bugs=bugs))
    report = bisect(
        index, here, "repro.py", "--find", "introduced", "--good", "2.2.0", "--bad", "2.9.1",
        "--torch", "2.2..2.9", "--confirm", "4",
    )  # fmt: skip
    low, high = ends(report)
    likely = report["likely"] or [low, high]
    assert (low, high) == ("2.5.1", "2.6.0") or likely[0] <= "2.5.1" <= "2.6.0" <= likely[1]


def test_a_command_runs_with_the_python_of_each_release(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.7.0", None)))
    done = subprocess.run(
        [str(HARNESS), "bisect", "--find", "introduced", "--torch", "2.5..2.8", "--format", "json",
         "--", "{python}", "repro.py"],
        env=environment(index, here), cwd=here, capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert ends(json.loads(done.stdout)) == ("2.6.0", "2.7.0")


def test_a_case_and_its_workarounds_bisect_from_the_same_records(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.6.0", "2.9.0")))
    introduced, fixed = bisect(index, here, "fake-1/shows", "--torch", "2.4..2.10")
    assert ends(introduced) == ("2.5.1", "2.6.0")
    assert ends(fixed) == ("2.8.0", "2.9.0")
    works = bisect(index, here, "fake-1/shows+eager-backend", "--find", "introduced", "--torch", "2.4..2.10")
    assert works["kind"] == "never seen"
    fails = bisect(index, here, "fake-1/shows+useless", "--find", "fixed", "--torch", "2.6..2.8")
    assert fails["kind"] == "not fixed as of the newest"


def test_a_failing_control_concludes_nothing(make_index: MakeIndex, here: Path) -> None:
    bugs = {"bug": [Bug("2.6.0", None, error())], "control": [Bug("2.7.0", "2.8.0", error("broken"))]}
    index = make_index(*history(bugs=bugs))
    report = bisect(index, here, "fake-1/shows", "--find", "introduced", "--torch", "2.5..2.7", "--scan")
    table = {row["torch"]: row["answer"] for row in report["table"]}
    assert table["2.6.0"] == "bug"
    assert table["2.7.0"] == table["2.7.1"] == "unknown"


def test_interrupted_it_says_how_to_go_on_and_goes_on(make_index: MakeIndex, here: Path) -> None:
    index = make_index(*history(bug=("2.6.0", None)))
    (here / "slow.py").write_text("import time\ntime.sleep(1)\n" + SCRIPT)
    command = [str(HARNESS), "bisect", "slow.py", "--find", "introduced"]
    with subprocess.Popen(
        command,
        env=environment(index, here),
        cwd=here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        records = here / "home" / "scripts" / "records"
        end = time.monotonic() + 400  # a busy host makes an environment in half a minute
        while len(list(records.glob("*/*/*.json"))) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, stderr = process.communicate(timeout=200)
    assert process.returncode == 130
    assert "To go on:" in stderr
    seen = len(list(records.glob("*/*/*.json")))
    assert seen >= 2
    report = bisect(index, here, "slow.py", "--find", "introduced")
    assert ends(report) == ("2.5.1", "2.6.0")
    assert sum(row["recorded"] for row in report["table"]) >= 2


def test_records_of_another_machine_and_channel_answer_with_nothing_run(
    make_index: MakeIndex, here: Path
) -> None:
    index = make_index(*history(bug=("2.9.0", "2.10.0")))
    live = bisect(index, here, "fake-1/shows", "--torch", "2.7..2.11")
    (machine,) = (here / "results/records").iterdir()
    machine.rename(machine.with_name("a-machine-elsewhere"))
    for target in machine.with_name("a-machine-elsewhere").iterdir():
        target.rename(target.with_name(target.name.replace("pypi", "wheelhouse")))
    index.forget()
    recorded = bisect(index, here, "fake-1/shows", "--torch", "2.7..2.11", "--recorded")
    for one, other in zip(live, recorded, strict=True):
        assert ends(one) == ends(other)
        assert other["runs"] == other["installed"] == 0
    assert not index.downloads()
    nothing = bisect(index, here, "fake-1/shows+useless", "--recorded", "--find", "fixed", code=3)
    assert nothing["runs"] == 0


def test_nightlies_narrow_a_range_to_a_day(make_index: MakeIndex, here: Path) -> None:
    builds = nightlies("2026-11-01", 20, bug=("2026-11-09", None), vanished=["2026-11-05"])
    index = make_index(*history(), *builds)
    env = {
        **environment(index, here),
        "HARNESS_PYTORCH_INDEX": index.channel_url("nightly/cpu").split("/nightly")[0],
    }
    done = subprocess.run(
        [str(HARNESS), "bisect", "repro.py", "--channel", "nightly/cpu", "--find", "introduced",
         "--format", "json"],
        env=env, cwd=here, capture_output=True, text=True, timeout=800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    before, after = ends(json.loads(done.stdout))
    assert (before, after) is not None
    assert "20261108" in str(before)
    assert "20261109" in str(after)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["nowhere.py"], "nowhere.py is no file"),
        (["repro.py", "--fails-with", "("], "no regular expression"),
        (["repro.py", "--signal", "SIGNOPE"], "is no signal"),
        (["repro.py", "--find", "both-ways"], "--find is introduced, fixed or both"),
        (["repro.py", "--good", "1.2.3"], "is not among the candidates"),
        (["repro.py", "--good", "2.9.1", "--bad", "2.2.0", "--find", "introduced"], "good before bad"),
        (["repro.py", "--torch", "9.."], "no release of channel"),
        (["repro.py", "--env", "nonsense"], "not of the form NAME=VALUE"),
        (["fake-2"], "no case is named"),
        (["fake-1/shows+nothing"], "no workaround 'nothing'"),
    ],
)
def test_bad_input_gets_one_sentence(make_index: MakeIndex, here: Path, args: list[str], says: str) -> None:
    index = make_index(*history())
    done = subprocess.run(
        [str(HARNESS), "bisect", *args],
        env=environment(index, here), cwd=here, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
