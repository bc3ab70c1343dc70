"""What a user types wrongly is answered with one sentence, a hint and exit code 2."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fakeindex import FakeIndex, history

from harness.cli import main

ROOT = Path(__file__).parent.parent


@dataclass
class Shell:
    """The command, seeing a fake index and the project's own corpus."""

    index: FakeIndex
    home: Path

    def environ(self) -> dict[str, str]:
        return {
            **self.index.env(retries=0),
            "HARNESS_HOME": str(self.home),
            "PYTHONPATH": str(ROOT),
            "COLUMNS": "200",
        }

    def run(self, *arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "harness", *arguments],
            env=self.environ(),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    work = tmp_path_factory.mktemp("cli")
    with FakeIndex(history("2.7.0", "2.9.0"), work=work / "index") as index:
        yield Shell(index, work / "home")


WRONG = {
    "matrix no-such-case": "no case is named 'no-such-case'",
    "matrix pytorch-18822": "did you mean pytorch-188227?",
    "matrix --torch two": "'two' is no release or range of releases",
    "matrix --torch 2.9..2.7": "runs backwards",
    "matrix --torch 9.9": "no release of channel 'pypi' is in '9.9'",
    "matrix --device tpu": "no device is named 'tpu'",
    "matrix --device ,": "no device is given",
    "matrix --channel conda": "no channel is named 'conda'",
    "matrix --channel wheelhouse:/no/such": "/no/such is no folder",
    "matrix --interpreter /no/such/python": "is no program that can be run",
    "matrix -j 0": "Invalid value for '-j'",
    "matrix -j many": "Invalid value for '-j'",
    "matrix --trials -1": "Invalid value for '--trials'",
    "matrix --timeout 0": "Invalid value for '--timeout'",
    "matrix --cases /no/such": "/no/such: holds no case",
    "matrix --no-such-option": "No such option",
    "matrix cases/none.yaml": "cases/none.yaml: cannot be read: No such file",
    "run nothing/at-all": "no case is named 'nothing'",
    "run pytorch-188227/nothing": "has no repro 'nothing'",
    "run pytorch-188227/zero-rows+nothing": "has no workaround 'nothing'",
    "run pytorch-188227/legal-strides+export": "is not for repro 'legal-strides'",
    "run": "Missing argument",
    "no-such-command": "No such command",
}


@pytest.mark.parametrize("typed", WRONG)
def test_a_wrong_value_is_answered_with_one_sentence_and_exit_code_2(
    typed: str,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["harness", *typed.split()])
    monkeypatch.chdir(ROOT)
    for name, value in shell.environ().items():
        monkeypatch.setenv(name, value)
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as caught:
        main()
    signal.signal(signal.SIGTERM, before)
    out, err = capfd.readouterr()
    said = " ".join(err.replace("│", " ").split())
    assert caught.value.code == 2, said
    assert WRONG[typed] in said
    assert "Traceback" not in err
    assert "bug of the harness" not in said
    assert out == ""
    assert len(said) < 1500


def test_a_malformed_case_is_answered_with_file_line_and_key(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "bad.yaml").write_text("id: bad\ntitle: Bad\nrepross: {}\n")
    done = shell.run("matrix", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: cases/bad.yaml:3: repross: unknown key 'repross'",
        "  did you mean repros?",
    ]


def test_without_network_and_listing_the_run_says_so(shell: Shell, tmp_path: Path) -> None:
    done = Shell(shell.index, tmp_path / "fresh").run("matrix", "--offline")
    assert done.returncode == 4
    assert "none is kept from before" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_says_what_the_exit_codes_mean(shell: Shell) -> None:
    done = shell.run("--help")
    assert done.returncode == 0
    assert "130 interrupted" in " ".join(done.stdout.replace("│", " ").split())
