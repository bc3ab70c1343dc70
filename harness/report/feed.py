"""What changed between two publications, and the Atom feed of it. Pure: dates are the records'."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from harness.case import Case
from harness.judge import Row, version_key
from harness.report import links
from harness.report.grid import Grid
from harness.report.hostile import visible
from harness.report.legend import NOT_RUN
from harness.report.status import Status, bug_groups

SCHEMA = 1
KEPT = 60
_FEED = uuid.uuid5(uuid.NAMESPACE_URL, "compile-repro-harness/status")
_NEVER = "1970-01-01T00:00:00+00:00"

State = dict[str, Any]


@dataclass(frozen=True)
class Entry:
    """One change of one issue on one device: what a subscriber reads. ``updated`` is ISO, UTC."""

    title: str
    lines: tuple[str, ...]
    href: str
    updated: str

    @property
    def id(self) -> str:
        text = "\n".join((self.href, self.title, self.updated, *self.lines))
        return uuid.uuid5(_FEED, text).urn


def state(cases: Iterable[Case], rows: Sequence[Row], statuses: Iterable[Status]) -> State:
    """What is published, small enough to be kept: a verdict a release and workaround."""
    by_key = {(s.case, s.device): s for s in statuses if s.variant is None}
    found: State = {"schema": SCHEMA, "cases": {}}
    for case in cases:
        mine = [row for row in rows if row.case == case.id]
        bug = bug_groups(case)[0][1]
        devices: State = {}
        for device in sorted({row.device for row in mine}):
            status = by_key[case.id, device]
            here = [row for row in mine if row.device == device]
            grid = Grid(here)
            when: dict[str, str] = {}
            for row in here:
                if row.recorded:
                    when[row.torch] = max(when.get(row.torch, ""), row.recorded)
            devices[device] = {
                torch: {
                    "verdict": status.states.get(torch, NOT_RUN),
                    "recorded": when.get(torch, _NEVER),
                    "workarounds": {
                        work: verdict
                        for work in case.workarounds
                        if (verdict := grid.together(bug, work, torch).verdict) not in (NOT_RUN, "moot")
                    },
                }
                for torch in status.states
            }
        found["cases"][case.id] = {"title": case.title, "name": links.short_name(case), "devices": devices}
    return found


def changes(old: State | None, new: State) -> list[Entry]:
    """Entries for what ``new`` says otherwise than ``old``; all of it where there is no ``old``."""
    before = (old or {}).get("cases") or {}
    found = []
    for case, value in new["cases"].items():
        known = (before.get(case) or {}).get("devices") or {}
        for device, releases in value["devices"].items():
            href = links.issue_page(case)
            if device not in known:
                found.append(_first(value, device, releases, href))
                continue
            for torch, now in releases.items():
                entry = _changed(value["name"], device, torch, known[device].get(torch), now, href)
                if entry is not None:
                    found.append(entry)
            for torch in known[device]:
                if torch not in releases:
                    title = f"{value['name']} on {device}: torch {torch} has no record any more"
                    newest = max((r["recorded"] for r in releases.values()), default=_NEVER)
                    found.append(Entry(title, (), href, newest))
    return found


def _first(value: State, device: str, releases: State, href: str) -> Entry:
    bug = [torch for torch, now in releases.items() if now["verdict"] == "bug"]
    bug.sort(key=version_key)
    shows = f"{len(bug)} of {len(releases)} releases show the bug" if bug else "no release shows the bug"
    lines = [f"torch {torch}: {now['verdict']}" for torch, now in reversed(releases.items())]
    newest = max((now["recorded"] for now in releases.values()), default=_NEVER)
    return Entry(f"{value['name']} on {device}: first published, {shows}", tuple(lines), href, newest)


def _changed(
    name: str, device: str, torch: str, was: dict[str, Any] | None, now: dict[str, Any], href: str
) -> Entry | None:
    if was is None:
        holds = [work for work, verdict in now["workarounds"].items() if verdict == "holds"]
        lines = ["holds: " + ", ".join(holds)] if holds else []
        title = f"{name} on {device}: torch {torch} added: {now['verdict']}"
        return Entry(title, tuple(lines), href, now["recorded"])
    lines = []
    works = dict.fromkeys([*now["workarounds"], *was["workarounds"]])
    for work in works:
        old, new = was["workarounds"].get(work, NOT_RUN), now["workarounds"].get(work, NOT_RUN)
        if old != new:
            lines.append(f"workaround {work}: {old} → {new}")
    if was["verdict"] != now["verdict"]:
        title = f"{name} on {device}: torch {torch} was {was['verdict']}, is {now['verdict']}"
    elif lines:
        title = f"{name} on {device}: workarounds on torch {torch} changed"
    else:
        return None
    return Entry(title, tuple(lines), href, now["recorded"])


def remembered(old: State | None) -> list[Entry]:
    """Entries of earlier publications."""
    return [
        Entry(str(e["title"]), tuple(map(str, e["lines"])), str(e["href"]), str(e["updated"]))
        for e in (old or {}).get("entries") or []
    ]


def keep(new: Sequence[Entry], old: Sequence[Entry]) -> list[Entry]:
    """Newest first, the last :data:`KEPT`."""
    entries = {entry.id: entry for entry in (*new, *old)}
    return sorted(entries.values(), key=lambda e: e.updated, reverse=True)[:KEPT]


def as_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """Entries for the state file."""
    return [{"title": e.title, "lines": list(e.lines), "href": e.href, "updated": e.updated} for e in entries]


def atom(entries: Sequence[Entry]) -> str:
    """The feed. Links are relative to it: the site does not know where it will lie."""
    updated = entries[0].updated if entries else _NEVER
    out = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        "<title>torch.compile bugs: changes of status</title>",
        f"<id>{_FEED.urn}</id>",
        f"<updated>{_date(updated)}</updated>",
        "<author><name>compile-repro-harness</name></author>",
        '<link rel="self" href="feed.xml"/>',
        '<link rel="alternate" type="text/html" href="index.html"/>',
    ]
    for entry in entries:
        body = "\n".join(entry.lines) or entry.title
        out += [
            "<entry>",
            f"<title>{_xml(entry.title)}</title>",
            f"<id>{entry.id}</id>",
            f"<updated>{_date(entry.updated)}</updated>",
            f"<link href={quoteattr(entry.href)}/>",
            f'<content type="text">{_xml(body)}</content>',
            "</entry>",
        ]
    out.append("</feed>")
    return "\n".join(out) + "\n"


def _xml(text: str) -> str:
    return escape(visible(text))


def _date(text: str) -> str:
    return escape(text.replace("+00:00", "Z"))
