"""Measures harness.search against other rules on simulated histories, and writes docs/search.md.

A history has one change between two known ends; a candidate with the bug fails at one rate, a
clean one at another. All rules see the same outcomes: the k-th run of a candidate gives the same
answer to each of them. An install is the first run of a candidate.
"""

from __future__ import annotations

import argparse
import datetime
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import lgamma
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.search import Answer, Ask, Done, Kind, Question, step

FAILURE_RATES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
FALSE_RATES = (0.0, 0.05, 0.1, 0.2)
REPEATS = (1, 2, 3, 5, 8, 13, 21, 34)
RUN_LIMIT = 400
BEGIN = "<!-- simulation: begin (scripts/simulate_search.py writes this part) -->"
END = "<!-- simulation: end -->"

Floats = npt.NDArray[np.float64]


class History:
    """n candidates, the first ``first_bad`` of them clean; counts what is run."""

    def __init__(self, n: int, first_bad: int, fails: float, false: float, seed: int) -> None:
        self.n, self.first_bad, self.seed = n, first_bad, seed
        self.rate = fails, false
        self.streams: dict[int, random.Random] = {}
        self.runs = 0

    def run(self, index: int) -> bool:
        """Whether the next run of this candidate fails."""
        if index not in self.streams:
            self.streams[index] = random.Random(self.seed * 1_000_003 + index)
        self.runs += 1
        return self.streams[index].random() < self.rate[0 if index >= self.first_bad else 1]

    @property
    def installs(self) -> int:
        return len(self.streams)


@dataclass
class Claim:
    """What a rule answered: the first bad candidate (None: no answer), and how sure it was."""

    first_bad: int | None
    confidence: float = 1.0


Rule = Callable[[History], Claim]


def ours(history: History) -> Claim:
    """harness.search with its default options."""
    question = Question(history.n, "introduced", good=0, bad=history.n - 1)
    evidence: list[tuple[int, Answer]] = []
    while True:
        move = step(question, evidence)
        if isinstance(move, Done):
            result = move.result
            found = result.kind is Kind.FOUND
            return Claim(result.first_with if found else None, result.confidence or 0.0)
        assert isinstance(move, Ask)
        failed = history.run(move.index)
        evidence.append((move.index, Answer.BUG if failed else Answer.CLEAN))


def repeated(times: int) -> Rule:
    """Bisection that runs each candidate ``times`` times and takes any failure for the bug."""

    def rule(history: History) -> Claim:
        low, high = 0, history.n - 1
        while high - low > 1:
            middle = (low + high) // 2
            if any(history.run(middle) for _ in range(times)):
                high = middle
            else:
                low = middle
        return Claim(high)

    return rule


def bayesian(history: History) -> Claim:
    """The published rule of git_bayesect, with its published priors.

    Beta(0.9, 0.1) for the failure rate of the newer side and Beta(0.05, 0.95) for the older, both
    integrated out; the next candidate has the least expected entropy; it stops as soon as one
    change point has 0.95. Every run costs the same. Ends are taken on trust.
    """
    n = history.n
    new, old = (0.9, 0.1), (0.05, 0.95)
    fails, passes = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    table = {a: np.array([lgamma(k + a) for k in range(RUN_LIMIT + 2)]) for a in (*new, *old, 1.0)}
    while history.runs < RUN_LIMIT:
        old_fails = np.concatenate(([0], np.cumsum(fails)))[1:n]
        old_passes = np.concatenate(([0], np.cumsum(passes)))[1:n]
        new_fails, new_passes = fails.sum() - old_fails, passes.sum() - old_passes
        score = table[old[0]][old_fails] + table[old[1]][old_passes]
        score = score + table[new[0]][new_fails] + table[new[1]][new_passes]
        score = score - table[1.0][old_fails + old_passes] - table[1.0][new_fails + new_passes]
        mass = np.exp(score - score.max())
        mass /= mass.sum()  # mass[b - 1]: the first b candidates are clean, b = 1 .. n - 1
        best = int(np.argmax(mass))
        if mass[best] >= 0.95:
            return Claim(best + 1, float(mass[best]))
        old_rate = (old_fails + old[0]) / (old_fails + old_passes + 1.0)
        new_rate = (new_fails + new[0]) / (new_fails + new_passes + 1.0)
        index = int(np.argmax(_information(mass, old_rate, new_rate)))
        if history.run(index):
            fails[index] += 1
        else:
            passes[index] += 1
    return Claim(None)


def _information(mass: Floats, old: Floats, new: Floats) -> Floats:
    """Expected entropy reduction by running each of the n candidates, for b = 1 .. n - 1."""
    n = len(mass) + 1
    on_new = np.arange(n)[:, None] >= np.arange(1, n)[None, :]
    rate = np.where(on_new, new[None, :], old[None, :])
    fail = rate @ mass
    return _entropy(fail) - _entropy(rate) @ mass


def _entropy(rate: Floats) -> Floats:
    safe, other = np.clip(rate, 1e-300, 1.0), np.clip(1.0 - rate, 1e-300, 1.0)
    result: Floats = -(safe * np.log2(safe) + other * np.log2(other))
    return result


@dataclass
class Score:
    """Sums over the histories of one cell, for one rule."""

    histories: int = 0
    right: int = 0
    wrong: int = 0
    runs: int = 0
    installs: int = 0
    claims: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, history: History, claim: Claim) -> None:
        right = claim.first_bad == history.first_bad
        self.histories += 1
        self.right += right
        self.wrong += claim.first_bad is not None and not right
        self.runs += history.runs
        self.installs += history.installs
        if claim.first_bad is not None:
            self.claims.append((claim.confidence, right))

    def merged(self, other: Score) -> Score:
        return Score(
            self.histories + other.histories,
            self.right + other.right,
            self.wrong + other.wrong,
            self.runs + other.runs,
            self.installs + other.installs,
            self.claims + other.claims,
        )

    @property
    def accuracy(self) -> float:
        return self.right / self.histories

    def cells(self) -> str:
        count = self.histories
        return f"{self.accuracy:.0%} | {self.runs / count:.1f} | {self.installs / count:.1f}"


def measure(
    rule: Rule, n: int, fails: float, false: float, histories: int, seed: int
) -> Score:
    """One cell: the same histories for every rule."""
    score = Score()
    places = random.Random(f"{seed} {fails} {false}")
    for _ in range(histories):
        history = History(n, places.randrange(1, n), fails, false, places.getrandbits(32))
        score.add(history, rule(history))
    return score
