"""harness bisect: which release brought it, which took it away."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.bisect import Bisection, Finding, Plan, Trial
from harness.bisectreport import (
    INCONCLUSIVE,
    as_json,
    as_markdown,
    compare_link,
    end,
    headline,
    line_of,
    notes,
    rows,
    sureness,
)
from harness.cell import parse_cell
from harness.cli.options import (
    Budget,
    CasesDir,
    Channel,
    Offline,
    Python,
    ResultsDir,
    corpus,
    err,
    listed,
    out,
    say_problems,
)
from harness.due import Options
from harness.env import DEFAULT_BUDGET, Environments, default_home
from harness.errors import UsageError
from harness.live import clock, printable
from harness.question import Ask, Find
from harness.run import DEFAULT_TIMEOUT_S
from harness.store import Store
from harness.subject import Failure, Subject, command_subject, corpus_subject, script_subject
from harness.target import Source, parse_devices, pick_sources

app = typer.Typer()

Words = Annotated[
    list[str],
    typer.Argument(
        metavar="CASE[/REPRO[+WORKAROUND]] | SCRIPT.py [ARG]... | -- COMMAND...",
        help="A case of the corpus, a script, or a command with {python} in it.",
    ),
]


@app.command()
def bisect(
    what: Words,
    find: Annotated[
        str, typer.Option(help="introduced or fixed; both, one after the other, by default.")
    ] = "both",
    torch: Annotated[str, typer.Option(help="Candidates: all, 2.2.., 2.6..2.15, ...")] = "all",
    good: Annotated[str | None, typer.Option(help="A release known to be without the bug.")] = None,
    bad: Annotated[str | None, typer.Option(help="A release known to have it.")] = None,
    fails_with: Annotated[list[str] | None, typer.Option(help="Pattern in the output of a failure.")] = None,
    exit_code: Annotated[list[int] | None, typer.Option(help="Exit code of the failure.")] = None,
    signal: Annotated[list[str] | None, typer.Option(help="Signal of the failure, such as SIGSEGV.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=1, max=86400, help="Seconds; for a script, taking longer is the bug.")
    ] = None,
    limit: Annotated[
        float,
        typer.Option(min=1, max=86400, help="Seconds an attempt may take where --timeout is not the bug."),
    ] = DEFAULT_TIMEOUT_S,
    with_: Annotated[list[str] | None, typer.Option("--with", help="A package the script needs.")] = None,
    env: Annotated[list[str] | None, typer.Option(help="K=V for the script.")] = None,
    confidence: Annotated[float, typer.Option(min=0.5, max=0.9999)] = 0.95,
    confirm: Annotated[
        int, typer.Option(min=1, max=100, help="Runs that each neighbour of the change needs.")
    ] = 2,
    budget_runs: Annotated[int | None, typer.Option("--budget", min=1, help="Runs at most.")] = None,
    scan: Annotated[bool, typer.Option("--scan", help="Look at every release; report every change.")] = False,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Answer from the records; run nothing.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    channel: Channel = "pypi",
    python: Python = None,
    format_: Annotated[str, typer.Option("--format", help="table, md or json.")] = "table",
    save: Annotated[
        Path | None, typer.Option(help="Write the reports, .md and .json, into this folder.")
    ] = None,
    disk_budget: Budget = DEFAULT_BUDGET / 1e9,
    offline: Offline = False,
    cases_dir: CasesDir = Path("cases"),
    results: ResultsDir = Path("results"),
) -> None:
    """Which release brought the bug, which took it away, and how sure that is."""
    questions = _questions(find)
    if format_ not in ("table", "md", "json"):
        raise UsageError(f"no format is named {format_!r}", "known: table, md, json")
    (where, *more) = parse_devices(device)
    if more:
        raise UsageError("a bisection runs on one device", "write --device cpu or --device cuda")
    failure = Failure(
        tuple(fails_with or ()), tuple(exit_code or ()), tuple(signal or ()), timeout is not None
    )
    limit_s = timeout or limit
    subjects, store, packages = _subjects(what, cases_dir, results, where, failure, _pairs(env), limit_s)
    sources = list(reversed(pick_sources(listed(channel, offline), torch, python, tuple(with_ or packages))))
    environments = Environments(default_home(), int(disk_budget * 1e9), offline)
    reports = []
    worst = 0
    for subject in subjects:
        for question in questions:
            plan = Plan(
                subject, sources, where, question, good, bad, confidence,
                budget_runs, scan, 1 if recorded else confirm, recorded,
            )  # fmt: skip
            finding = _search(plan, store, environments, Options(jobs=1, timeout_s=limit_s))
            repeat = _repeat(question)
            report = as_json(finding, repeat)
            reports.append(report)
            _show(finding, format_, repeat)
            if save is not None:
                _save(save, report, as_markdown(finding, repeat))
            if finding.result.kind in INCONCLUSIVE:
                worst = 3
    if format_ == "json":
        sys.stdout.write(json.dumps(reports[0] if len(reports) == 1 else reports, indent=1) + "\n")
    say_problems(store)
    if worst:
        raise typer.Exit(worst)


def _questions(find: str) -> list[Find]:
    if find == "introduced":
        return ["introduced"]
    if find == "fixed":
        return ["fixed"]
    if find == "both":
        return ["introduced", "fixed"]
    raise UsageError(f"--find is introduced, fixed or both, not {find!r}")


def _pairs(env: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in env or []:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f"--env {text!r} is not of the form NAME=VALUE")
        pairs[name] = value
    return pairs


def _subjects(
    what: list[str], cases_dir: Path, results: Path, device: str, failure: Failure,
    env: dict[str, str], limit_s: float,
) -> tuple[list[Subject], Store, tuple[str, ...]]:  # fmt: skip
    """What to bisect, where its records lie, and the packages it needs."""
    scripts = Store(default_home() / "scripts" / "records")
    if "--" in sys.argv and not what[0].endswith(".py") and any("{python}" in w for w in what):
        return [command_subject(what, env, failure, limit_s)], scripts, ()
    if what[0].endswith(".py"):
        return [script_subject(Path(what[0]), what[1:], env, failure, limit_s)], scripts, ()
    if "--" in sys.argv and len(what) > 1:
        return [command_subject(what, env, failure, limit_s)], scripts, ()
    if len(what) > 1:
        raise UsageError("a bisection takes one case", "for a command write: harness bisect -- COMMAND")
    if (failure.stated and not failure.timeout) or env:
        raise UsageError(
            "--fails-with, --exit-code, --signal and --env are for scripts",
            "a case states its own failure and variables",
        )
    case_id = what[0].split("/", 1)[0]
    case, folder, repro, work = parse_cell(what[0], corpus(cases_dir, [case_id]))
    names = [repro] if repro else [n for n, r in case.repros.items() if r.role == "trigger"]
    names = [n for n in names if device in case.devices_of(n)]
    subjects = [corpus_subject(case, folder, name, work, device) for name in names]
    if not subjects:
        raise UsageError(f"{what[0]} has no trigger for {device}")
    return subjects, Store(results / "records"), tuple(case.packages)


class _Lines:
    """A line for each step, on stderr."""

    def asked(self, ask: Ask, source: Source, low: Source | None, high: Source | None) -> None:
        span = f"{low.torch if low else '…'} … {high.torch if high else '…'}"
        steps = f", about {ask.steps} to go" if ask.steps else ""
        err.print(f"  torch {source.torch}: {ask.reason} (change within {span}{steps})", markup=False)

    def answered(self, source: Source, trial: Trial) -> None:
        err.print(f"  torch {source.torch}: {printable(line_of(trial), 160)}", markup=False)


def _search(plan: Plan, store: Store, environments: Environments, options: Options) -> Finding:
    err.print(
        f"{plan.subject.label}: {plan.find}? {len(plan.sources)} candidates, "
        f"{plan.sources[0].torch} … {plan.sources[-1].torch}",
        markup=False,
    )
    job = Bisection(plan, store, environments, options, _Lines())
    try:
        return job.run()
    except KeyboardInterrupt:
        err.print("interrupted; all that ran is kept. To go on:", markup=False)
        err.print("  " + shlex.join(["harness", *sys.argv[1:]]), markup=False)
        raise typer.Exit(130) from None


def _repeat(question: Find) -> str:
    """The line that repeats one question."""
    words = list(sys.argv[1:])
    if "--find" in words:
        at = words.index("--find")
        del words[at : at + 2]
    words = [w for w in words if not w.startswith("--find=")]
    at = words.index("bisect") + 1 if "bisect" in words else 0
    return shlex.join(["harness", *words[:at], "--find", question, *words[at:]])


def _show(finding: Finding, format_: str, repeat: str) -> None:
    if format_ == "json":
        return
    if format_ == "md":
        sys.stdout.write(as_markdown(finding, repeat))
        return
    out.print(headline(finding), markup=False, style="bold", soft_wrap=True)
    before, after = end(finding, finding.result.before), end(finding, finding.result.after)
    for name, place in (("before", before), ("after", after)):
        if place:
            out.print(
                f"  {name:<7} torch {place['torch']:<10} {place['date'] or '':<11} "
                f"{place['git_version'] or 'commit not known'}",
                markup=False,
            )
    link = compare_link(before, after)
    if link:
        out.print(f"  compare {link}", markup=False, soft_wrap=True)
    if finding.result.confidence is not None:
        out.print(f"  sure    {finding.result.confidence:.3f}: {sureness(finding)}", markup=False)
    for note in notes(finding):
        out.print(f"  note    {printable(note, 600)}", markup=False, soft_wrap=True)
    for row in rows(finding):
        seconds = f"{row['duration_s']:.1f} s" if row["duration_s"] else ""
        where = "on record" if row["recorded"] else ""
        text = printable(str(row["why"] or row["outcome"]), 90)
        out.print(
            f"  {row['torch']:<12} {row['answer']:<10} {row['runs']:>2} run  {seconds:>8}  {where:<9} {text}",
            markup=False,
            soft_wrap=True,
        )
    out.print(
        f"  {finding.ran} runs, {finding.installed} environments made, {clock(finding.seconds)}. To repeat:",
        markup=False,
    )
    out.print(f"  {repeat}", markup=False, soft_wrap=True)


def _save(folder: Path, report: dict[str, object], markdown: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    parts = [report["case"], report["repro"], report["workaround"], report["device"], report["find"]]
    name = "-".join(str(part) for part in parts if part)
    for suffix, text in ((".json", json.dumps(report, indent=1) + "\n"), (".md", markdown)):
        part = folder / f".{name}{suffix}.part"
        part.write_text(text)
        part.replace(folder / f"{name}{suffix}")
