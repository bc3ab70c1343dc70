"""Records are whole or not there, and nothing that was recorded is lost."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.casefile import build_case
from harness.cell import Cell, make_cell
from harness.errors import StoreError
from harness.outcome import ExceptionInfo, Kind, Outcome, Phase
from harness.release import Release, Wheel
from harness.store import SCHEMA, Store, target_facts, target_id
from harness.target import Source, Target
from harness.yamlsource import parse_yaml

HERE = Path(__file__).parent
CASE = b"""
id: stored
title: A case
failure: [{kind: error}]
repros:
  one: {role: trigger, model: "def forward(): return 1"}
  two: {role: control, model: "def forward(): return 2"}
workarounds:
  plain: {entry: eager}
"""
FACTS = {"torch": "2.8.0", "build": "2.8.0+cpu", "channel": "pypi", "device": "cpu", "python": "3.11.7"}
OK = Outcome(kind=Kind.OK, phase=Phase.COMPARE, duration_s=1.5)
BUG = Outcome(
    kind=Kind.ERROR,
    phase=Phase.RUN,
    exceptions=(ExceptionInfo(type="RuntimeError", message="it broke"),),
    exit_code=1,
)


def cell(repro: str = "one", workaround: str | None = None, source: bytes = CASE) -> Cell:
    return make_cell(build_case(parse_yaml(source, "stored.yaml"), HERE), HERE, repro, workaround)


def attempts(store: Store, what: Cell) -> list[Outcome]:
    document = store.load(FACTS, "stored")
    record = document.find(what.repro, what.workaround, what.digest) if document else None
    return record.outcomes if record else []


def test_what_is_added_is_read_back_by_another_store(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), BUG)
    store.add(FACTS, cell(), OK, fresh=False)
    store.add(FACTS, cell("two"), OK)
    store.add(FACTS, cell("one", "plain"), OK)
    again = Store(tmp_path)
    assert attempts(again, cell()) == [BUG, OK]
    assert attempts(again, cell("one", "plain")) == [OK]
    (document,) = again.documents()
    assert document.target == FACTS
    assert document.target_id == "torch-2.8.0-pypi-py3.11-cpu"
    assert document.machine_id == store.machine_id
    assert [a.fresh for a in document.cells[0].attempts] == [True, False]
    assert document.cells[0].attempts[0].recorded.endswith("+00:00")
    assert document.cells[2].spec["entry"] == "eager"
    assert sorted(p.name for p in store.file(FACTS, "stored").parent.iterdir()) == ["stored.json"]


def test_a_rerun_supersedes_and_keeps_what_was_there(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), BUG)
    store.add(FACTS, cell(), OK, again=True)
    store.add(FACTS, cell(), OK)
    assert attempts(store, cell()) == [OK, OK]
    (document,) = store.documents()
    assert [a.outcome for a in document.cells[0].superseded] == [BUG]


def test_an_edited_repro_has_a_record_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), BUG)
    edited = cell(source=CASE.replace(b"return 1", b"return 11"))
    assert attempts(store, edited) == []
    store.add(FACTS, edited, OK)
    assert (attempts(store, cell()), attempts(store, edited)) == ([BUG], [OK])
    (document,) = store.documents()
    newest = document.find("one", None)
    assert newest is not None
    assert newest.digest == edited.digest


def test_what_says_nothing_gives_way_to_what_says_something(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for reason in ("first", "second"):
        store.add(FACTS, cell(), Outcome(kind=Kind.SETUP, phase=Phase.INSTALL, reason=reason))
    assert [o.reason for o in attempts(store, cell())] == ["second"]
    store.add(FACTS, cell(), OK)
    assert attempts(store, cell()) == [OK]


def test_a_record_of_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), OK)
    file = store.file(FACTS, "stored")
    file.write_text(file.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {SCHEMA + 1}'))
    before = file.read_bytes()
    for act in (lambda: store.load(FACTS, "stored"), lambda: list(store.documents())):
        with pytest.raises(StoreError, match="written by a newer harness") as caught:
            act()
        assert caught.value.hint
    with pytest.raises(StoreError):
        store.add(FACTS, cell(), OK)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"schema": 1}', '{"schema": "x"}', '{"schema": 1, "cells": [{}]}', "\x00" * 50,
     '{"schema": 1, "case": "stored", "machine": {}, "target": {}, "cells": [{"repro": 1}]}', "[" * 100_000,
     '{"schema": 1, "case": "stored", "machine": 3, "target": {}, "cells": []}'],
)  # fmt: skip
def test_a_corrupt_record_is_named_set_aside_and_run_again(tmp_path: Path, text: str) -> None:
    store = Store(tmp_path)
    file = store.file(FACTS, "stored")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    assert list(store.documents()) == []
    assert len(store.problems) == 1
    assert str(file) in store.problems[0]
    assert attempts(store, cell()) == []
    store.add(FACTS, cell(), OK)
    assert attempts(store, cell()) == [OK]
    assert file.with_name("stored.json.corrupt").read_text() == text
    assert any("set aside as stored.json.corrupt" in problem for problem in store.problems)
    file.write_text("{")
    store.add(FACTS, cell(), OK)
    assert file.with_name("stored.json.corrupt2").read_text() == "{"


def test_a_record_cut_short_is_not_taken_for_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), BUG)
    whole = store.file(FACTS, "stored").read_bytes()
    for cut in range(0, len(whole) - 2, 37):
        store.file(FACTS, "stored").write_bytes(whole[:cut])
        assert Store(tmp_path).load(FACTS, "stored") is None


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add(FACTS, cell(), OK)
    left = store.file(FACTS, "stored").with_name(".stored.json.99999.part")
    left.write_text("half")
    store.add(FACTS, cell("two"), OK)
    assert not left.exists()


def test_a_folder_that_cannot_be_written_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "records").write_text("a file in the way")
    with pytest.raises(StoreError, match="cannot be written: Not a directory") as caught:
        Store(tmp_path / "records").add(FACTS, cell(), OK)
    assert "what ran before is kept" in (caught.value.hint or "")


WRITER = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_store import *
store = Store(Path(sys.argv[1]))
for number in range(15):
    store.add(FACTS, cell(), Outcome(kind=Kind.OK, phase=Phase.RUN, reason=f"{sys.argv[2]}-{number}"))
"""


