"""The report: rules of claims, expectations and status; tables; hostile text; publishing."""

from __future__ import annotations

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from syntheticstore import HOSTILE, MACHINES, RELEASES, Plan, case, document, fill, write

from harness.case import Case, Claim, Expectation
from harness.errors import UsageError
from harness.judge import COLUMNS, Row
from harness.report import charts, feed, seams, tables
from harness.report import expectations as expected
from harness.report.claims import ClaimResult, judge_claim, ledger
from harness.report.grid import Grid, combine, minors, settle
from harness.report.hostile import one_line, prose, visible
from harness.report.publish import MARKER, digests_of, publish
from harness.report.status import Status, bug_groups, statuses
from harness.store import Store


@pytest.fixture(scope="module")
def a_case() -> Case:
    return case(0, Plan(triggers=2, workarounds=2))


def row(torch: str = "2.9.0", verdict: str = "bug", **given: Any) -> Row:
    """A row of the synthetic case; a repro's unless a workaround is given."""
    values: dict[str, Any] = {
        "case": "synthetic-0", "repro": "trigger-0", "workaround": None, "torch": torch,
        "build": f"{torch}+cpu", "git_version": "a" * 40, "python": "3.11.9", "device": "cpu",
        "machine": "one", "kind": "error",
        "phase": "run", "exception": "RuntimeError", "message": "made-up failure", "verdict": verdict,
        "trials": 1, "hits": int(verdict in ("bug", "fails")), "duration_s": 1.5, "role": "trigger",
        "channel": "pypi", "release_date": None, "target": f"torch-{torch}-pypi-py3.11-cpu",
        "recorded": "2026-06-01T12:00:00+00:00", "stale": False,
    }  # fmt: skip
    return Row(**{**values, **given})


def claim(**expect: Any) -> Claim:
    return Claim.model_validate({"source": "s", "section": "1", "says": "so", "expect": expect})


def judged(a_case: Case, a_claim: Claim, *rows: Row) -> ClaimResult:
    return judge_claim(a_case, 1, a_claim, rows)


WORK = "fix-0-holds"


