"""Release ranges as a user types them: ``2.8..``, ``2.6..2.9``, ``2.14.1``, ``latest:5``, ``minors``.

Pure: a range is parsed once and then picks from any list of versions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

from harness.errors import UsageError

HINT = "write 2.14.1, 2.8.., ..2.5, 2.6..2.9, latest:5, minors, minors:2.8.., all, or a list with commas"


@dataclass(frozen=True)
class ReleaseRange:
    """A parsed range; an end given as ``2.9`` includes every patch of 2.9."""

    kind: str  # "span" | "latest" | "minors" | "list"
    low: Version | None = None
    high: Version | None = None
    count: int = 0
    parts: tuple[ReleaseRange, ...] = ()
    text: str = ""

    @staticmethod
    def parse(text: str) -> ReleaseRange:
        """Read ``text``.

        Raises:
            UsageError: it is no range, or its ends are the wrong way round.
        """
        text = text.strip()
        if len(text) > 500:
            raise UsageError(f"{text[:40]!r}... is too long for a range of releases", HINT)
        if "," in text:
            parts = tuple(ReleaseRange.parse(part) for part in text.split(",") if part.strip())
            if not parts:
                raise UsageError(f"{text!r} names no release", HINT)
            return ReleaseRange("list", parts=parts, text=text)
        if text == "all":
            return ReleaseRange("span", text=text)
        if text == "minors":
            return ReleaseRange("minors", text=text)
        if text.startswith("minors:"):
            inner = ReleaseRange.parse(text.removeprefix("minors:"))
            return ReleaseRange("minors", parts=(inner,), text=text)
        if match := re.fullmatch(r"latest(?::(\d{1,4}))?", text):
            count = int(match[1] or 1)
            if count < 1:
                raise UsageError(f"{text!r} names no release", HINT)
            return ReleaseRange("latest", count=count, text=text)
        if ".." in text:
            low_text, high_text = text.split("..", 1)
            low = _version(low_text, text) if low_text else None
            high = _version(high_text, text) if high_text else None
            if low and high and low > high and not _within(low, high):
                raise UsageError(f"range {text!r} runs backwards", f"write {high}..{low}")
            return ReleaseRange("span", low, high, text=text)
        version = _version(text, text)
        return ReleaseRange("span", version, version, text=text)

    def matches(self, version: Version) -> bool:
        """Whether a span holds ``version``; latest and minors need the whole list: :meth:`pick`."""
        if self.kind == "list":
            return any(part.matches(version) for part in self.parts)
        if self.kind == "minors" and self.parts:
            return self.parts[0].matches(version)
        if self.low and version < self.low:
            return False
        return not self.high or version <= self.high or _within(version, self.high)

    def pick(self, versions: Sequence[Version]) -> list[Version]:
        """Those of ``versions`` that the range means, oldest first. Pre-releases and dev builds
        only where an end of the range is one."""
        ordered = sorted(set(versions))
        if self.kind == "list":
            chosen = {v for part in self.parts for v in part.pick(ordered)}
            return sorted(chosen)
        pre = any(end is not None and end.is_prerelease for end in (self.low, self.high))
        stable = ordered if pre else [v for v in ordered if not v.is_prerelease]
        if not stable:  # a nightly index holds nothing else
            stable = ordered
        if self.kind == "latest":
            return stable[-self.count :]
        if self.kind == "minors":
            inner = self.parts[0].pick(stable) if self.parts else stable
            last = {(v.major, v.minor): v for v in inner}
            return sorted(last.values())
        return [v for v in stable if self.matches(v)]


def _version(text: str, whole: str) -> Version:
    try:
        return Version(text.strip())
    except InvalidVersion as exc:
        raise UsageError(f"{whole!r} is no release or range of releases", HINT) from exc


def _within(version: Version, end: Version) -> bool:
    """2.9 as an end includes 2.9.1: the given parts of the release agree."""
    if end.is_prerelease or end.local:
        return False
    return version.release[: len(end.release)] == end.release