def test_two_writers_lose_nothing_and_leave_no_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    paths = [str(HERE), str(HERE.parent)]
    writers = [subprocess.Popen([*command, name, *paths]) for name in ("one", "two")]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    store = Store(tmp_path)
    said = [o.reason for o in attempts(store, cell())]
    assert sorted(said, key=str) == sorted(f"{name}-{n}" for name in ("one", "two") for n in range(15))
    assert [r for r in said if str(r).startswith("one")] == [f"one-{n}" for n in range(15)]
    assert os.listdir(store.file(FACTS, "stored").parent) == ["stored.json"]  # noqa: PTH208


def test_records_of_several_machines_merge_by_copying(tmp_path: Path) -> None:
    mine, theirs = Store(tmp_path / "mine"), Store(tmp_path / "theirs")
    theirs.machine_id = "another-machine"
    mine.add(FACTS, cell(), OK)
    theirs.add(FACTS, cell(), BUG)
    theirs.add({**FACTS, "device": "cuda"}, cell(), BUG)
    shutil.copytree(theirs.root, mine.root, dirs_exist_ok=True)
    found = {(d.machine_id, d.target_id): d.cells[0].outcomes[0] for d in mine.documents()}
    assert found == {
        (mine.machine_id, "torch-2.8.0-pypi-py3.11-cpu"): OK,
        ("another-machine", "torch-2.8.0-pypi-py3.11-cpu"): BUG,
        ("another-machine", "torch-2.8.0-pypi-py3.11-cuda"): BUG,
    }


def test_a_target_is_named_by_what_runs_and_by_no_path() -> None:
    release = Release(
        "2.8.0", "2025-08-06T00:00:00+00:00", (Wheel("torch-2.8.0-cp311-cp311-linux_x86_64.whl"),)
    )
    facts = target_facts(Target(Source("cpu", release), "cpu"), {"torch": "2.8.0+cpu", "python": "3.11.7"})
    assert target_id(facts) == "torch-2.8.0-cpu-py3.11-cpu"
    assert facts["release_date"] == "2025-08-06T00:00:00+00:00"
    house = target_facts(Target(Source("wheelhouse:/some/where", release), "cuda"), {})
    assert target_id(house) == "torch-2.8.0-wheelhouse-pynone-cuda"
    own = Target(Source("interpreter", interpreter="/my/python"), "cpu")
    brought = target_facts(own, {"torch": "2.9.0a0+git", "brought": True, "git_version": "abcdef123456"})
    assert target_id(brought) == "torch-2.9.0a0-brought-abcdef12-pynone-cpu"
    assert "/my/python" not in json.dumps(brought)


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OUTCOMES = st.builds(
    Outcome,
    kind=st.sampled_from([k for k in Kind if k not in (Kind.SETUP, Kind.SKIPPED)]),
    phase=st.sampled_from(list(Phase)),
    reason=st.none() | TEXT,
    exceptions=st.lists(st.builds(ExceptionInfo, type=TEXT, message=TEXT, link=TEXT), max_size=3).map(tuple),
    exit_code=st.none() | st.integers(0, 255),
    signal=st.none() | TEXT,
    duration_s=st.floats(0, 1e6),
    stderr_tail=TEXT,
    stdout_tail=TEXT,
    output=PLAIN,
    detail=st.dictionaries(TEXT, PLAIN, max_size=2),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(made=st.lists(OUTCOMES, min_size=1, max_size=4))
def test_any_outcome_comes_back_as_it_was(
    made: list[Outcome], tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("records")
    store = Store(root)
    for outcome in made:
        store.add(FACTS, cell(), outcome)
    assert attempts(Store(root), cell()) == made
    shutil.rmtree(root)


def test_the_reader_takes_any_json_for_a_record_or_a_problem(tmp_path: Path) -> None:
    @settings(max_examples=300, deadline=None)
    @given(value=st.dictionaries(st.sampled_from(["schema", "case", "machine", "target", "cells"]), PLAIN))
    def check(value: dict[str, Any]) -> None:
        store = Store(tmp_path)
        file = store.file(FACTS, "stored")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"schema": 1, "case": "stored", "machine": {}, "target": {}, **value}))
        try:
            found = list(store.documents())
        except StoreError as error:
            assert "newer harness" in error.message  # noqa: PT017
        else:
            assert len(found) + len(store.problems) == 1

    check()