class TestClaims:
    """The rules that evidence.py and claims.py state."""

    def test_all_rows_as_predicted_hold(self, a_case: Case) -> None:
        result = judged(a_case, claim(repro="trigger-0", verdict="bug"), row("2.9.0"), row("2.10.0"))
        assert result.verdict == "holds"
        assert result.measured == "on cpu, torch 2.9.0 and 2.10.0"
        assert result.counters == ()

    def test_one_contrary_release_makes_it_hold_on_some_and_is_named(self, a_case: Case) -> None:
        result = judged(
            a_case, claim(repro="trigger-0", verdict="bug"), row("2.9.0"), row("2.10.0", "clean", kind="ok")
        )
        assert result.verdict == "holds on some"
        assert [c.text for c in result.counters] == ["trigger-0: clean on cpu, 2.10.0"]

    def test_nothing_as_predicted_is_refuted(self, a_case: Case) -> None:
        clean = row(repro="demo", verdict="clean")
        assert judged(a_case, claim(repro="demo", verdict="bug"), clean).verdict == "refuted"

    def test_another_failure_than_the_one_foretold_is_against(self, a_case: Case) -> None:
        other = row(verdict="other")
        assert judged(a_case, claim(repro="trigger-0", verdict="bug"), other).verdict == "refuted"

    def test_no_row_is_not_run(self, a_case: Case) -> None:
        assert judged(a_case, claim(repro="trigger-0", verdict="bug")).verdict == "not run"

    @pytest.mark.parametrize("verdict", ["unknown"])
    def test_unknown_is_no_evidence(self, a_case: Case, verdict: str) -> None:
        result = judged(a_case, claim(repro="trigger-0", verdict="clean"), row(verdict=verdict, kind="setup"))
        assert result.verdict == "not run"

    def test_a_stale_record_is_no_evidence(self, a_case: Case) -> None:
        assert judged(a_case, claim(repro="trigger-0", verdict="bug"), row(stale=True)).verdict == "not run"

    def test_a_workaround_without_a_bug_to_avoid_is_nothing_to_test(self, a_case: Case) -> None:
        moot = row(verdict="moot", workaround=WORK, trials=0, kind="skipped")
        result = judged(a_case, claim(workaround=WORK, verdict="holds"), moot)
        assert result.verdict == "nothing to test"
        assert result.measured == "no bug to avoid on torch 2.9.0"

    def test_moot_releases_count_neither_for_nor_against(self, a_case: Case) -> None:
        rows = (row("2.8.0", "moot", workaround=WORK), row("2.9.0", "holds", workaround=WORK))
        assert judged(a_case, claim(workaround=WORK, verdict="holds"), *rows).verdict == "holds"

    def test_moot_is_evidence_where_it_was_predicted(self, a_case: Case) -> None:
        rows = (row("2.8.0", "moot", workaround=WORK),)
        assert judged(a_case, claim(workaround=WORK, verdict=["moot", "holds"]), *rows).verdict == "holds"

    @pytest.mark.parametrize("verdict", ["rejected", "fails", "breaks"])
    def test_a_refused_setting_counts_against_the_advice_to_use_it(self, a_case: Case, verdict: str) -> None:
        said = row(verdict=verdict, workaround=WORK)
        result = judged(a_case, claim(workaround=WORK, verdict="holds"), said)
        assert result.verdict == "refuted"
        assert result.counters[0].verdict == verdict

    def test_a_workaround_unrun_where_the_bug_shows_is_not_run(self, a_case: Case) -> None:
        unrun = row(verdict="unknown", workaround=WORK, trials=0, kind="skipped")
        assert judged(a_case, claim(workaround=WORK, verdict="holds"), unrun).verdict == "not run"

    def test_neighbours_do_not_speak_of_the_bug_unless_named(self, a_case: Case) -> None:
        rows = (
            row(verdict="holds", workaround=WORK),
            row(verdict="fails", workaround=WORK, repro="sibling"),
        )
        assert judged(a_case, claim(workaround=WORK, verdict="holds"), *rows).verdict == "holds"
        named = claim(workaround=WORK, repro=["trigger-0", "sibling"], verdict="holds")
        assert judged(a_case, named, *rows).verdict == "holds on some"

    def test_the_release_range_and_the_device_choose_rows(self, a_case: Case) -> None:
        rows = (row("2.9.0"), row("2.10.0", "clean"), row("2.10.0", "bug", device="cuda"), row("None", "bug"))
        latest = claim(repro="trigger-0", verdict="clean", torch="latest", device="cpu")
        assert judged(a_case, latest, *rows).verdict == "holds"
        older = claim(repro="trigger-0", verdict="bug", torch="..2.9")
        assert judged(a_case, older, *rows).verdict == "holds"

    def test_devices_without_a_measurement_are_named(self, a_case: Case) -> None:
        result = judged(a_case, claim(repro="trigger-0", verdict="bug"), row())
        assert (result.devices, result.devices_missing) == (("cpu",), ("cuda",))
        on_cpu = claim(repro="trigger-0", verdict="bug", device="cpu")
        assert judged(a_case, on_cpu, row()).devices_missing == ()

    def test_a_prediction_without_evidence_leaves_the_verdict_to_the_others(self, a_case: Case) -> None:
        both = Claim.model_validate(
            {"source": "s", "section": "1", "says": "so", "expect": [
                {"repro": "trigger-0", "verdict": "bug"}, {"workaround": WORK, "verdict": "holds"}]}
        )  # fmt: skip
        result = judged(a_case, both, row())
        assert result.verdict == "holds"
        assert result.without_evidence == (f"{WORK}: holds",)

    def test_machines_that_disagree_make_it_hold_on_some(self, a_case: Case) -> None:
        rows = (row(), row(verdict="clean", machine="two"))
        result = judged(a_case, claim(repro="trigger-0", verdict="bug"), *rows)
        assert result.verdict == "holds on some"
        assert result.machines == ("one", "two")


