"""The words of the boundary search: what is asked of it, what it asks back, what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Literal


class Answer(Enum):
    """What one run of a candidate says."""

    BUG = "bug"
    CLEAN = "clean"
    UNKNOWN = "unknown"


Find = Literal["introduced", "fixed"]
Evidence = Sequence[tuple[int, Answer]]


class Kind(Enum):
    """What sort of answer a search ended with."""

    FOUND = "found"
    NOT_FIXED = "not fixed as of the newest"
    EVERYWHERE = "in every candidate that can run it"
    NEVER = "never seen"
    UNTESTABLE = "no candidate can run it"
    INCONCLUSIVE = "inconclusive"
    CONTRADICTORY = "contradictory"


@dataclass(frozen=True)
class Confirm:
    """Runs that the two neighbours of the change need, all told, before the answer stands.

    They guard against a flaky bug that looked clean once. The bug must also show ``bug`` times in
    all before the search narrows anything. With ``until_sure`` more runs follow until the stated
    confidence is reached; without it these counts are enough.
    """

    clean: int = 3
    bug: int = 3
    until_sure: bool = True


@dataclass(frozen=True)
class Question:
    """What is asked of ``n`` candidates.

    ``good`` and ``bad`` are ends that somebody states: known clean, known to have the bug.
    ``grid`` is probed first where the bug has to be met. ``budget`` is the number of runs, recorded
    ones included, at which the search stops. ``cost`` is the present price of running each
    candidate, where one that must be installed costs 1 and one that is installed about 0.1;
    without it, those that were tried count as installed. ``qualify`` is how often a stated bad end
    may look clean before it is believed. ``thorough`` tries candidates too that lie beyond the
    oldest or newest one that can run it. ``skips`` bounds what unknowns may cost: at most
    ceil(log2(n)) + skips candidates are tried between the ends, and those of the range that are
    left then are reported as untried; None tries them all, so that the range is the narrowest.
    """

    n: int
    find: Find
    good: int | None = None
    bad: int | None = None
    grid: tuple[int, ...] = ()
    confidence: float = 0.95
    budget: int | None = None
    confirm: Confirm = Confirm()
    scan: bool = False
    cost: tuple[float, ...] | None = None
    qualify: int = 20
    thorough: bool = False
    skips: int | None = None

    def __post_init__(self) -> None:
        for index in (self.good, self.bad, *self.grid):
            if index is not None and not 0 <= index < self.n:
                raise ValueError(f"candidate {index} is not among 0 to {self.n - 1}")
        if self.n < 1 or (self.cost is not None and len(self.cost) != self.n):
            raise ValueError("a question needs at least one candidate and a cost for each")
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"a confidence lies between 0.5 and 1, not at {self.confidence}")
        older, newer = (self.good, self.bad) if self.find == "introduced" else (self.bad, self.good)
        if older is not None and newer is not None and older >= newer:
            order = "good before bad" if self.find == "introduced" else "bad before good"
            raise ValueError(f"to find where it was {self.find}, the ends must be {order}")


@dataclass(frozen=True)
class Ask:
    """Run this candidate next.

    The change is known to lie after ``low`` and not after ``high`` (None: no such bound yet);
    ``steps`` estimates the candidates still to be tried.
    """

    index: int
    reason: str
    low: int | None = None
    high: int | None = None
    steps: int | None = None


@dataclass(frozen=True)
class Transition:
    """Two neighbours in the evidence that differ; ``into`` is what ``after`` shows."""

    before: int
    after: int
    into: Answer


@dataclass(frozen=True)
class Result:
    """The answer.

    The change lies after ``before`` and not after ``after``: the last without and the first with
    the bug for "introduced", the last with and the first without it for "fixed". ``hidden`` are
    the candidates between them that cannot be tested, ``untried`` those nobody tried though the
    answer speaks of them. ``confidence`` is the probability of the pair (None where no pair is
    claimed); ``likely`` is the range, as (before, after), that holds 90 % of it. ``rates`` are the
    failure rates of the clean side and the bug side, estimated where outcomes are mixed.
    ``contradicted``: the evidence holds more changes than the search assumed.
    """

    find: Find
    kind: Kind
    before: int | None = None
    after: int | None = None
    hidden: tuple[int, ...] = ()
    untried: tuple[int, ...] = ()
    confidence: float | None = None
    likely: tuple[int, int] | None = None
    transitions: tuple[Transition, ...] = ()
    noisy: bool = False
    rates: tuple[float, float] | None = None
    contradicted: bool = False
    asked: int = 0
    runs: int = 0
    notes: tuple[str, ...] = ()

    @property
    def last_without(self) -> int | None:
        """The last candidate before the bug came; None when that was not asked."""
        return self.before if self.find == "introduced" else None

    @property
    def first_with(self) -> int | None:
        """The first candidate that has the bug; None when that was not asked."""
        return self.after if self.find == "introduced" else None

    @property
    def last_with(self) -> int | None:
        """The last candidate that still has the bug; None when that was not asked."""
        return self.before if self.find == "fixed" else None

    @property
    def first_without(self) -> int | None:
        """The first candidate after the bug left; None when that was not asked."""
        return self.after if self.find == "fixed" else None


@dataclass(frozen=True)
class Done:
    """Nothing more to run."""

    result: Result


def kind_of(find: Find, clean: int | None, bug: int | None) -> Kind:
    """What it means that the change has these neighbours, one of which may not exist."""
    if bug is None:
        return Kind.NEVER
    if clean is None:
        return Kind.NOT_FIXED if find == "fixed" else Kind.EVERYWHERE
    return Kind.FOUND


def turns(shows: Mapping[int, bool]) -> tuple[Transition, ...]:
    """All neighbours that differ; ``shows`` says in order what each candidate shows."""
    return tuple(
        Transition(before, after, Answer.BUG if shows[after] else Answer.CLEAN)
        for before, after in pairwise(shows)
        if shows[before] != shows[after]
    )


def count(number: int, noun: str) -> str:
    """A number and its noun, in the plural where it must be."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def notes_for(
    question: Question,
    kind: Kind,
    hidden: tuple[int, ...],
    untried: tuple[int, ...],
    others: list[Transition],
    noisy: bool,
    mass: float | None,
) -> list[str]:
    """What a reader must know besides the pair, in plain sentences."""
    notes = []
    if hidden and kind in (Kind.FOUND, Kind.INCONCLUSIVE):
        notes.append(
            f"{count(len(hidden), 'candidate')} between the two cannot be tested, "
            "so the change may hide there."
        )
    elif hidden:
        notes.append(f"{count(len(hidden), 'candidate')} cannot run it.")
    if untried and kind in (Kind.NOT_FIXED, Kind.EVERYWHERE):
        side = "newer" if kind is Kind.NOT_FIXED else "older"
        notes.append(
            f"{count(len(untried), 'candidate')} not tried: the nearest {side} ones that were "
            "tried cannot run it."
        )
    if kind is Kind.NEVER:
        notes.append("Most were run once, so a bug that shows only now and then can be missed.")
    if untried and kind is Kind.FOUND:
        notes.append(f"{count(len(untried), 'candidate')} between the two not tried.")
    places = ", ".join(f"{t.before} to {t.after}" for t in others)
    if others and kind is Kind.FOUND:
        notes.append(f"The bug was {question.find} more than once: also from {places}.")
    elif others and kind is Kind.NOT_FIXED:
        notes.append(f"The bug had gone before, from {places}, and came back.")
    if noisy:
        notes.append("Some candidates gave mixed outcomes, so the answer is a probability.")
    if kind is Kind.FOUND and mass is not None and mass < question.confidence:
        notes.append(f"The evidence gives {mass:.2f}, less than the {question.confidence:g} asked.")
    return notes
