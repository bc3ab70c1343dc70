"""The main job, as a command: right verdicts, nothing run twice, nothing left when it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from conftest import MakeIndex
from fakeindex import Bug, Damage, FakeIndex, error, flaky, history

from harness.casefile import load_corpus
from harness.judge import judge_all
from harness.outcome import Outcome
from harness.store import Store

CASE = """\
id: main
title: "A made-up case"
failure: [{kind: error, message: 'the bug'}]
repros:
  shows:
    role: trigger
    model: |
      import os, time
      def forward(x):
          time.sleep(float(os.environ.get("FAKE_STATE", "").partition("#")[2] or 0))
          return torch.fake.maybe("bug", x + 1)
    inputs: {x: {shape: [2]}}
  comes-and-goes:
    role: trigger
    model: |
      def forward(x):
          return torch.fake.maybe("now-and-then", x + 1)
    inputs: {x: {shape: [2]}}
    trials: 3
  steady:
    role: control
    model: |
      def forward(x):
          return torch.fake.maybe("broken", x + 1)
    inputs: {x: {shape: [2]}}
  blamed:
    role: claimed
    model: |
      def forward(x):
          return x * 2
    inputs: {x: {shape: [2]}}
workarounds:
  helps: {compile: {backend: eager}, applies_to: [shows]}
  useless: {config: {torch._inductor.config.epilogue_fusion: false}, applies_to: [shows]}
  refused: {compile: {options: {no_such: true}}, applies_to: [shows]}
  worse:
    applies_to: [shows]
    model: |
      def forward(x):
          if torch._dynamo.is_compiling():
              raise ValueError("something else")
          return x