class TestExpectations:
    def expecting(self, a_case: Case, **expect: Any) -> Case:
        return a_case.model_copy(update={"expect": [Expectation.model_validate(expect)]})

    def test_one_contrary_row_and_it_does_not_hold_with_the_difference(self, a_case: Case) -> None:
        wanted = self.expecting(a_case, repro="trigger-0", verdict="clean")
        [result] = expected.check_expectations([wanted], [row("2.8.0", "clean"), row("2.9.0", "bug")])
        assert result.result == "does not hold"
        [difference] = result.differences
        assert (difference.torch, difference.expected, difference.measured) == ("2.9.0", "clean", "bug")
        assert "torch 2.9.0, cpu, one: expected clean, measured bug (made-up failure)" in difference.text

    def test_it_holds_or_has_no_evidence(self, a_case: Case) -> None:
        wanted = self.expecting(a_case, repro="trigger-0", verdict="bug")
        assert expected.check_expectations([wanted], [row()])[0].result == "holds"
        assert expected.check_expectations([wanted], [])[0].result == "no evidence"
        nothing = row(verdict="unknown", kind="setup", message="no wheel")
        [silent] = expected.check_expectations([wanted], [nothing])
        assert silent.result == "no evidence"
        assert "no wheel" in silent.measured

    def test_junit_and_annotations_stay_whole_with_hostile_messages(self, a_case: Case) -> None:
        wanted = self.expecting(a_case, repro="trigger-0", verdict="clean")
        evil = HOSTILE + "\n::error file=x::injected ]]>"
        results = expected.check_expectations([wanted], [row(message=evil)])
        tree = ElementTree.fromstring(expected.junit(results).encode("utf-8"))
        assert tree.attrib["failures"] == "1"
        assert len(tree.findall(".//failure")) == 1
        lines = expected.annotations(results, {"synthetic-0": "cases/a,b.yaml"}).splitlines()
        assert len(lines) == 1
        assert lines[0].startswith("::error file=cases/a%2Cb.yaml,title=synthetic-0%3A ")


def one_status(a_case: Case, *rows: Row) -> Status:
    return statuses(a_case, rows)[0]


