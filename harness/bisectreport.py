"""A finding in words: for the terminal, as markdown to paste into an issue, as JSON.

Every report ends with the range, the commits and the compare link, how sure, and the line that
repeats it.
"""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from harness.bisect import Finding, Trial, by_candidate
from harness.outcome import Outcome
from harness.question import Answer, Kind
from harness.subject import fingerprint, lacks_feature

COMPARE = "https://github.com/pytorch/pytorch/compare/{before}...{after}"
INCONCLUSIVE = {Kind.INCONCLUSIVE, Kind.CONTRADICTORY, Kind.UNTESTABLE}


def end(finding: Finding, index: int | None) -> dict[str, Any] | None:
    """One end of the range: version, date, commit."""
    if index is None:
        return None
    source = finding.plan.sources[index]
    facts = finding.facts.get(index, {})
    return {
        "torch": source.torch,
        "date": source.release.day if source.release else None,
        "git_version": facts.get("git_version"),
        "build": facts.get("build"),
    }


def compare_link(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str | None:
    """GitHub's comparison of the commits that the two wheels were built from."""
    if before and after and before["git_version"] and after["git_version"]:
        return COMPARE.format(before=before["git_version"], after=after["git_version"])
    return None


def headline(finding: Finding) -> str:
    """The answer in one sentence."""
    result, plan = finding.result, finding.plan
    name = plan.subject.label
    before, after = end(finding, result.before), end(finding, result.after)

    def say(place: dict[str, Any] | None) -> str:
        return f"torch {place['torch']} ({place['date'] or 'no date'})" if place else "none"

    first, last = plan.sources[0].torch, plan.sources[-1].torch
    if result.kind is Kind.FOUND and plan.find == "introduced":
        return f"{name} came with {say(after)}; the last release without it is {say(before)}."
    if result.kind is Kind.FOUND:
        return f"{name} was fixed in {say(after)}; the last release with it is {say(before)}."
    if result.kind is Kind.NOT_FIXED:
        newest = say(before) if before else last
        return f"{name} is not fixed as of the newest release that can run it, {newest}."
    if result.kind is Kind.EVERYWHERE:
        oldest = say(after) if after else first
        return f"{name} is in every release that can run it, from {oldest} on."
    if result.kind is Kind.NEVER:
        return f"{name} was not seen in any release from {first} to {last} that can run it."
    if result.kind is Kind.UNTESTABLE:
        return f"{name} cannot be judged on any release from {first} to {last}."
    if result.likely:
        low, high = (plan.sources[i].torch for i in result.likely)
        return f"{name}: inconclusive; with 90 % probability it changed between {low} and {high}."
    return f"{name}: {result.kind.value}; the evidence supports no answer."


def notes(finding: Finding) -> list[str]:
    """What a reader must know besides: the search's notes with versions for numbers, and changes of
    the failure along the way."""
    plan, result = finding.plan, finding.result
    found = []
    for change in result.transitions:
        into = "shows the bug" if change.into is Answer.BUG else "is clean"
        found.append(
            f"{plan.sources[change.before].torch} → {plan.sources[change.after].torch}: the later one {into}."
        )
    hidden = [plan.sources[i].torch for i in (*result.hidden, *result.untried)]
    if hidden:
        found.append("Not judged between the two: " + ", ".join(hidden) + "; the change may lie there.")
    shapes: dict[str, list[str]] = {}
    for trial in finding.trials:
        if trial.answer is Answer.BUG:
            shapes.setdefault(fingerprint(trial.outcome), []).append(plan.sources[trial.index].torch)
    if len(shapes) > 1:
        found.append("The bug does not look the same everywhere: " + _shapes(shapes))
    missing = [
        plan.sources[t.index].torch
        for t in finding.trials
        if t.answer is Answer.UNKNOWN and lacks_feature(t.outcome)
    ]
    if missing:
        listed = ", ".join(dict.fromkeys(missing))
        found.append(f"Lacks what is used, so neither bug nor clean: {listed}.")
    others = {
        fingerprint(t.outcome): plan.sources[t.index].torch
        for t in finding.trials
        if t.answer is Answer.UNKNOWN and not lacks_feature(t.outcome)
    }
    if others:
        listed = "; ".join(f"{torch}: {shape}" for shape, torch in list(others.items())[:5])
        found.append(f"Failed otherwise, counted for neither side: {listed}.")
    if result.noisy and result.rates:
        clean, bug = result.rates
        found.append(
            f"Outcomes are mixed: it fails in about {bug:.0%} of runs with the bug, {clean:.0%} without."
        )
    for note in (*result.notes, *finding.notes):
        if not _has_index(note):
            found.append(note)
    return found


def _has_index(note: str) -> bool:
    """Notes of the search that speak of candidate numbers are told in versions above."""
    return "candidate" in note or (" to " in note and any(c.isdigit() for c in note))


def _shapes(shapes: dict[str, list[str]]) -> str:
    parts = []
    for shape, versions in list(shapes.items())[:6]:
        unique = list(dict.fromkeys(versions))
        shown = unique[0] if len(unique) == 1 else f"{unique[0]} … {unique[-1]}"
        parts.append(f"{shown}: {shape}")
    return "; ".join(parts)


def rows(finding: Finding) -> list[dict[str, Any]]:
    """All that was run or recalled, a row a candidate, oldest first."""
    table = []
    for source, trials in by_candidate(finding):
        counts = Counter(t.answer for t in trials)
        telling = next((t for t in trials if t.answer is Answer.BUG), trials[-1])
        durations = [t.outcome.duration_s for t in trials if t.outcome.duration_s]
        table.append(
            {
                "torch": source.torch,
                "date": source.release.day if source.release else None,
                "answer": _answer(counts),
                "runs": len(trials),
                "hits": counts[Answer.BUG],
                "outcome": _words(telling.outcome),
                "why": telling.why,
                "duration_s": round(statistics.median(durations), 2) if durations else None,
                "recorded": all(t.recorded for t in trials),
                "git_version": finding.facts.get(trials[0].index, {}).get("git_version"),
            }
        )
    return table


def _answer(counts: Counter[Answer]) -> str:
    if counts[Answer.BUG] and counts[Answer.CLEAN]:
        return f"bug in {counts[Answer.BUG]} of {counts[Answer.BUG] + counts[Answer.CLEAN]}"
    for answer in (Answer.BUG, Answer.CLEAN):
        if counts[answer]:
            return str(answer.value)
    return str(Answer.UNKNOWN.value)


def _words(outcome: Outcome) -> str:
    parts = [str(outcome.kind)]
    if outcome.signal:
        parts.append(outcome.signal)
    if outcome.exception:
        parts.append(outcome.exception)
    if outcome.exit_code:
        parts.append(f"exit code {outcome.exit_code}")
    text = ", ".join(parts)
    return f"{text}: {outcome.message[:120]}" if outcome.message and str(outcome.kind) != "ok" else text


def as_json(finding: Finding, repeat: str) -> dict[str, Any]:
    """The report as data."""
    result, plan = finding.result, finding.plan
    before, after = end(finding, result.before), end(finding, result.after)
    cell = plan.subject.cell
    return {
        "case": cell.case.id,
        "issue": cell.case.issue,
        "repro": cell.repro,
        "workaround": cell.workaround,
        "device": plan.device,
        "find": plan.find,
        "kind": result.kind.value,
        "answer": headline(finding),
        "before": before,
        "after": after,
        "last_without": before if plan.find == "introduced" else None,
        "first_with": after if plan.find == "introduced" else None,
        "last_with": before if plan.find == "fixed" else None,
        "first_without": after if plan.find == "fixed" else None,
        "compare": compare_link(before, after),
        "confidence": None if result.confidence is None else round(result.confidence, 4),
        "likely": [plan.sources[i].torch for i in result.likely] if result.likely else None,
        "hidden": [plan.sources[i].torch for i in (*result.hidden, *result.untried)],
        "transitions": [
            {
                "before": plan.sources[t.before].torch,
                "after": plan.sources[t.after].torch,
                "into": t.into.value,
            }
            for t in result.transitions
        ],
        "candidates": len(plan.sources),
        "runs": finding.ran,
        "installed": finding.installed,
        "seconds": round(finding.seconds, 1),
        "notes": notes(finding),
        "table": rows(finding),
        "repeat": repeat,
    }


def as_markdown(finding: Finding, repeat: str) -> str:
    """The report to paste into an issue."""
    result = finding.result
    before, after = end(finding, result.before), end(finding, result.after)
    lines = [f"### {headline(finding)}", ""]
    if before and after:
        lines += [
            "| | torch | date | commit |",
            "|---|---|---|---|",
            *(
                f"| {name} | {p['torch']} | {p['date'] or ''} | {p['git_version'] or 'not known'} |"
                for name, p in (("before", before), ("after", after))
            ),
            "",
        ]
    link = compare_link(before, after)
    if link:
        lines += [f"Commits in between: {link}", ""]
    if result.confidence is not None:
        lines += [f"Confidence {result.confidence:.3f}; {sureness(finding)}", ""]
    lines += [f"- {note}" for note in notes(finding)]
    lines += ["", "| torch | date | answer | runs | outcome | seconds | |", "|---|---|---|---|---|---|---|"]
    for row in rows(finding):
        source = "on record" if row["recorded"] else ""
        text = str(row["why"] or row["outcome"]).replace("|", "\\|").replace("\n", " ")
        lines.append(
            f"| {row['torch']} | {row['date'] or ''} | {row['answer']} | {row['runs']} | {_code(text)} "
            f"| {row['duration_s'] or ''} | {source} |"
        )
    lines += [
        "",
        f"{len(finding.plan.sources)} candidates, {finding.ran} runs, "
        f"{finding.installed} environments made, {finding.seconds:.0f} s. To repeat:",
        "",
        f"    {repeat}",
        "",
    ]
    return "\n".join(lines)


def sureness(finding: Finding) -> str:
    """Why the answer is as sure as it is."""
    if finding.result.noisy:
        return "a posterior over the change point, failure rates on both sides unknown"
    pair = (finding.result.before, finding.result.after)
    runs = [sum(1 for t in finding.trials if t.index == index) for index in pair]
    text = f"all outcomes agree; the neighbours were run {runs[0]} and {runs[1]} times"
    asked = finding.plan.confidence
    if finding.plan.recorded and (finding.result.confidence or 0) < asked:
        return f"{text}; {asked:g} needs more runs than are on record"
    return text


def _code(text: str) -> str:
    safe = "".join(c if c.isprintable() else "·" for c in text)
    return "`" + safe.replace("`", "'") + "`"


def line_of(trial: Trial) -> str:
    """One trial in one line."""
    words = trial.why or _words(trial.outcome)
    return f"{trial.answer.value:<8}{trial.outcome.duration_s:6.1f} s  {words}"
