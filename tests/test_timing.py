"""Timings: formulas, plans, records, the table, the rule of 'no difference', charts. No test asserts
a time."""

from __future__ import annotations

import contextlib
import json
import math
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from filelock import FileLock
from hypothesis import given
from hypothesis import strategies as st

from harness.case import Case
from harness.env import Environment
from harness.errors import StoreError, UsageError
from harness.formula import evaluate
from harness.outcome import Kind, Outcome, Phase
from harness.report.timing_charts import timing_charts
from harness.report.timing_files import to_csv, write_timings
from harness.run import Request, Server
from harness.target import Source, Target
from harness.timing import Summary, TimingOptions, measure, run_timings
from harness.timingframe import COLUMNS, frame, ratio, rows_of, timing_frame
from harness.timingplan import TimingCell, plan
from harness.timingstore import TimingDocument, TimingStore
from harness.worker.steady import Clock, Steady, quartiles, summary, wanted_sets
from harness.worker.timing import MARK

Json = dict[str, Any]
Start = Callable[..., tuple[Summary, list[str]]]
NAMES = {"b": 2, "m": 128, "k": 64, "n": 32, "itemsize": 4}


def make_case(**timing: Any) -> Case:
    """A case with one timing, ``bmm``."""
    given: Json = {
        "model": "def forward(x, y):\n    return torch.bmm(x, y)\n",
        "inputs": {"x": {"shape": ["b", "m", "k"]}, "y": {"shape": ["b", "k", "n"], "dtype": "float64"}},
        "sizes": {name: {"b": 2, "m": 2**i, "k": 4, "n": 3} for i, name in enumerate("abcdef")},
        "dtypes": ["float32", "bfloat16"],
        "variants": {"eager": {"entry": "eager"}, "default": {}, "clone": {"against": "default"}},
        "flops": "2*b*m*k*n",
        "bytes": "(b*m*k + b*k*n + b*m*n)*itemsize",
        **timing,
    }
    return Case.model_validate(
        {
            "id": "some-bug", "title": "t", "devices": ["cpu", "cuda"], "failure": [{"kind": "error"}],
            "repros": {"a": {"role": "trigger", "model": "def forward(x):\n    return x\n"}},
            "timings": {"bmm": given},
        }
    )  # fmt: skip


SIZES = {
    "article": (2, 4, 8, 3), "issue": (2, 128, 128, 128), "decode": (32, 1, 128, 1024),
    "scores": (32, 512, 64, 512), "square": (4, 1024, 1024, 1024),
}  # fmt: skip
SPEED = {
    "eager": 1.0,
    "default": 1.0,
    "reduce-overhead": 0.8,
    "max-autotune": 0.7,
    "template-cache-off": 0.95,
}
LOSES = ("max-autotune",)  # the variant that fails on an affected release


def synthetic_cell(size: str, dtype: str, device: str, affected: bool, seed: int = 0) -> Json:
    """One cell's record as the harness writes it, with made-up times."""
    draw = random.Random(f"{size}{dtype}{seed}")
    b, m, k, n = SIZES[size]
    item = 4 if dtype == "float32" else 2
    flops, data = 2 * b * m * k * n, (b * m * k + b * k * n + b * m * n) * item
    peak, band = (5e13 if item == 4 else 7e14, 4e12) if device == "cuda" else (1e11, 1e10)
    device_s = max(flops / peak, data / band) / 0.6 + 2e-6
    variants: list[Json] = []

    def clocks(factor: float) -> Json:
        launch = 2.5e-5 * factor if device == "cuda" else 0.0
        times = [max(launch, device_s * factor) * math.exp(draw.gauss(0, 0.02)) for _ in range(20)]
        found: Json = {"call": summary(times)}
        if device == "cuda":
            found["device"] = summary([device_s * factor * math.exp(draw.gauss(0, 0.01)) for _ in range(20)])
            found["host"] = summary([2.5e-5 * factor] * 20)
        return found

    for name, factor in SPEED.items():
        item_: Json = {"name": name, "cold": name != "eager", "graphs": int(name != "eager")}
        if affected and name in LOSES:
            chain = [{"type": "TypeError", "message": "launcher() got multiple values", "link": "raised"}]
            item_.update(kind="error", phase="run", exceptions=chain)
        else:
            first = 0.01 if name == "eager" else 3 * math.exp(draw.gauss(0, 0.5))
            item_.update(kind="ok", phase="run", first_call_s=first, rel_error=2e-7, error_limit=1e-3)
            item_.update(clocks(factor))
        variants.append(item_)
    limit = {"product": {"flops_per_s": summary([peak])}, "copy": {"bytes_per_s": summary([band])}}
    against = {"template-cache-off": "max-autotune"}
    return {
        "timing": "bmm", "size": size, "dims": dict(zip("bmkn", SIZES[size], strict=True)), "dtype": dtype,
        "digest": "0" * 16, "flops": flops, "bytes": data, "recorded": "2026-11-30T00:00:00+00:00",
        "spec": {"variants": [{"name": n, "against": against.get(n)} for n in SPEED]},
        "kind": "ok", "phase": "run", "reason": None, "exceptions": [],
        "conditions": {"load_before": 0.1, "threads": 2, "cold": True}, "limits": [limit, limit],
        "reference": "eager", "again": {**clocks(1.0), "of": "eager"}, "variants": variants,
    }  # fmt: skip