class TestStatus:
    def test_consecutive_measured_releases_make_a_range_with_its_ends(self, a_case: Case) -> None:
        states = {"2.1.0": "clean", "2.2.0": "bug", "2.3.0": "unknown", "2.10.0": "bug", "2.11.0": "unknown",
                  "2.12.0": "clean"}  # fmt: skip
        status = one_status(a_case, *(row(torch, verdict) for torch, verdict in states.items()))
        assert status.affected_text == "2.2.0 – 2.10.0"
        assert status.spans[0].gaps == ("2.3.0",)
        assert (status.before, status.fixed_in, status.skipped) == ("2.1.0", "2.12.0", ("2.11.0",))
        assert status.summary == "fixed"

    def test_a_bug_that_comes_back_has_two_ranges_and_is_not_fixed(self, a_case: Case) -> None:
        status = one_status(a_case, row("2.1.0"), row("2.2.0", "clean"), row("2.3.0"))
        assert status.affected_text == "2.1.0, 2.3.0"
        assert (status.summary, status.fixed_text) == ("affected", "not as of 2.3.0")

    def test_another_failure_after_the_bug_is_no_fix(self, a_case: Case) -> None:
        status = one_status(a_case, row("2.1.0"), row("2.2.0", "other"))
        assert (status.summary, status.fixed_in) == ("unclear", None)

    def test_one_trigger_or_one_machine_with_the_bug_is_enough(self, a_case: Case) -> None:
        status = one_status(
            a_case, row(verdict="clean"), row(verdict="clean", repro="trigger-1"), row(machine="two")
        )
        assert status.states == {"2.9.0": "bug"}
        [differ] = status.disagreements
        assert [verdict for verdict, _ in differ.said] == ["clean", "bug"]

    def test_a_trigger_with_its_own_signature_has_a_status_of_its_own(self, a_case: Case) -> None:
        assert bug_groups(a_case) == [(None, ("trigger-0", "trigger-1")), ("sibling", ("sibling",))]
        bug, sibling, *_ = statuses(a_case, [row(verdict="clean"), row(repro="sibling")])
        assert (bug.summary, sibling.summary, sibling.variant) == ("not seen", "affected", "sibling")

    def test_devices_without_records_are_not_run(self, a_case: Case) -> None:
        cuda = next(s for s in statuses(a_case, [row()]) if s.device == "cuda")
        assert (cuda.summary, cuda.affected_text) == ("not run", "not run")

    def test_advice_says_on_how_much_it_holds_and_names_where_not(self, a_case: Case) -> None:
        rows = [row(t, repro=r) for t in ("2.8.0", "2.9.0") for r in ("trigger-0", "trigger-1")]
        held = [replace(r, workaround=WORK, verdict="holds") for r in rows]
        [advice, other] = one_status(a_case, *rows, *held).advice
        assert (advice.verdict, advice.cells, advice.held, other.verdict) == ("holds", 4, 4, "not run")
        held[3] = replace(held[3], verdict="fails")
        advice = one_status(a_case, *rows, *held).advice[0]
        assert (advice.verdict, advice.held, advice.holds_on, advice.newest) == (
            "holds on some", 3, ("2.8.0",), "mixed",
        )  # fmt: skip
        assert [(a.torch, a.repro, a.verdict) for a in advice.against] == [("2.9.0", "trigger-1", "fails")]

    def test_a_workaround_on_a_stale_baseline_is_stale(self) -> None:
        rows = settle([row(stale=True), row(workaround=WORK, verdict="holds"), row("2.8.0", workaround=WORK)])
        assert [r.stale for r in rows] == [True, True, False]


def test_verdicts_combine_to_what_they_agree_on() -> None:
    assert combine([]) == "not run"
    assert combine(["unknown", "bug", "bug"]) == "bug"
    assert combine(["holds", "moot"]) == "holds"
    assert combine(["holds", "fails"]) == "mixed"
    assert combine(["moot", "unknown"]) == "unknown"
    assert combine(["moot", "not run"]) == "not run"


def test_releases_are_grouped_by_minor() -> None:
    assert minors(["2.9.0", "2.9.1", "2.10.0"]) == [("2.9", ["2.9.0", "2.9.1"]), ("2.10", ["2.10.0"])]


class TestHostileText:
    def test_what_cannot_be_seen_is_made_visible(self) -> None:
        assert visible("\x1b[31mred\x00\u202eabc\u200b\ud800") == "␛[31mred␀‹U+202E›abc‹U+200B›‹U+D800›"
        assert visible("a\tb\r\nc") == "a\tb\nc"
        assert len(visible("z" + "\u0301" * 500)) == 5

    def test_markup_is_escaped_and_backticks_become_code(self) -> None:
        assert prose("`<b>` & <i>") == "<code>&lt;b&gt;</code> &amp; &lt;i&gt;"

    def test_one_line_is_one_line(self) -> None:
        text = one_line("a\n\nb" + "c" * 500, 40)
        assert "\n" not in text
        assert len(text) == 40