"""

BUGS = {
    "bug": Bug("2.5.0", "2.8.0", error("the bug")),
    "now-and-then": Bug("2.6.0", "2.7.0", flaky(error("the bug"), attempts=[1])),
    "broken": Bug("2.7.0", "2.8.0", error("all is broken")),
}
RELEASES = ["2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0"]


@dataclass
class Work:
    """A folder with a corpus, records and environments, and the command on it."""

    folder: Path
    index: FakeIndex

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "harness", "matrix", "--torch", ",".join(RELEASES), "-j", "2", *more]

    def environ(self) -> dict[str, str]:
        path = str(Path(__file__).parent.parent)
        return {**self.index.env(retries=0), "HARNESS_HOME": str(self.folder / "home"), "PYTHONPATH": path}

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*more),
            env=self.environ(),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
        )

    def verdicts(self) -> dict[str, str]:
        """``release repro[+workaround]`` to verdict."""
        rows = judge_all(Store(self.folder / "results" / "records"), load_corpus(self.folder / "cases"))
        return {
            f"{r.torch} {r.repro}" + (f"+{r.workaround}" if r.workaround else ""): r.verdict for r in rows
        }

    def attempts(self) -> dict[str, list[tuple[str, Outcome]]]:
        """Every recorded attempt with its time, by cell."""
        found = {}
        for document in Store(self.folder / "results" / "records").documents():
            for cell in document.cells:
                name = f"{document.target['torch']} {cell.repro}+{cell.workaround}"
                assert not cell.superseded
                found[name] = [(a.recorded, a.outcome) for a in cell.attempts]
        return found

    def processes(self) -> list[str]:
        """What runs out of this folder."""
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            line = " ".join(process.info["cmdline"] or [])
            if str(self.folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(line)
        return found

    def leftovers(self) -> list[Path]:
        """Files and folders that only a run in progress has."""
        home, results = self.folder / "home", self.folder / "results"
        return [*(home / "attempts").iterdir(), *(home / "envs").glob(".*"), *results.rglob("*.part")]


Start = Callable[..., Work]


@pytest.fixture
def start(make_index: MakeIndex, tmp_path: Path) -> Start:
    """A corpus of one case over five releases, of which one cannot be installed if asked for."""

    def make(damaged: str | None = None) -> Work:
        change = {damaged: {"damage": Damage.HASH}} if damaged else {}
        index = make_index(*(r for r in history(bugs=BUGS, change=change) if r.version in RELEASES))
        (tmp_path / "cases").mkdir()
        (tmp_path / "cases" / "main.yaml").write_text(CASE)
        return Work(tmp_path, index)

    return make


def test_the_matrix_finds_what_each_release_has_and_a_rerun_runs_nothing(start: Start) -> None:
    work = start(damaged="2.4.1")
    done = work.run()
    assert done.returncode == 0, done.stderr
    assert work.verdicts() == {
        "2.8.0 shows": "clean",
        "2.8.0 comes-and-goes": "clean",
        "2.8.0 steady": "clean",
        "2.8.0 blamed": "clean",
        **{f"2.8.0 shows+{name}": "moot" for name in ("helps", "useless", "refused", "worse")},
        # The control fails: nothing is concluded, and no workaround is run.
        "2.7.1 shows": "unknown",
        "2.7.1 comes-and-goes": "unknown",
        "2.7.1 steady": "other",
        "2.7.1 blamed": "unknown",
        **{f"2.7.1 shows+{name}": "unknown" for name in ("helps", "useless", "refused", "worse")},
        "2.6.0 shows": "bug",
        "2.6.0 comes-and-goes": "bug",
        "2.6.0 steady": "clean",
        "2.6.0 blamed": "clean",
        "2.6.0 shows+helps": "holds",
        "2.6.0 shows+useless": "fails",
        "2.6.0 shows+refused": "rejected",
        "2.6.0 shows+worse": "breaks",
        "2.5.1 shows": "bug",
        "2.5.1 comes-and-goes": "clean",
        "2.5.1 steady": "clean",
        "2.5.1 blamed": "clean",
        "2.5.1 shows+helps": "holds",
        "2.5.1 shows+useless": "fails",
        "2.5.1 shows+refused": "rejected",
        "2.5.1 shows+worse": "breaks",
        # It cannot be installed, which ends nothing and is no bug.
        "2.4.1 shows": "unknown",
        "2.4.1 comes-and-goes": "unknown",
        "2.4.1 steady": "unknown",
        "2.4.1 blamed": "unknown",
        **{f"2.4.1 shows+{name}": "unknown" for name in ("helps", "useless", "refused", "worse")},
    }
    assert "torch 2.4.1: no environment: " in done.stderr
    assert "Hash mismatch" in done.stderr
    assert work.index.attempts("now-and-then", "2.6.0") == 3
    before = work.attempts()
    assert len(before["2.6.0 comes-and-goes+None"]) == 3
    assert len(before["2.6.0 shows+None"]) == 1
    assert not [name for name in before if name.startswith(("2.8.0 shows+h", "2.7.1 shows+h"))]
    assert work.leftovers() == []

    again = work.run()
    assert again.returncode == 0
    assert "4 cells run" in again.stderr or "0 cells run" in again.stderr  # the release without environment
    after = work.attempts()
    assert {k: v for k, v in after.items() if not k.startswith("2.4.1")} == {
        k: v for k, v in before.items() if not k.startswith("2.4.1")
    }
    assert work.index.attempts("now-and-then", "2.6.0") == 3

    more = work.run("--trials", "2", "--torch", "2.8.0")
    assert more.returncode == 0
    assert len(work.attempts()["2.8.0 shows+None"]) == 2
    assert len(work.attempts()["2.8.0 comes-and-goes+None"]) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_stopped_loses_nothing_and_a_rerun_completes_it(
    start: Start, number: signal.Signals
) -> None:
    work = start()
    runner = subprocess.Popen(
        work.command(), env=work.environ(), cwd=work.folder, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 120
    while time.monotonic() < end and sum(map(len, work.attempts().values())) < 8:
        time.sleep(0.02)
    runner.send_signal(number)
    _, said = runner.communicate(timeout=60)
    if number is signal.SIGKILL:
        assert runner.returncode == -9
    else:
        assert runner.returncode == 130, said
        assert "interrupted; all that ran is kept. To go on:" in said
        assert said.splitlines()[-1] == "  harness matrix --torch " + ",".join(RELEASES) + " -j 2"
        assert "Traceback" not in said
        assert work.leftovers() == []
    end = time.monotonic() + 15
    while time.monotonic() < end and work.processes():
        time.sleep(0.05)
    assert work.processes() == []
    before = work.attempts()
    assert sum(map(len, before.values())) >= 8

    done = work.run()
    assert done.returncode == 0, done.stderr
    after = work.attempts()
    for name, attempts in before.items():
        assert after[name][: len(attempts)] == attempts, name
    wanted = {name: 3 if "comes-and-goes" in name else 1 for name in after}
    assert {name: len(attempts) for name, attempts in after.items()} == wanted
    assert len(after) == 5 * 4 + 2 * 4  # repros everywhere, workarounds on two releases
    assert work.index.attempts("now-and-then", "2.6.0") <= 3 + 2  # two were perhaps under way
    assert work.leftovers() == []
    assert work.processes() == []


def test_two_runs_at_once_share_environments_and_lose_no_record(start: Start) -> None:
    work = start()
    both = [
        subprocess.Popen(
            work.command("--torch", "2.6.0,2.8.0"),
            env=work.environ(), cwd=work.folder, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    said = [one.communicate(timeout=120)[1] for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    assert len(work.index.downloads("torch-2.8.0-*")) == 1
    verdicts = work.verdicts()
    assert verdicts["2.6.0 shows"] == "bug"
    assert verdicts["2.8.0 shows"] == "clean"
    assert len(work.attempts()) == 2 * 4 + 4
    assert work.leftovers() == []


def test_a_store_that_cannot_be_written_ends_the_run_in_one_sentence(start: Start) -> None:
    work = start()
    (work.folder / "results").write_text("a file in the way")
    done = work.run("--torch", "2.8.0")
    assert done.returncode == 2, done.stderr
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert work.processes() == []
    assert os.listdir(work.folder / "home" / "attempts") == []  # noqa: PTH208
