"""Addresses: of pages within the site, all relative to its root, and of commits and issues outside."""

from __future__ import annotations

import re
from urllib.parse import quote

from harness.case import Case
from harness.judge import Row
from harness.target import slug

_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


def issue_page(case: str) -> str:
    return f"issue/{case}.html"


def badge(case: str) -> str:
    return f"badge/{case}.svg"


def evidence_page(machine: str, target: str, case: str) -> str:
    """Mirrors where the record itself lies below ``results/records``."""
    return f"evidence/{slug(machine)}/{slug(target)}/{case}.html"


def cell_anchor(repro: str, workaround: str | None) -> str:
    return repro if workaround is None else f"{repro}+{workaround}"


def evidence(row: Row) -> str:
    """Where the evidence of a row is: its own attempts, or its baseline's where it was not run
    because that shows no bug."""
    page = evidence_page(row.machine, row.target, row.case)
    workaround = row.workaround if row.trials else None
    return f"{page}#{cell_anchor(row.repro, workaround)}"


def script(case: str, repro: str, device: str) -> str:
    return f"scripts/{case}/{repro}-{device}.py"


def answer_id(torch: str, device: str) -> str:
    """The address of an answer is its choice: ``torch=2.13.0&device=cpu``."""
    return f"torch={quote(torch, safe='+.-_')}&device={device}"


def short_name(case: Case) -> str:
    """``#188227`` for an issue on GitHub, else the case's id."""
    match = _GITHUB.match(case.issue or "")
    return f"#{match[2]}" if match else case.id


def safe_url(url: str | None) -> str | None:
    """``url`` where it is a web address; a case file may hold anything."""
    return url if url and re.match(r"https?://[^\s\"'<>]+$", url) else None


def compare(before: str | None, after: str | None) -> str | None:
    """The commits between two of torch's ``git_version``."""
    if not (before and after and _COMMIT.fullmatch(before) and _COMMIT.fullmatch(after)):
        return None
    return f"https://github.com/pytorch/pytorch/compare/{before}...{after}"


def commit(git_version: str | None) -> str | None:
    """One commit of torch."""
    if not (git_version and _COMMIT.fullmatch(git_version)):
        return None
    return f"https://github.com/pytorch/pytorch/commit/{git_version}"