class TestTables:
    def test_json_has_the_designs_columns_in_its_order_first(self) -> None:
        design = [
            "case", "repro", "workaround", "torch", "build", "git_version", "python", "device", "machine",
            "kind", "phase", "exception", "message", "verdict", "trials", "hits", "duration_s",
        ]  # fmt: skip
        [item] = json.loads(tables.render([row(message=HOSTILE)], "json"))
        assert list(item)[: len(design)] == design
        assert list(item) == COLUMNS
        assert item["workaround"] is None
        assert item["message"] == HOSTILE

    def test_csv_is_read_back_as_it_was(self) -> None:
        text = tables.render([row(message='a,"b"\nc')], "csv")
        [head, values] = csv.reader(io.StringIO(text))
        assert head == COLUMNS
        assert values[head.index("message")] == 'a,"b"\nc'
        assert tables.render([row(message=HOSTILE)], "csv").encode("utf-8")

    def test_markdown_cells_hold_no_markup(self) -> None:
        lines = tables.render([row(message="a|b <img src=x> `c` @someone\nd")], "md").splitlines()
        assert len(lines) == 3
        assert "a\\|b &lt;img src=x> \\`c\\` &#64;someone d" in lines[2]

    def test_a_terminal_sees_no_control_characters_and_no_markup(self) -> None:
        out = io.StringIO()
        Console(file=out, width=200, force_terminal=True, color_system=None).print(
            tables.to_rich([row(message="[bold]x[/bold] \x1b[31m")])
        )
        assert "[bold]x[/bold] ␛[31m" in out.getvalue()

    def test_an_empty_table_is_an_empty_list(self) -> None:
        assert json.loads(tables.render([], "json")) == []

    def test_pivots_have_a_row_a_release_newest_first(self, a_case: Case) -> None:
        flaky, clean = row("2.9.0", hits=1, trials=3), row("2.10.0", "clean")
        rows = [flaky, clean, row("2.9.0", "holds", workaround=WORK)]
        repros = tables.pivot_repros(a_case, "cpu", Grid(rows))
        assert [r[:2] for r in repros.rows] == [("2.10.0", "clean"), ("2.9.0", "bug 1/3")]
        works = tables.pivot_workarounds(a_case, "cpu", Grid(rows))
        assert works.columns[:2] == ("torch", f"{WORK} on trigger-0")
        assert [r[1] for r in works.rows] == ["not run", "holds"]


class TestCharts:
    def test_the_same_rows_draw_the_same_bytes(self, a_case: Case) -> None:
        rows = [row(t, "bug" if i % 3 else "clean") for i, t in enumerate(RELEASES)]
        first, second = (charts.draw(charts.sheets(a_case, rows)) for _ in range(2))
        assert first == second
        assert [c.name for c in first] == ["synthetic-0-cpu-one-repros", "synthetic-0-cpu-one-workarounds"]
        assert b"<dc:date>" not in first[0].svg
        assert first[0].png.startswith(b"\x89PNG")

    def test_a_chart_that_lies_there_is_not_drawn_again(self, a_case: Case) -> None:
        sheets = charts.sheets(a_case, [row()])
        assert sheets[0].digest != charts.sheets(a_case, [row(verdict="clean")])[0].digest
        kept = charts.draw(sheets)
        assert charts.draw(sheets, lambda sheet: {c.name: c for c in kept}.get(sheet.name)) == kept


