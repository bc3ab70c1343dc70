"""A badge for an issue: one line of SVG for somebody's README."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from harness.report.hostile import visible
from harness.report.status import Status

# White on each of these has a contrast of at least 4.5.
_COLOURS = {
    "affected": "#a83f00",
    "fixed": "#00629b",
    "not seen": "#00629b",
    "unclear": "#7a5c00",
    "not run": "#5f6368",
}
_WORST = ("affected", "unclear", "fixed", "not seen", "not run")
_WIDE, _NARROW = "mwMW%@", "iljtfr.,:;|!'()[] -1"


def badge_svg(name: str, statuses: Sequence[Status]) -> str:
    """The badge of an issue, from its status on each device (neighbours left out)."""
    told = [s for s in statuses if s.variant is None and s.summary != "not run"]
    words = [f"{s.device} {_short(s)}" for s in told] or ["not run"]
    worst = next((w for w in _WORST if any(s.summary == w for s in told)), "not run")
    left, right = visible(name), " · ".join(words)
    a, b = _width(left) + 14, _width(right) + 14
    label = escape(f"{left}: {right}", quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{a + b}" height="20" role="img" '
        f'aria-label="{label}"><title>{label}</title>'
        f'<rect width="{a + b}" height="20" rx="3" fill="#33373d"/>'
        f'<path d="M{a} 0h{b - 3}a3 3 0 0 1 3 3v14a3 3 0 0 1 -3 3h-{b - 3}z" fill="{_COLOURS[worst]}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">'
        f'<text x="7" y="14" textLength="{a - 14}">{escape(left)}</text>'
        f'<text x="{a + 7}" y="14" textLength="{b - 14}">{escape(right)}</text></g></svg>\n'
    )


def _short(status: Status) -> str:
    if status.summary == "affected":
        return f"affected since {status.first}"
    if status.summary == "fixed":
        return f"fixed in {status.fixed_in}"
    return status.summary


def _width(text: str) -> int:
    return round(sum(10.5 if c in _WIDE else 4.6 if c in _NARROW else 7.1 for c in text))