def synthetic_documents() -> list[TimingDocument]:
    """CPU and CUDA, several releases, one of them affected."""
    found = []
    for device, machine in (("cpu", "linux-some-cpu"), ("cuda", "linux-some-cpu-nvidia-h200")):
        for number, torch in enumerate(("2.9.0", "2.10.0", "2.11.0", "2.12.1", "2.13.0")):
            cells = [
                synthetic_cell(size, dtype, device, torch == "2.11.0" and device == "cuda", number)
                for size in SIZES
                for dtype in ("float32", "bfloat16")
            ]
            target = {"torch": torch, "build": f"{torch}+cu130", "device": device}
            found.append(TimingDocument("some-bug", machine, f"torch-{torch}", {}, target, cells))
    return found


class TestFormulas:
    def test_values_are_those_of_arithmetic(self) -> None:
        assert evaluate("2*b*m*k*n", NAMES) == 2 * 2 * 128 * 64 * 32
        assert evaluate("(b*m*k + b*k*n)*itemsize", NAMES) == (2 * 128 * 64 + 2 * 64 * 32) * 4
        assert evaluate("ceil(m / 3) + max(b, n) - 2**3 // 3 % 2", NAMES) == 43 + 32
        assert evaluate(" 1.5e3 ", {}) == 1500

    @pytest.mark.parametrize(
        ("formula", "says"),
        [
            ("2*b*q", "'q', which is no size"),
            ("2*b*", "is no formula"),
            ("b/0", "divides by zero"),
            ("-b", "negative"),
            ("9**9**9**9", "too large"),
            ("10.0**40", "too large"),
            ("2*(0-1)**0.5", "no number"),
            ("__import__('os')", "no arithmetic"),
            ("b.real", "no arithmetic"),
            ("'a'*3", "no arithmetic"),
            ("[b][0]", "no arithmetic"),
            ("True+1", "no arithmetic"),
            ("max(*b)", "no arithmetic"),
            ("min()", "no arithmetic"),
            ("b if m else k", "no arithmetic"),
            ("1e400", "too large"),
            ("(" * 400 + ")" * 400, "longer"),
        ],
    )
    def test_what_is_no_formula_gets_one_sentence_that_names_it(self, formula: str, says: str) -> None:
        with pytest.raises(UsageError) as caught:
            evaluate(formula, NAMES, "case x, timing t, flops")
        assert says in (caught.value.message + " longer" * (len(formula) > 500))
        assert caught.value.message.startswith("case x, timing t, flops: ")
        assert "\n" not in caught.value.message

    @given(st.text(max_size=60))
    def test_no_text_gets_more_than_a_number_or_a_usage_error(self, text: str) -> None:
        try:
            value = evaluate(text, NAMES)
        except UsageError:
            return
        assert isinstance(value, (int, float))
        assert 0 <= value <= 1e30