@pytest.fixture(scope="module", autouse=True)
def simple_exports() -> Iterator[None]:
    """What an exported script holds is not the report's matter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seams, "exporter", lambda: lambda cell, device: f"# {cell.label} {device}\n")
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("publish")
    store, corpus = fill(folder / "records", Plan(cases=1, triggers=2, workarounds=6, releases=12))
    publish(store, corpus, folder / "results" / "site", folder / "results")
    return folder


class Tags(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


class TestPublishing:
    def test_publishing_again_changes_no_byte_and_tells_of_no_change(self, site: Path) -> None:
        def contents() -> dict[Path, bytes]:
            return {f: f.read_bytes() for f in (site / "results").rglob("*") if f.is_file()}

        before = contents()
        store, corpus = Store(site / "records"), [(case(0, Plan(triggers=2, workarounds=6)), site)]
        done = publish(store, corpus, site / "results" / "site", site / "results")
        assert (done.written, done.changes) == (0, [])
        assert contents() == before

    def test_hostile_text_is_escaped_everywhere(self, site: Path) -> None:
        for file in (site / "results" / "site").rglob("*.html"):
            text = file.read_text("utf-8")
            seen = Tags()
            seen.feed(text)
            assert not [a for tag, a in seen.tags if tag == "script" and not a.get("src")], file
            assert not [a for _, a in seen.tags if any(name.startswith("on") for name in a)], file
            assert not {"i", "marquee", "style"} & {tag for tag, _ in seen.tags}, file
            assert not re.search("[\x00-\x08\x1b\u202e]", text), file
        for file in (site / "results" / "site").rglob("*.xml"):
            ElementTree.parse(file)
        for file in (site / "results" / "site").rglob("*.svg"):
            ElementTree.parse(file)

    def test_every_cell_of_a_matrix_leads_to_its_evidence(self, site: Path) -> None:
        page = site / "results" / "site" / "issue" / "synthetic-0.html"
        hrefs = re.findall(r'<td class="v [a-z]+"><a href="([^"]+)"', page.read_text("utf-8"))
        assert len(hrefs) > 100
        for href in set(hrefs):
            name, _, anchor = href.partition("#")
            target = (page.parent / name) if name else page
            assert f'id="{anchor}"' in target.read_text("utf-8"), href

    def test_no_page_asks_another_host_for_anything(self, site: Path) -> None:
        for file in (site / "results" / "site").rglob("*.html"):
            text = file.read_text("utf-8")
            assert not re.search(r'(?:src|rel="stylesheet" href|action)="(?:https?:)?//', text), file
            assert "Content-Security-Policy" in text

    def test_a_folder_that_is_no_site_is_refused_and_left_alone(self, site: Path, tmp_path: Path) -> None:
        (tmp_path / "mine").write_text("keep")
        with pytest.raises(UsageError, match="holds files that are not a site"):
            publish(Store(site / "records"), [], tmp_path, tmp_path / "results")
        assert [f.name for f in tmp_path.iterdir()] == ["mine"]

    def test_pages_that_are_no_more_are_removed_and_strangers_kept(self, tmp_path: Path) -> None:
        plan = Plan(cases=2, releases=10, workarounds=1, devices=("cpu",))
        store, corpus = fill(tmp_path / "records", plan)
        publish(store, corpus, tmp_path / "site", tmp_path / "results")
        (tmp_path / "site" / "CNAME").write_text("mine")
        publish(store, corpus[:1], tmp_path / "site", tmp_path / "results")
        assert not (tmp_path / "site" / "issue" / "synthetic-1.html").exists()
        assert (tmp_path / "site" / "CNAME").exists()
        assert json.loads((tmp_path / "site" / MARKER).read_text())["complete"]

    def test_an_empty_store_gives_a_site_that_says_not_run(self, tmp_path: Path) -> None:
        publish(Store(tmp_path / "records"), [(case(0), tmp_path)], tmp_path / "site", tmp_path / "results")
        assert "not run" in (tmp_path / "site" / "index.html").read_text()
        assert "timings: not run" in (tmp_path / "site" / "issue" / "synthetic-0.html").read_text()

    def test_the_feed_tells_what_changed_since_the_last_publication(self, tmp_path: Path) -> None:
        plan = Plan(cases=1, triggers=1, workarounds=1, devices=("cpu",), releases=3, hostile=False)
        machine = next(iter(MACHINES))
        one, root = case(0, plan), tmp_path / "records"
        write(root, document(one, "2.9.0", "cpu", machine, "bug", plan))
        first = publish(Store(root), [(one, tmp_path)], tmp_path / "site", tmp_path)
        assert first.changes == ["#100000 on cpu: first published, 1 of 1 releases show the bug"]
        write(root, document(one, "2.10.0", "cpu", machine, "clean", plan))
        write(root, document(one, "2.9.0", "cpu", machine, "other", plan))
        second = publish(Store(root), [(one, tmp_path)], tmp_path / "site", tmp_path)
        assert sorted(second.changes) == [
            "#100000 on cpu: torch 2.10.0 added: clean",
            "#100000 on cpu: torch 2.9.0 was bug, is other",
        ]
        tree = ElementTree.fromstring((tmp_path / "site" / "feed.xml").read_text())
        assert len(tree.findall("{http://www.w3.org/2005/Atom}entry")) == 3

    def test_records_of_an_edited_repro_are_shown_as_outdated_and_not_counted(self, tmp_path: Path) -> None:
        plan = Plan(cases=1, triggers=1, workarounds=1, devices=("cpu",), hostile=False)
        one = case(0, plan)
        write(tmp_path / "records", document(one, "2.9.0", "cpu", next(iter(MACHINES)), "bug", plan))
        repro = one.repros["trigger-0"].model_copy(update={"model": "def forward(x):\n    return x\n"})
        edited = one.model_copy(update={"repros": {**one.repros, "trigger-0": repro}})
        publish(Store(tmp_path / "records"), [(edited, tmp_path)], tmp_path / "site", tmp_path)
        page = (tmp_path / "site" / "issue" / "synthetic-0.html").read_text()
        assert "2.9.0: stale" in page
        told = json.loads((tmp_path / "tables" / "claims.json").read_text())
        assert {c["verdict"] for c in told if c["predicted"].startswith("fix-")} == {"not run"}

    def test_a_record_of_a_case_that_is_gone_is_named(self, site: Path, tmp_path: Path) -> None:
        done = publish(Store(site / "records"), [], tmp_path / "site", tmp_path)
        assert done.problems == [
            "records of synthetic-0: no such case in the corpus, so they are in the tables alone"
        ]


def test_bisect_reports_are_read_and_broken_ones_named(tmp_path: Path) -> None:
    report = {
        "case": "synthetic-0", "repro": "trigger-0", "device": "cpu", "find": "fixed",
        "answer": "It was fixed.",
        "before": {"torch": "2.9.0", "git_version": "a" * 40},
        "after": {"torch": "2.10.0", "git_version": None},
        "compare": None, "confidence": 0.97, "notes": ["n"], "repeat": "harness bisect x",
    }  # fmt: skip
    (tmp_path / "good.json").write_text(json.dumps(report))
    (tmp_path / "bad.json").write_text("{")
    found, problems = seams.bisections(tmp_path)
    [one] = found["synthetic-0"]
    assert (one.answer, one.before, one.confidence) == ("It was fixed.", "2.9.0", 0.97)
    assert (one.before_commit, one.after_commit) == ("a" * 40, None)
    assert problems == ["bad.json is no readable bisect report (JSONDecodeError)"]


def test_a_broken_state_file_is_as_none(tmp_path: Path) -> None:
    one = case(0, Plan(triggers=1, workarounds=1))
    (tmp_path / "site.state.json").write_text('{"schema": 1, "cases": {"synthetic-0": 3}}')
    done = publish(Store(tmp_path / "records"), [(one, tmp_path)], tmp_path / "site", tmp_path)
    assert done.changes == []


def test_feed_entries_have_stable_ids() -> None:
    entry = feed.Entry("t", ("a",), "issue/x.html", "2026-01-01T00:00:00+00:00")
    assert entry.id == feed.Entry("t", ("a",), "issue/x.html", "2026-01-01T00:00:00+00:00").id
    assert entry.id.startswith("urn:uuid:")


def test_digests_cover_every_cell_of_the_corpus(tmp_path: Path) -> None:
    one = case(0, Plan(triggers=2, workarounds=1))
    assert ("synthetic-0", "trigger-1", WORK) in digests_of([(one, tmp_path)])


def test_the_ledger_has_every_claim_of_every_case() -> None:
    cases = [case(0), case(1)]
    assert len(ledger(cases, [])) == sum(len(c.claims) for c in cases)
