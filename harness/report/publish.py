"""``harness publish``: tables, charts and the site, written where they belong.

The site's folder carries ``.harness-site.json``, written last, which lists the files that this
harness put there. Only these are ever removed; a folder with other things in it and no such list is
refused. Beside the folder lies ``<name>.state.json``: what was published, for the next feed.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.case import Case
from harness.cell import make_cell, repro_cells, workaround_cells
from harness.errors import StoreError, UsageError
from harness.judge import Digests, Row, judge, version_key
from harness.report import charts, claims, feed, seams, site, tables
from harness.report.front import Book
from harness.report.grid import settle
from harness.report.status import devices
from harness.store import Document, Store

MARKER = ".harness-site.json"
SCHEMA = 1


@dataclass(frozen=True)
class Published:
    """What was written. ``changes`` are the feed's new entries, ``problems`` what was left out."""

    site: Path
    pages: int
    files: int
    written: int
    tables: list[Path]
    charts: list[Path]
    changes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def publish(
    store: Store, cases_with_folders: Sequence[tuple[Case, Path]], out_dir: Path, results_dir: Path
) -> Published:
    """Make everything from the records of ``store``.

    Tables go to ``results_dir/tables``, charts to ``results_dir/charts``, the site to ``out_dir``.
    The same records after the same previous publication give the same bytes.

    Raises:
        UsageError: ``out_dir`` holds something that is not a site of ours.
        StoreError: something cannot be written.
    """
    previous = _own_files(out_dir)
    state_file = out_dir.with_name(f"{out_dir.name}.state.json")
    old = _read_state(state_file)
    cases = [case for case, _ in cases_with_folders]
    documents, rows, rows_of = _judged(store, cases, digests_of(cases_with_folders))
    book = site.make_book(cases, rows)
    ledger = claims.ledger(cases, rows)
    formed = [(table, tables.files(table)) for table in make_tables(book, rows, ledger)]
    made_charts = make_charts(cases, rows, results_dir / "charts")
    if (results_dir / "timings").is_dir():
        from harness.report.timing_files import write_timings

        write_timings(results_dir)
    reports, problems = seams.bisections(results_dir / "bisect")
    problems = [*store.problems, *problems, *_strangers(documents, cases)]
    state = feed.state(cases, rows, [s for found in book.statuses.values() for s in found])
    try:
        changes, remembered = feed.changes(old, state), feed.remembered(old)
    except (KeyError, TypeError, AttributeError):  # the file beside the site is not what we wrote
        changes, remembered = feed.changes(None, state), []
    entries = feed.keep(changes, remembered)
    material = site.Material(
        book=book, cases=tuple(cases), rows=tuple(rows), documents=tuple(documents), rows_of=rows_of,
        claims=tuple(ledger), tables=tuple(formed),
        charts=tuple(made_charts),
        scripts=export_scripts(cases_with_folders), bisections=reports,
        timings={case.id: seams.timings(results_dir, case.id) for case in cases}, entries=tuple(entries),
    )  # fmt: skip
    try:
        table_files = write_tables(formed, results_dir / "tables")
        chart_files = write_charts(made_charts, results_dir / "charts")
        files, written, pages = _write_site(out_dir, material, previous)
        _write(state_file, _json({**state, "entries": feed.as_json(entries)}))
    except OSError as exc:
        raise StoreError(
            f"the site cannot be written: {exc.strerror or exc}",
            "make room, or name another folder: --out DIR",
        ) from exc
    return Published(
        out_dir, pages, files, written, table_files, chart_files, [e.title for e in changes], problems
    )


def digests_of(cases_with_folders: Iterable[tuple[Case, Path]]) -> Digests:
    """Digests of every cell of the corpus as it is now."""
    found: Digests = {}
    for case, folder in cases_with_folders:
        for cell in repro_cells(case, folder):
            for each in (cell, *workaround_cells(case, folder, cell.repro)):
                found[case.id, each.repro, each.workaround] = each.digest
    return found


def _judged(
    store: Store, cases: Sequence[Case], digests: Digests
) -> tuple[list[Document], list[Row], dict[tuple[str, str, str], list[Row]]]:
    """Documents, and their rows in the order of ``judge_all``, in one reading of the store."""
    by_id = {case.id: case for case in cases}
    documents = list(store.documents())
    rows_of: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    rows = settle(row for doc in documents for row in judge(doc, by_id.get(doc.case), digests))
    for row in rows:
        rows_of[row.machine, row.target, row.case].append(row)
    order = {name: index for index, name in enumerate(by_id)}
    keys = {torch: version_key(torch) for torch in {row.torch for row in rows}}
    rows.sort(key=lambda r: keys[r.torch], reverse=True)
    rows.sort(key=lambda r: (order.get(r.case, len(order)), r.machine, r.device))
    return documents, rows, rows_of