class TestPlan:
    def test_a_cell_for_each_size_and_dtype_with_shapes_in_numbers(self) -> None:
        cells = plan(make_case())
        assert len(cells) == 12
        cell = next(c for c in cells if c.name == "bmm/c/bfloat16")
        assert cell.spec["inputs"]["x"]["shape"] == [2, 4, 4]
        assert cell.flops == 2 * 2 * 4 * 4 * 3
        assert cell.bytes == (2 * 4 * 4 + 2 * 4 * 3 + 2 * 4 * 3) * 2
        assert cell.spec["reference"] == "eager"

    def test_an_input_that_names_its_dtype_keeps_it(self) -> None:
        cell = plan(make_case())[0]
        assert cell.spec["inputs"]["x"]["dtype"] == "float32"
        assert cell.spec["inputs"]["y"]["dtype"] == "float64"

    def test_the_ends_of_the_sizes_come_before_the_middle(self) -> None:
        sizes = list(dict.fromkeys(cell.size for cell in plan(make_case())))
        assert sizes[:3] == ["a", "f", "c"]
        assert sorted(sizes) == list("abcdef")

    def test_patterns_choose_cells(self) -> None:
        assert [c.name for c in plan(make_case(), ["bmm/b/*16"])] == ["bmm/b/bfloat16"]

    def test_the_digest_covers_what_runs_and_nothing_else(self) -> None:
        one, same = plan(make_case())[0], plan(make_case(note="new", flops=None))[0]
        other = plan(
            make_case(variants={"eager": {"entry": "eager"}, "default": {"compile": {"dynamic": True}}})
        )[0]
        against = plan(make_case(variants={"eager": {"entry": "eager"}, "default": {}, "clone": {}}))[0]
        assert one.digest == same.digest == against.digest
        assert one.digest != other.digest

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            ({"flops": "2*b*q"}, "some-bug, timing bmm, size a, flops: '2*b*q' names 'q'"),
            ({"dtypes": ["float33"]}, "'float33' is no dtype"),
            ({"variants": {"eager": {}, "x": {"against": "y"}}}, "against 'y', which is none"),
            ({"inputs": {"x": {"shape": ["b/3"]}}}, "is not whole"),
            ({"inputs": {"x": {"shape": ["z"]}}}, "input x, shape: 'z' names 'z'"),
        ],
    )
    def test_what_makes_no_sense_is_one_sentence(self, change: Json, says: str) -> None:
        with pytest.raises(UsageError) as caught:
            plan(make_case(**change))
        assert says in caught.value.message

    def test_quick_keeps_a_deadline_that_was_set(self) -> None:
        assert TimingOptions().quick().deadline_s == 75
        assert TimingOptions(deadline_s=10).quick().deadline_s == 10


class FakeServer:
    """Stands in for a server: answers each request with the next outcome."""

    warm = True

    def __init__(self, *outcomes: Outcome) -> None:
        self.outcomes = list(outcomes)
        self.asked: list[list[str]] = []

    def attempt(self, request: Request) -> Outcome:
        self.asked.append([item["name"] for item in request.spec["variants"]])
        return self.outcomes.pop(0)


def _timed(*names: str, **more: Any) -> Outcome:
    variants = [{"name": name, "kind": "ok", "phase": "run"} for name in names]
    return Outcome(kind=Kind.OK, phase=Phase.RUN, detail={"variants": variants, **more})


def _crashed(after: str) -> Outcome:
    said = f"{MARK}eager\n{MARK}{after}\n"
    return Outcome(kind=Kind.SIGNAL, phase=Phase.COMPILE, reason="killed by SIGSEGV", stdout_tail=said)


class TestMeasure:
    def run(self, *outcomes: Outcome) -> tuple[Json, FakeServer]:
        server = FakeServer(*outcomes)
        return measure(server, plan(make_case())[0], "cpu", TimingOptions()), server  # type: ignore[arg-type]

    def test_all_variants_are_asked_for_in_one_process(self) -> None:
        record, server = self.run(_timed("eager", "default", "clone"))
        assert server.asked == [["eager", "default", "clone"]]
        assert [v["name"] for v in record["variants"]] == ["eager", "default", "clone"]

    def test_a_variant_that_ends_the_process_is_told_and_the_others_are_timed(self) -> None:
        record, server = self.run(_crashed("default"), _timed("eager", "clone"))
        assert server.asked[1] == ["eager", "clone"]
        assert [(v["name"], v["kind"]) for v in record["variants"]] == [
            ("eager", "ok"), ("default", "signal"), ("clone", "ok")
        ]  # fmt: skip

    def test_a_variant_that_spoils_the_device_is_told_and_the_others_are_timed(self) -> None:
        spoilt = Outcome(
            kind=Kind.OK, phase=Phase.RUN,
            detail={"poisoned": "default", "variants": [{"name": "default", "kind": "error"}]},
        )  # fmt: skip
        record, server = self.run(spoilt, _timed("eager", "clone"))
        assert server.asked[1] == ["eager", "clone"]
        assert [v["kind"] for v in record["variants"]] == ["ok", "error", "ok"]

    def test_a_crash_that_belongs_to_no_variant_is_the_cells(self) -> None:
        record, _ = self.run(_crashed(""))
        assert record["kind"] == "signal"
        assert record["variants"] == []

    def test_what_this_torch_cannot_do_is_the_cells_outcome(self) -> None:
        outcome = Outcome(kind=Kind.UNSUPPORTED, phase=Phase.BUILD, reason="torch sees no CUDA device")
        record, _ = self.run(outcome)
        assert (record["kind"], record["reason"]) == ("unsupported", "torch sees no CUDA device")


