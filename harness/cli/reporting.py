"""Commands that read the records: results, check, publish, export."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.casefile import load_corpus
from harness.cell import make_cell, parse_cell
from harness.cli.options import Cases, CasesDir, ResultsDir, corpus, err, out, say_problems
from harness.errors import UsageError
from harness.store import Store
from harness.target import parse_devices

# pandas and matplotlib take a second to import, so the commands that need them import them.
if TYPE_CHECKING:
    from harness.judge import Row

app = typer.Typer()


def _rows(names: list[str] | None, cases_dir: Path, results: Path) -> list[Row]:
    """Judged rows of the named cases, or of every record there is."""
    from harness.judge import judge_all
    from harness.report.publish import digests_of

    cases = corpus(cases_dir, names)
    store = Store(results / "records")
    rows = judge_all(store, [case for case, _ in cases], digests_of(cases))
    say_problems(store)
    wanted = {case.id for case, _ in cases}
    return [row for row in rows if row.case in wanted] if names else rows


@app.command("results")
def results_command(
    cases: Cases = None,
    format_: Annotated[str, typer.Option("--format", help="table, json, csv or md.")] = "table",
    torch: Annotated[str | None, typer.Option(help="One release.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda.")] = None,
    verdict: Annotated[str | None, typer.Option(help="One verdict, such as bug or holds.")] = None,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """The flat table, a row a cell, verdicts computed now from what is on record."""
    from harness.report import tables

    known = ("table", "json", "csv", "md")
    if format_ not in known:
        raise UsageError(f"no format is named {format_!r}", "known: " + ", ".join(known))
    devices = parse_devices(device) if device else None
    rows = [
        row
        for row in _rows(cases, cases_dir, results)
        if (torch is None or row.torch == torch)
        and (devices is None or row.device in devices)
        and (verdict is None or row.verdict == verdict)
    ]
    if format_ == "table":
        out.print(tables.to_rich(rows))
        if not rows:
            err.print("nothing is on record; harness matrix records something", markup=False)
    else:
        sys.stdout.write(tables.render(rows, format_))


@app.command()
def check(
    cases: Cases = None,
    format_: Annotated[str, typer.Option("--format", help="table, json, junit or github.")] = "table",
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of a case, and end.")
    ] = False,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """The corpus is well formed, and its expectations still hold against the records."""
    from harness.report import expectations as expected
    from harness.schema import schema_text

    if schema:
        sys.stdout.write(schema_text())
        return
    if format_ not in ("table", "json", "junit", "github"):
        raise UsageError(f"no format is named {format_!r}", "known: table, json, junit, github")
    loaded = load_corpus(cases_dir, cases)
    rows = _rows(cases, cases_dir, results)
    checked = expected.check_expectations(loaded, rows)
    if format_ == "json":
        sys.stdout.write(json.dumps([asdict(c) for c in checked], indent=1) + "\n")
    elif format_ == "junit":
        sys.stdout.write(expected.junit(checked))
    elif format_ == "github":
        files = {c.id: str(cases_dir / f"{c.id}.yaml") for c in loaded}
        sys.stdout.write(expected.annotations(checked, files))
    else:
        for case in loaded:
            out.print(
                f"{case.id}: well formed; {len(case.repros)} repros, {len(case.workarounds)} workarounds, "
                f"{len(case.claims)} claims",
                markup=False,
            )
        for item in checked:
            out.print(f"  {item.result:<14} {item.case}: {item.name}; {item.measured}", markup=False)
            for difference in item.differences[:10]:
                out.print(f"      {difference.text}", markup=False, soft_wrap=True)
    if any(item.result == expected.DOES_NOT_HOLD for item in checked):
        raise typer.Exit(1)


@app.command("publish")
def publish_command(
    out_dir: Annotated[Path | None, typer.Option("--out", help="Folder of the site.")] = None,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """Tables, charts and the results page, from the records."""
    from harness.report.publish import publish

    store = Store(results / "records")
    done = publish(store, corpus(cases_dir, None), out_dir or results / "site", results)
    for problem in done.problems:
        err.print(f"warning: {problem}", markup=False)
    out.print(
        f"{done.pages} pages, {len(done.tables)} tables, {len(done.charts)} charts; open "
        f"{os.path.join(done.site, 'index.html')}",  # noqa: PTH118 -- shown, not opened
        markup=False,
        soft_wrap=True,
    )
    for change in done.changes:
        out.print(f"  changed: {change}", markup=False)


@app.command("export")
def export_command(
    cell: Annotated[str, typer.Argument(metavar="CASE/REPRO[+WORKAROUND]")],
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="File; stdout by default.")] = None,
    cases_dir: CasesDir = Path("cases"),
) -> None:
    """One self-contained .py to paste into an issue: exits 1 where the bug is there, 0 where not."""
    from harness.export import export_cell

    (where, *_) = parse_devices(device)
    case, folder, repro, work = parse_cell(cell, corpus(cases_dir, [cell.split("/", 1)[0]]))
    if repro is None:
        raise UsageError("name a repro: CASE/REPRO", "known: " + ", ".join(case.repros))
    text = export_cell(make_cell(case, folder, repro, work), where)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)