def make_tables(book: Book, rows: Sequence[Row], ledger: Iterable[claims.ClaimResult]) -> list[tables.Table]:
    """The flat table, the pivots of every case and device with records, claims, status."""
    made = [
        tables.flat(rows),
        tables.status_table(s for found in book.statuses.values() for s in found),
        tables.claims_table(ledger),
    ]
    for case in book.cases:
        for device in devices(case, rows):
            grid = book.grids[case.id, device]
            if grid.releases:
                made.append(tables.pivot_repros(case, device, grid))
                if case.workarounds:
                    made.append(tables.pivot_workarounds(case, device, grid))
    return made


def make_charts(cases: Sequence[Case], rows: Sequence[Row], folder: Path | None = None) -> list[charts.Chart]:
    """Heat maps of every case, device and machine with records; those that lie in ``folder``
    already are not drawn again."""

    def kept(sheet: charts.Sheet) -> charts.Chart | None:
        if folder is None:
            return None
        try:
            svg, png = ((folder / f"{sheet.name}.{form}").read_bytes() for form in ("svg", "png"))
        except OSError:
            return None
        digest = sheet.digest.encode()
        whole = svg.rstrip().endswith(b"</svg>") and png.rstrip().endswith(b"IEND\xaeB`\x82")
        if whole and digest in svg[:2000] and digest in png[:2000]:
            return charts.Chart(sheet.name, sheet.title, svg, png, sheet.case)
        return None

    return charts.draw([sheet for case in cases for sheet in charts.sheets(case, rows)], kept)


def write_tables(made: Iterable[tuple[tables.Table, dict[str, str]]], folder: Path) -> list[Path]:
    """Each table as CSV, JSON and markdown."""
    files = []
    for table, forms in made:
        for form, text in forms.items():
            file = folder / f"{table.name}.{form}"
            _write(file, text.encode())
            files.append(file)
    return files


def write_charts(made: Iterable[charts.Chart], folder: Path) -> list[Path]:
    """Each chart as SVG and PNG."""
    files = []
    for chart in made:
        for form, data in (("svg", chart.svg), ("png", chart.png)):
            file = folder / f"{chart.name}.{form}"
            _write(file, data)
            files.append(file)
    return files


def export_scripts(cases_with_folders: Iterable[tuple[Case, Path]]) -> dict[tuple[str, str, str], str]:
    """Self-contained scripts of the repros, where they can be exported."""
    make = seams.exporter()
    found = {}
    for case, folder in cases_with_folders:
        for name in case.repros:
            for device in case.devices_of(name):
                source = seams.export(make_cell(case, folder, name), device, make)
                if source is not None:
                    found[case.id, name, device] = source
    return found


def _strangers(documents: Iterable[Document], cases: Iterable[Case]) -> list[str]:
    unknown = sorted({d.case for d in documents} - {case.id for case in cases})
    return [
        f"records of {name}: no such case in the corpus, so they are in the tables alone" for name in unknown
    ]


def _write_site(out_dir: Path, material: site.Material, previous: set[str]) -> tuple[int, int, int]:
    names: list[str] = []
    written = 0
    marker = out_dir / MARKER
    if not marker.exists():
        # Claimed before it is filled: what a killed first run leaves is ours to go on with.
        _write(marker, _json({"schema": SCHEMA, "complete": False, "files": sorted(previous)}))
    for name, content in site.Site(material).files():
        data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
        written += _write(out_dir / name, data)
        names.append(name)
    for name in previous - set(names):
        _remove(out_dir, name)
    _write(marker, _json({"schema": SCHEMA, "complete": True, "files": sorted(names)}))
    return len(names), written, sum(name.endswith(".html") for name in names)


def _own_files(out_dir: Path) -> set[str]:
    """Files that an earlier publication wrote there.

    Raises:
        UsageError: the folder has things in it and no list of ours.
    """
    marker = out_dir / MARKER
    if out_dir.exists() and not out_dir.is_dir():
        raise UsageError(f"{out_dir} is no folder", "name a folder: --out DIR")
    if not marker.exists():
        if out_dir.is_dir() and any(out_dir.iterdir()):
            raise UsageError(
                f"{out_dir} holds files that are not a site of this harness",
                "name an empty or new folder: --out DIR",
            )
        return set()
    try:
        value = json.loads(marker.read_bytes())
        return {str(name) for name in value["files"]}
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def _remove(out_dir: Path, name: str) -> None:
    file = out_dir / name
    if ".." in Path(name).parts or Path(name).is_absolute() or not file.is_file():
        return
    file.unlink()
    for folder in file.parents:
        if folder == out_dir or any(folder.iterdir()):
            break
        folder.rmdir()


def _read_state(file: Path) -> feed.State | None:
    try:
        value = json.loads(file.read_bytes())
        if value.get("schema") != feed.SCHEMA or not isinstance(value.get("cases"), dict):
            return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(value)


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _write(file: Path, data: bytes) -> bool:
    """Whole file, renamed into place; untouched where it holds just that."""
    try:
        if file.read_bytes() == data:
            return False
    except OSError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return True
