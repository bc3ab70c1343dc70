"""The static site: view models through jinja2 (autoescaped) to files. Writes nothing itself."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from harness.case import Case
from harness.judge import Row
from harness.report import badge, feed, front, issue, legend, links, matrix, records, seams
from harness.report.charts import Chart
from harness.report.claims import ClaimResult
from harness.report.front import Book
from harness.report.grid import Grid, releases
from harness.report.hostile import one_line, prose, visible
from harness.report.status import devices, statuses
from harness.report.tables import Table
from harness.store import Document

ANSWERS_ON_FRONT = 150_000  # characters; more of them get a page of their own

Files = dict[str, str | bytes]


@dataclass(frozen=True)
class Material:
    """All that a site is made from."""

    book: Book
    cases: tuple[Case, ...]
    rows: tuple[Row, ...]
    documents: tuple[Document, ...]
    rows_of: dict[tuple[str, str, str], list[Row]]  # by (machine, target, case)
    claims: tuple[ClaimResult, ...]
    tables: tuple[tuple[Table, dict[str, str]], ...]  # with the text of each format
    charts: tuple[Chart, ...]
    scripts: dict[tuple[str, str, str], str]  # (case, repro, device) to source
    bisections: dict[str, list[seams.Bisection]] = field(default_factory=dict)
    timings: dict[str, list[seams.TimingFile]] = field(default_factory=dict)
    entries: tuple[feed.Entry, ...] = ()


def make_book(cases: Sequence[Case], rows: Sequence[Row]) -> Book:
    """What all pages share."""
    split: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        split[row.case, row.device].append(row)
    known = {case.id for case in cases}
    every = [device for case in cases for device in devices(case, rows)]
    found: dict[tuple[str, str], Any] = {}
    for case in cases:
        mine = [row for row in rows if row.case == case.id]
        for status in statuses(case, mine):
            found.setdefault((case.id, status.device), []).append(status)
    return Book(
        cases=tuple(cases),
        releases=tuple(releases(row for row in rows if row.case in known)),
        devices=tuple(dict.fromkeys(every)),
        grids={key: Grid(split.get(key, [])) for key in found},
        statuses=found,
    )


class Site:
    """Renders every file of the site."""

    def __init__(self, material: Material) -> None:
        self.material = material
        self.book = material.book
        self.env = Environment(
            loader=PackageLoader("harness.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.env.filters.update(visible=visible, one_line=one_line, prose=prose)
        self.env.globals.update(
            links=links, legend=legend, machine_name=self._machine_name, best_advice=front.best_advice,
            issue_name={case.id: links.short_name(case) for case in material.cases},
            differ=matrix.disagreement_anchor,
        )  # fmt: skip

    def files(self) -> Iterator[tuple[str, str | bytes]]:
        """Every file of the site: address from its root, and contents."""
        yield from self._static()
        yield from self._front()
        for case in self.material.cases:
            yield links.issue_page(case.id), self._issue(case)
            told = self._statuses(case)
            yield links.badge(case.id), badge.badge_svg(links.short_name(case), told)
        yield "claims.html", self._render("claims.html", "", claims=self._ledgers())
        yield "verdicts.html", self._render("verdicts.html", "")
        yield from self._evidence()
        yield from self._data()
        for (case_id, repro, device), source in self.material.scripts.items():
            yield links.script(case_id, repro, device), source
        yield "feed.xml", feed.atom(self.material.entries)

    def _render(self, template: str, root: str, **values: Any) -> str:
        return self.env.get_template(template).render(root=root, **values)

    def _static(self) -> Iterator[tuple[str, str]]:
        folder = resources.files("harness.report").joinpath("static")
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            yield f"static/{file.name}", file.read_text("utf-8")
        yield ".nojekyll", ""

    def _machine_name(self, machine: str, device: str) -> str:
        """What a reader knows the hardware by: its GPU for cuda, else its CPU."""
        known = next((d.machine for d in self.material.documents if d.machine_id == machine), {})
        gpus = known.get("gpus") or []
        name = gpus[0].get("name") if device == "cuda" and gpus else known.get("cpu")
        text = re.sub(r"\((R|TM)\)|\bCPU\b|\bProcessor\b|@.*$", " ", str(name or machine))
        return one_line(text, 60)

    def _statuses(self, case: Case) -> list[Any]:
        return [
            status
            for device in devices(case, self.material.rows)
            for status in self.book.statuses.get((case.id, device), [])
        ]

    def _front(self) -> Iterator[tuple[str, str]]:
        found = front.answers(self.book)
        default = front.default_answer(found)
        text = self.env.get_template("answers.html").render(answers=found, default=default, root="")
        apart = len(text) > ANSWERS_ON_FRONT
        first = self.env.get_template("answers.html").render(
            answers=[answer for answer in found if answer.id == default], default=default, root=""
        )
        page = "affected.html" if apart else ""
        common = {
            "answers": found,
            "answers_page": page,
            "releases": list(dict.fromkeys(answer.torch for answer in found)),
            "devices": self.book.devices,
        }
        yield "index.html", self._render(
            "index.html", "", answers_text=first if apart else text, glances=front.glances(self.book),
            heads=front.glance_heads(self.book), lines=self._issue_lines(), ledger=self.material.claims,
            machines_used=sorted({(row.machine, row.device) for row in self.material.rows}),
            cells=len(self.material.rows),
            attempts=sum(row.trials for row in self.material.rows), **common,
        )  # fmt: skip
        if apart:
            yield "affected.html", self._render("affected.html", "", answers_text=text, **common)

    def _issue_lines(self) -> list[tuple[Case, list[Any]]]:
        return [(case, self._statuses(case)) for case in self.material.cases]

    def _ledgers(self) -> list[tuple[Case, list[ClaimResult]]]:
        return [
            (case, mine)
            for case in self.material.cases
            if (mine := [claim for claim in self.material.claims if claim.case == case.id])
        ]

    def _issue(self, case: Case) -> str:
        named = devices(case, self.material.rows)
        known = self._statuses(case)
        parts = issue.device_parts(case, self.book, named)
        scripts = {key: links.script(*key) for key in self.material.scripts if key[0] == case.id}
        return self._render(
            "issue.html", "../", case=case, statuses=known,
            parts=parts, legends=issue.legends(parts), remedies=issue.remedies(case, known),
            specimens=issue.specimens(case, scripts), boundaries=issue.boundaries(case, self.book, named),
            differing=issue.differences(case, self.book, named),
            claims=[claim for claim in self.material.claims if claim.case == case.id],
            bisections=self.material.bisections.get(case.id, []),
            timings=self.material.timings.get(case.id, []),
            charts=[chart for chart in self.material.charts if chart.case == case.id],
            tables=[table for table, _ in self.material.tables if table.case == case.id],
        )  # fmt: skip

    def _evidence(self) -> Iterator[tuple[str, str]]:
        cases = {case.id: case for case in self.material.cases}
        near: dict[tuple[str, str, str], dict[tuple[str, str | None], list[Row]]] = {}
        for row in self.material.rows:
            if row.trials:
                place = near.setdefault((row.case, row.torch, row.device), {})
                place.setdefault((row.repro, row.workaround), []).append(row)
        template = self.env.get_template("evidence.html")
        for document in self.material.documents:
            case = cases.get(document.case)
            if case is None:
                continue
            key = (document.machine_id, document.target_id, document.case)
            rows = self.material.rows_of.get(key, [])
            torch, device = str(document.target.get("torch")), str(document.target.get("device"))
            others = {
                cell: [r for r in found if (r.machine, r.target) != key[:2]]
                for cell, found in near.get((case.id, torch, device), {}).items()
            }
            address = links.evidence_page(*key)
            root = "../" * address.count("/")
            view = records.page(document, case, rows, others)
            yield address, template.render(
                root=root, page=view, case=case, torch=torch, device=device, machine=document.machine_id,
                target=document.target_id,
            )  # fmt: skip

    def _data(self) -> Iterator[tuple[str, str | bytes]]:
        made = []
        for table, files in self.material.tables:
            for form, text in files.items():
                yield f"data/{table.name}.{form}", text
            made.append((table, {form: len(text) for form, text in files.items()}))
        for chart in self.material.charts:
            yield f"charts/{chart.name}.svg", chart.svg
            yield f"charts/{chart.name}.png", chart.png
        for found in self.material.timings.values():
            for file in found:
                yield f"timings/{file.name}", Path(file.path).read_bytes()
        yield "data.html", self._render("data.html", "", tables=made, charts=self.material.charts)
