"""The words of the report: symbol, letter, colour and plain meaning of every verdict."""

from __future__ import annotations

from dataclasses import dataclass

NOT_RUN = "not run"
MIXED = "mixed"
STALE = "stale"


@dataclass(frozen=True)
class Word:
    """A verdict as it is shown. ``symbol`` stands in pages and ``letter`` in charts; ``tone`` names
    the colour of a page's style sheet, ``colour`` that of a chart (Okabe and Ito's palette)."""

    name: str
    symbol: str
    letter: str
    tone: str
    colour: str
    meaning: str

    @property
    def css(self) -> str:
        """Class name: ``not-run``."""
        return self.name.replace(" ", "-")


_BAD, _GOOD, _WARN, _NO, _NEUTRAL, _DIM, _NONE, _HALF = (
    "#d55e00", "#56b4e9", "#f0e442", "#cc79a7", "#e3e3e3", "#b5b5b5", "#ffffff", "#e69f00",
)  # fmt: skip

REPRO = {
    word.name: word
    for word in (
        Word("bug", "✗", "B", "bad", _BAD, "An attempt failed in the way that the case describes."),
        Word("clean", "✓", "C", "good", _GOOD, "Every attempt ran and gave the right result."),
        Word("other", "!", "O", "warn", _WARN, "It failed in another way, so it is not counted as this bug."),
        Word(
            "unknown", "?", "?", "dim", _DIM,
            "Tried, but it tells nothing: it could not be installed, this release or Python does not "
            "support it, or a control failed.",
        ),
        Word(MIXED, "◐", "M", "half", _HALF, "Records of the same release disagree; each is linked."),
        Word(
            STALE, "↻", "S", "dim", _NEUTRAL,
            "Recorded with an earlier wording of the repro. Not counted until it is run again.",
        ),
        Word(NOT_RUN, "·", "", "none", _NONE, "Nobody has run this here."),
    )
}  # fmt: skip

WORKAROUND = {
    word.name: word
    for word in (
        Word("holds", "✓", "H", "good", _GOOD, "The release shows the bug; with this it runs and is right."),
        Word("fails", "✗", "F", "bad", _BAD, "The same bug is still there."),
        Word("breaks", "!", "X", "warn", _WARN, "The bug is gone, but something else fails or is wrong."),
        Word("rejected", "⊘", "R", "no", _NO, "torch refuses the setting: it cannot be used there."),
        Word(MIXED, "◐", "M", "half", _HALF, "Holds for some repros or records and not for others."),
        Word("moot", "–", "-", "dim", _NEUTRAL, "The release does not show the bug: nothing to avoid."),
        Word("unknown", "?", "?", "dim", _DIM, "Tried, but nothing can be concluded."),
        Word(STALE, "↻", "S", "dim", _NEUTRAL, "Recorded with an earlier wording; not counted."),
        Word(NOT_RUN, "·", "", "none", _NONE, "Nobody has run this here."),
    )
}

CLAIM = {
    word.name: word
    for word in (
        Word("holds", "✓", "H", "good", _GOOD, "Measured, and everywhere as predicted."),
        Word("holds on some", "◐", "M", "half", _HALF, "As predicted in some places, not in others."),
        Word("refuted", "✗", "F", "bad", _BAD, "Measured, and nowhere as predicted."),
        Word(
            "nothing to test", "–", "-", "dim", _NEUTRAL,
            "Where it was tried the bug does not show, so there is nothing that could be avoided.",
        ),
        Word(NOT_RUN, "·", "", "none", _NONE, "No record says anything about it."),
    )
}  # fmt: skip

ADVICE = {
    word.name: word
    for word in (
        Word("holds", "✓", "H", "good", _GOOD, "Holds wherever it was measured."),
        Word("holds on some", "◐", "M", "half", _HALF, "Holds on some releases or repros only."),
        Word("does not hold", "✗", "F", "bad", _BAD, "Measured; holds nowhere."),
        Word(NOT_RUN, "·", "", "none", _NONE, "Not measured on a release that shows the bug."),
    )
}


def word(verdict: str, workaround: bool = False) -> Word:
    """The word for a cell's verdict; an unheard-of one is shown as unknown."""
    words = WORKAROUND if workaround else REPRO
    return words.get(verdict, words["unknown"])