class FakeEnvironments:
    """One ready environment; ``home`` gives locks."""

    def __init__(self, folder: Path) -> None:
        self.home, self.path, self.uv = self, folder, self

    def lock(self, name: str) -> FileLock:
        return FileLock(self.path / f"{name}.lock")

    def stop(self) -> None:
        pass

    @contextlib.contextmanager
    def use(self, source: Source) -> Iterator[Environment]:
        facts = {"torch": "2.13.0+cpu", "python": "3.11.7", "git_version": "abc", "brought": True}
        yield Environment("x", self.path / "env" / "bin" / "python", None, facts)


class Quiet:
    """A watcher that keeps the names of what was started."""

    def __init__(self) -> None:
        self.started_names: list[str] = []

    def started(self, target: Target, cell: TimingCell, number: int, total: int) -> None:
        self.started_names.append(cell.name)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class TestRun:
    @pytest.fixture
    def run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., tuple[Summary, list[str]]]:
        class EndlessServer(FakeServer):
            def __init__(self, *_: Any, **__: Any) -> None:
                super().__init__()

            def attempt(self, request: Request) -> Outcome:
                names = [item["name"] for item in request.spec["variants"]]
                return _timed(*names, conditions={"text": f"in {tmp_path}/env/lib"})

            def close(self) -> None:
                pass

        monkeypatch.setattr("harness.timing.Server", EndlessServer)

        def start(device: str = "cpu", **options: Any) -> tuple[Summary, list[str]]:
            watcher = Quiet()
            done = run_timings(
                [make_case()], [Source("interpreter", None, "python")], device, tmp_path / "timings",
                FakeEnvironments(tmp_path), TimingOptions(**options), watcher,  # type: ignore[arg-type]
            )  # fmt: skip
            return done, watcher.started_names

        return start

    def test_what_is_on_record_is_not_timed_again_unless_asked(self, run: Any, tmp_path: Path) -> None:
        first, names = run()
        assert (first.ran, first.covered) == (12, 0)
        assert names == [cell.name for cell in plan(make_case())]
        assert (run()[0].ran, run()[0].covered) == (0, 12)
        assert run(rerun=True, only=("bmm/a/*",))[0].ran == 2
        (document,) = TimingStore(tmp_path / "timings").documents()
        assert len(document.cells) == 12

    def test_a_record_names_no_path_of_this_machine(self, run: Any, tmp_path: Path) -> None:
        run(only=("bmm/a/float32",))
        (file,) = (tmp_path / "timings").rglob("*.json")
        assert str(tmp_path) not in file.read_text()
        assert "in <env>/lib" in file.read_text()

    def test_a_deadline_leaves_the_rest_and_says_so(self, run: Any) -> None:
        done, names = run(deadline_s=1e-9)
        assert done.ran == len(names) == 1
        assert "bmm/f/float32" in next(iter(done.skipped.values()))

    def test_without_the_device_it_is_skipped_with_the_reason(
        self, run: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("harness.timing.describe_machine", lambda: {"gpus": []})
        done, names = run("cuda")
        assert names == []
        assert list(done.skipped.values()) == ["this host has no CUDA device"]

    def test_patterns_that_match_nothing_are_a_usage_error(self, run: Any) -> None:
        with pytest.raises(UsageError, match="no timing matches bmm/zzz"):
            run(only=("bmm/zzz/*",))


class TestStore:
    TARGET: Json = {  # noqa: RUF012
        "torch": "2.13.0", "build": "2.13.0+cpu", "channel": "pypi", "python": "3.11.7", "device": "cpu"
    }  # fmt: skip

    def test_what_was_put_is_found_again_and_replaced(self, tmp_path: Path) -> None:
        store = TimingStore(tmp_path)
        cell = synthetic_cell("issue", "float32", "cpu", False)
        store.put(self.TARGET, "some-bug", cell)
        store.put(self.TARGET, "some-bug", synthetic_cell("square", "float32", "cpu", False))
        store.put(self.TARGET, "some-bug", {**cell, "digest": "1" * 16})
        document = store.load(self.TARGET, "some-bug")
        assert document is not None
        assert len(document.cells) == 2
        assert document.find("bmm", "issue", "float32", "1" * 16) is not None
        assert document.find("bmm", "issue", "float32", "0" * 16) is None
        (file,) = tmp_path.rglob("*.json")
        assert file.parts[-2:] == ("torch-2.13.0-pypi-py3.11-cpu", "some-bug.json")
        assert not list(tmp_path.rglob("*.part"))

    def test_numbers_survive_writing(self, tmp_path: Path) -> None:
        cell = synthetic_cell("issue", "float32", "cuda", False)
        store = TimingStore(tmp_path)
        store.put(self.TARGET, "some-bug", cell)
        (document,) = store.documents()
        assert document.cells == json.loads(json.dumps([cell]))

    def test_a_file_that_is_no_record_is_named_and_set_aside(self, tmp_path: Path) -> None:
        store = TimingStore(tmp_path)
        file = store.file(self.TARGET, "some-bug")
        file.parent.mkdir(parents=True)
        file.write_text('{"schema": 1, "cells": [{}]}')
        assert list(store.documents()) == []
        assert "no readable record" in store.problems[0]
        store.put(self.TARGET, "some-bug", synthetic_cell("issue", "float32", "cpu", False))
        assert file.with_name("some-bug.json.corrupt").exists()
        assert len(list(store.documents())) == 1

    def test_a_newer_schema_is_refused_and_kept(self, tmp_path: Path) -> None:
        store = TimingStore(tmp_path)
        file = store.file(self.TARGET, "some-bug")
        file.parent.mkdir(parents=True)
        file.write_text('{"schema": 99}')
        with pytest.raises(StoreError, match="newer harness"):
            list(store.documents())
        assert file.read_text() == '{"schema": 99}'


class TestDifference:
    def test_a_variant_against_itself_is_none(self) -> None:
        times = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0]
        found = ratio(times, times)
        assert found is not None
        assert (found.middle, found.difference) == (1.0, "none")

    def test_a_difference_inside_the_spread_is_none(self) -> None:
        found = ratio([1.0, 1.2, 0.9, 1.1, 1.0, 0.8], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        assert found is not None
        assert found.difference == "none"

    def test_a_difference_beyond_the_spread_is_told_in_its_direction(self) -> None:
        base = [1.0, 1.1, 0.9, 1.0, 1.05]
        faster, slower = ratio(base, [t / 2 for t in base]), ratio(base, [t * 2 for t in base])
        assert faster is not None
        assert slower is not None
        assert (faster.difference, slower.difference) == ("faster", "slower")
        assert faster.middle == pytest.approx(2)

    def test_a_drift_that_hits_both_alike_is_no_spread(self) -> None:
        drift = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
        found = ratio(drift, [t / 1.1 for t in drift])
        assert found is not None
        assert found.difference == "faster"

    def test_a_difference_smaller_than_the_reference_against_itself_is_none(self) -> None:
        base = [1.0] * 10
        found = ratio(base, [0.95] * 10, noise=(0.9, 1.02))
        assert found is not None
        assert found.difference == "none"

    def test_too_few_rounds_say_nothing(self) -> None:
        found = ratio([1.0, 1.0], [0.5, 0.5])
        assert found is not None
        assert found.difference is None
        assert ratio([], []) is None

    @given(st.lists(st.tuples(st.floats(1e-9, 1e3), st.floats(0.5, 2)), min_size=5, max_size=30))
    def test_swapping_the_two_swaps_the_word(self, pairs: list[tuple[float, float]]) -> None:
        times, other = [t for t, _ in pairs], [t * factor for t, factor in pairs]
        there, back = ratio(times, other), ratio(other, times)
        assert there is not None
        assert back is not None
        assert there.low <= there.middle <= there.high
        swapped = {"faster": "slower", "slower": "faster", "none": "none"}
        # Interpolation is not quite the same the other way round: at the very edge one may be none.
        assert back.difference in (swapped[str(there.difference)], "none") or there.difference == "none"

    @given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
    def test_quartiles_are_in_order_and_within(self, values: list[float]) -> None:
        low, middle, high = quartiles(values)
        slack = 1e-9 * max(values)
        assert min(values) - slack <= low <= middle + slack <= high + 2 * slack <= max(values) + 3 * slack


class TestFrame:
    table = frame(synthetic_documents())

    def row(self, **wanted: Any) -> Any:
        some = self.table
        for key, value in wanted.items():
            some = some[some[key] == value]
        (row,) = (row for _, row in some.iterrows())
        return row

    def test_a_row_for_each_variant(self) -> None:
        assert tuple(self.table.columns) == COLUMNS
        assert len(self.table) == 2 * 5 * 10 * len(SPEED)

    def test_a_variant_as_quick_as_eager_is_no_difference(self) -> None:
        row = self.row(device="cpu", torch="2.13.0", size="square", dtype="float32", variant="default")
        assert row["difference"] == "none"
        assert row["speedup_low"] <= 1 <= row["speedup_high"]

    def test_a_quicker_variant_is_told_with_its_interval(self) -> None:
        row = self.row(device="cpu", torch="2.13.0", size="square", dtype="float32", variant="max-autotune")
        assert row["difference"] == "faster"
        assert row["speedup_low"] < row["speedup"] < row["speedup_high"]

    def test_a_workaround_costs_a_multiple_of_what_it_is_against(self) -> None:
        row = self.row(
            device="cuda", torch="2.13.0", size="square", dtype="float32", variant="template-cache-off"
        )
        assert row["against"] == "max-autotune"
        assert row["device_vs"] == pytest.approx(0.95 / 0.7, rel=0.05)
        assert row["device_vs_difference"] == "slower"

    def test_a_variant_that_failed_says_how_and_the_others_keep_their_numbers(self) -> None:
        wanted = {"device": "cuda", "torch": "2.11.0", "size": "square", "dtype": "float32"}
        failed = self.row(variant="max-autotune", **wanted)
        assert (failed["kind"], failed["exception"]) == ("error", "TypeError")
        assert "multiple values" in failed["message"]
        assert pd.isna(failed["median_s"])
        beside = self.row(variant="template-cache-off", **wanted)
        assert pd.isna(beside["vs"])
        assert beside["speedup"] > 0

    def test_rates_and_share_are_of_the_device_where_there_is_one(self) -> None:
        row = self.row(device="cuda", torch="2.13.0", size="square", dtype="bfloat16", variant="eager")
        assert row["flops_per_s"] == pytest.approx(row["flops"] / row["device_median_s"])
        assert row["bound"] == "compute"
        assert row["share"] == pytest.approx(row["flops_per_s"] / row["limit_flops_per_s"])
        thin = self.row(device="cuda", torch="2.13.0", size="decode", dtype="bfloat16", variant="eager")
        assert thin["bound"] == "memory"

    def test_a_cell_without_variants_is_one_row(self) -> None:
        cell = {**synthetic_cell("issue", "float32", "cpu", False), "kind": "timeout", "variants": []}
        cell["reason"] = "did not end within 5 s"
        (row,) = rows_of(frame([TimingDocument("c", "m", "t", {}, {"torch": "2.0.0"}, [cell])]))
        assert (row["kind"], row["message"], row["variant"]) == ("timeout", "did not end within 5 s", None)

    def test_nothing_recorded_is_an_empty_table(self, tmp_path: Path) -> None:
        assert timing_frame(tmp_path / "none").empty
        assert write_timings(tmp_path) == []


class TestCharts:
    def test_charts_and_tables_are_made_and_the_same_each_time(self, tmp_path: Path) -> None:
        store = TimingStore(tmp_path / "timings")
        for document in synthetic_documents()[3:5]:
            target = {**document.target, "channel": "pypi", "python": "3.11.7"}
            for cell in document.cells:
                store.put(target, document.case, cell)
        first = {file: file.read_bytes() for file in write_timings(tmp_path)}
        assert {file.suffix for file in first} == {".csv", ".svg", ".png"}
        kinds = {file.name.split("-")[1] for file in first if file.suffix == ".svg"}
        assert kinds == {"speedup", "cost", "releases", "compile", "share"}
        for file in first:
            file.unlink()
        assert {file: file.read_bytes() for file in write_timings(tmp_path)} == first

    def test_every_device_and_machine_has_its_own(self) -> None:
        names = [chart.name for chart in timing_charts(frame(synthetic_documents()))]
        assert len(names) == len(set(names)) == 10
        assert "timing-speedup-some-bug-bmm-cuda-linux-some-cpu-nvidia-h200" in names

    def test_the_csv_has_a_line_a_row(self) -> None:
        table = frame(synthetic_documents()[:1])
        assert len(to_csv(table).splitlines()) == len(table) + 1


class FakeCuda:
    """As much of torch as the clock uses, with a device whose time is told to it."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.said: list[str] = []
        self.cuda = self
        self.int8 = "int8"

    def empty(self, size: int, **_: Any) -> FakeCuda:
        self.said.append(f"flush of {size}")
        return self

    def zero_(self) -> None:
        self.now_ms += 1.0

    def _sleep(self, cycles: int) -> None:
        self.now_ms += cycles / 2e6

    def synchronize(self) -> None:
        pass

    def Event(self, enable_timing: bool) -> FakeEvent:
        assert enable_timing
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, device: FakeCuda) -> None:
        self.device, self.at = device, 0.0

    def record(self) -> None:
        self.at = self.device.now_ms

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.at - self.at


class TestDeviceClock:
    def test_neither_flush_nor_waiting_is_in_the_device_time(self) -> None:
        torch = FakeCuda()

        def call(milliseconds: float) -> None:
            torch.now_ms += milliseconds

        clock = Clock(torch, "cuda", 1000)
        device, host = clock.events(call, [[3.0], [3.0]], 0, 5, 1e-5)
        assert device == pytest.approx(3e-3)
        assert host > 0
        assert torch.said == ["flush of 2000"]

    def test_all_three_clocks_are_kept_and_a_variant_that_raises_is_dropped(self) -> None:
        torch = FakeCuda()

        def call(milliseconds: float) -> None:
            torch.now_ms += milliseconds

        def fails(_: float) -> None:
            raise RuntimeError("no")

        rounds = Steady(Clock(torch, "cuda", 1000), [[1.0], [2.0]], {"budget_s": 0.0, "batch_s": 1e-4})
        rounds.measure({"one": call, "bad": fails, "two": call})
        assert set(rounds.values) == {"one", "two"}
        assert set(rounds.failed) == {"bad"}
        assert {key: len(seen) for key, seen in rounds.values["one"].items()} == {
            "call": 7, "device": 7, "host": 7
        }  # fmt: skip
        assert rounds.calls_of("two") >= 7


@pytest.mark.real
def test_the_worker_times_real_torch(real_python: list[tuple[str, Path]], tmp_path: Path) -> None:
    cell = plan(make_case(inputs={"x": {"shape": ["b", "m", "k"]}, "y": {"shape": ["b", "k", "n"]}}))[0]
    wrong = {"name": "wrong", "model": "def forward(x, y):\n    return 2 * torch.bmm(x, y)\n"}
    refused = {"name": "refused", "config": {"torch._inductor.config.no_such_thing": 1}}
    blank: Json = {"entry": "compile", "compile": {}, "config": {}, "model": None}
    cell.spec["variants"] += [{**blank, **wrong}, {**blank, **refused}]
    for version, python in real_python:
        server = Server(python, tmp_path / version)
        try:
            record = measure(server, cell, "cpu", TimingOptions(budget_s=0.05))
        finally:
            server.close()
        kinds = {v["name"]: v["kind"] for v in record["variants"]}
        assert kinds["eager"] == "ok", record
        assert kinds["wrong"] in ("mismatch", "unsupported", "error")
        assert kinds["refused"] == "unsupported"
        assert record["limits"][0]["product"]["flops_per_s"]["median"] > 0
        eager = record["variants"][0]
        assert eager["rel_error"] <= eager["error_limit"]
        assert len(eager["call"]["rounds"]) == len(record["again"]["call"]["rounds"])


class TestRotation:
    @given(st.integers(1, 2**32), st.integers(2**20, 2**28))
    def test_sets_are_few_and_never_only_one(self, size: int, cache: int) -> None:
        count = wanted_sets(size, cache)
        assert 2 <= count <= 16
        assert count == 2 or size * count <= 2**29 + size


def test_the_worker_imports_without_torch() -> None:
    code = "import sys; import harness.worker.timing; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)
