"""``harness check``: what a case expects, against the records. Pure, with its writers.

A case's own ``expect:`` are promises that somebody watches, unlike ``claims:``, which only say what
a source believes. Rules: those of :mod:`harness.report.evidence`. One row against it and an
expectation does not hold; with none for it either there is no evidence.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from harness.case import Case
from harness.judge import Row
from harness.report.claims import predicted
from harness.report.evidence import gather, spread
from harness.report.grid import shown
from harness.report.hostile import one_line, visible

HOLDS, DOES_NOT_HOLD, NO_EVIDENCE = "holds", "does not hold", "no evidence"
_XML_BAD = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Difference:
    """A row that an expectation did not foresee."""

    cell: str
    torch: str
    device: str
    machine: str
    target: str
    expected: str
    measured: str
    message: str

    @property
    def text(self) -> str:
        """One line: where, what was expected, what was measured."""
        said = f" ({self.message})" if self.message and self.measured != "clean" else ""
        return (
            f"{self.cell} on torch {self.torch}, {self.device}, {self.machine}: "
            f"expected {self.expected}, measured {self.measured}{said}"
        )


@dataclass(frozen=True)
class Checked:
    """An expectation and what became of it."""

    case: str
    number: int
    expected: str
    result: str
    measured: str
    differences: tuple[Difference, ...] = ()

    @property
    def name(self) -> str:
        return f"expect {self.number}: {self.expected}"


def check_expectations(cases: Iterable[Case], rows: Sequence[Row]) -> list[Checked]:
    """Every expectation of every case, in the order of the files."""
    results = []
    for case in cases:
        mine = [row for row in rows if row.case == case.id]
        for number, expectation in enumerate(case.expect, 1):
            evidence = gather(case, expectation, mine)
            wanted = " or ".join(evidence.expected)
            differences = tuple(_difference(row, wanted) for row in evidence.against)
            result = DOES_NOT_HOLD if differences else HOLDS if evidence.agree else NO_EVIDENCE
            told = evidence.told
            results.append(
                Checked(
                    case.id, number, predicted(expectation), result,
                    f"{len(told)} cells on torch {spread(told)}" if told else _why_silent(evidence.silent),
                    differences,
                )
            )  # fmt: skip
    return results


def _difference(row: Row, wanted: str) -> Difference:
    cell = f"{row.case}/{row.repro}" + (f"+{row.workaround}" if row.workaround else "")
    return Difference(
        cell, row.torch, row.device, row.machine, row.target, wanted, shown(row), one_line(row.message, 160)
    )


def _why_silent(rows: Sequence[Row]) -> str:
    said = sorted({one_line(row.message, 80) for row in rows if row.message})
    return "no record" if not said else "records that say nothing: " + "; ".join(said[:3])


def junit(results: Sequence[Checked]) -> str:
    """The results as JUnit XML: a suite a case; without evidence is skipped."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>']
    failed = sum(r.result == DOES_NOT_HOLD for r in results)
    silent = sum(r.result == NO_EVIDENCE for r in results)
    lines.append(
        f'<testsuites name="harness check" tests="{len(results)}" failures="{failed}" skipped="{silent}">'
    )
    for case in dict.fromkeys(r.case for r in results):
        mine = [r for r in results if r.case == case]
        failures = sum(r.result == DOES_NOT_HOLD for r in mine)
        skipped = sum(r.result == NO_EVIDENCE for r in mine)
        lines.append(
            f'  <testsuite name={_attr(case)} tests="{len(mine)}" failures="{failures}" '
            f'errors="0" skipped="{skipped}">'
        )
        for r in mine:
            head = f"    <testcase classname={_attr(case)} name={_attr(r.name)}"
            if r.result == DOES_NOT_HOLD:
                first = _attr(r.differences[0].text)
                body = escape(_xml("\n".join(d.text for d in r.differences)))
                lines.append(f'{head}>\n      <failure message={first} type="difference">{body}</failure>')
                lines.append("    </testcase>")
            elif r.result == NO_EVIDENCE:
                lines.append(f"{head}><skipped message={_attr(r.measured)}/></testcase>")
            else:
                lines.append(f"{head}/>")
        lines.append("  </testsuite>")
    lines.append("</testsuites>")
    return "\n".join(lines) + "\n"


def annotations(results: Iterable[Checked], files: dict[str, str] | None = None) -> str:
    """GitHub workflow commands: an error for each difference, a warning where there is no evidence.

    ``files`` maps a case id to the path of its file in the repository.
    """
    lines = []
    for r in results:
        file = (files or {}).get(r.case)
        where = f"file={_property(file)}," if file else ""
        title = _property(f"{r.case}: {r.expected}")
        if r.result == NO_EVIDENCE:
            lines.append(f"::warning {where}title={title}::{_data(f'no evidence: {r.measured}')}")
        lines += [f"::error {where}title={title}::{_data(d.text)}" for d in r.differences]
    return "".join(line + "\n" for line in lines)


def _xml(text: str) -> str:
    return _XML_BAD.sub("\ufffd", visible(text))


def _attr(text: str) -> str:
    return quoteattr(_xml(text))


def _data(text: str) -> str:
    return visible(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
