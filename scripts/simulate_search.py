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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import lgamma
from pathlib import Path

import numpy as np
import numpy.typing as npt

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

# The script also runs from a checkout that is not installed, so the path comes before the import.
from harness.search import Answer, Done, Kind, Question, step  # noqa: E402

FAILURE_RATES = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
FALSE_RATES = (0.0, 0.05, 0.1, 0.2)
REPEATS = (1, 2, 3, 5, 8, 13, 21, 34)
THRESHOLDS = (0.95, 0.99, 0.999, 0.9999)
RUN_LIMIT = 400
BINS = (0.95, 0.96, 0.97, 0.98, 0.99, 1.01)
BEGIN = "<!-- simulation: begin (scripts/simulate_search.py writes this part) -->"
END = "<!-- simulation: end -->"

Floats = npt.NDArray[np.float64]


class History:
    """n candidates of which the ``bugs`` have the bug; counts what is run."""

    def __init__(self, n: int, bugs: range, fails: float, false: float, seed: int) -> None:
        self.n, self.bugs, self.seed = n, bugs, seed
        self.rate = fails, false
        self.streams: dict[int, random.Random] = {}
        self.runs = 0

    def run(self, index: int) -> bool:
        """Whether the next run of this candidate fails."""
        if index not in self.streams:
            self.streams[index] = random.Random(self.seed * 1_000_003 + index)
        self.runs += 1
        return self.streams[index].random() < self.rate[0 if index in self.bugs else 1]

    @property
    def installs(self) -> int:
        return len(self.streams)


@dataclass
class Claim:
    """What a rule answered: the candidate after the change (None: no answer), and how sure it was."""

    first_bad: int | None
    confidence: float = 1.0


Rule = Callable[[History], Claim]


def ours(history: History) -> Claim:
    """harness.search with its default options and both ends stated."""
    return ask(Question(history.n, "introduced", good=0, bad=history.n - 1), history)


def ask(question: Question, history: History) -> Claim:
    """Runs harness.search to its end."""
    evidence: list[tuple[int, Answer]] = []
    while True:
        move = step(question, evidence)
        if isinstance(move, Done):
            result = move.result
            found = result.kind is Kind.FOUND
            return Claim(result.after if found else None, result.confidence or 0.0)
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


def bayesian(history: History) -> dict[float, tuple[Claim, int, int]]:
    """The published rule of git_bayesect, with its published priors.

    Beta(0.9, 0.1) for the failure rate of the newer side and Beta(0.05, 0.95) for the older, both
    integrated out; the next candidate has the least expected entropy; it stops as soon as one
    change point is probable enough. Every run costs the same, ends are taken on trust. One walk
    serves all thresholds: for each the claim, the runs and the installs until it was passed.
    """
    n = history.n
    new, old = (0.9, 0.1), (0.05, 0.95)
    fails, passes = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    table = {a: np.array([lgamma(k + a) for k in range(RUN_LIMIT + 2)]) for a in (*new, *old, 1.0)}
    stops: dict[float, tuple[Claim, int, int]] = {}
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
        for threshold in THRESHOLDS:
            if mass[best] >= threshold and threshold not in stops:
                claim = Claim(best + 1, float(mass[best]))
                stops[threshold] = claim, history.runs, history.installs
        if len(stops) == len(THRESHOLDS):
            break
        old_rate = (old_fails + old[0]) / (old_fails + old_passes + 1.0)
        new_rate = (new_fails + new[0]) / (new_fails + new_passes + 1.0)
        index = int(np.argmax(_information(mass, old_rate, new_rate)))
        if history.run(index):
            fails[index] += 1
        else:
            passes[index] += 1
    for threshold in THRESHOLDS:
        stops.setdefault(threshold, (Claim(None), history.runs, history.installs))
    return stops


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
    runs: int = 0
    installs: int = 0
    claims: list[tuple[float, bool]] = field(default_factory=list)

    def add(self, truth: int, claim: Claim, runs: int, installs: int) -> None:
        right = claim.first_bad == truth
        self.histories += 1
        self.right += right
        self.runs += runs
        self.installs += installs
        if claim.first_bad is not None:
            self.claims.append((claim.confidence, right))

    def merged(self, other: Score) -> Score:
        return Score(
            self.histories + other.histories,
            self.right + other.right,
            self.runs + other.runs,
            self.installs + other.installs,
            self.claims + other.claims,
        )

    @property
    def accuracy(self) -> float:
        return self.right / self.histories

    @property
    def price(self) -> tuple[float, float]:
        """Installs and runs for each history."""
        return self.installs / self.histories, self.runs / self.histories

    def cells(self) -> str:
        installs, runs = self.price
        return f"{self.accuracy:.0%} · {installs:.1f} · {runs:.0f}"


@dataclass
class Cell:
    """All rules on the histories of one pair of rates."""

    false: float
    fails: float
    ours: Score
    repeated: dict[int, Score]
    bayesian: dict[float, Score]

    def at_equal_accuracy(self, scores: Iterable[tuple[object, Score]]) -> str:
        """The cheapest variant that is right as often as harness.search, give or take 1 %."""
        enough = [(s.price, k, s) for k, s in scores if s.accuracy >= self.ours.accuracy - 0.01]
        if not enough:
            return "none"
        _, name, score = min(enough, key=lambda each: each[0])
        return f"{score.cells()} ({name})"

    def row(self) -> str:
        return " | ".join(
            (
                f"| {self.false:g}",
                f"{self.fails:g}",
                self.ours.cells(),
                self.repeated[1].cells(),
                self.at_equal_accuracy((f"k = {k}", s) for k, s in self.repeated.items()),
                self.bayesian[0.95].cells(),
                self.at_equal_accuracy((f"at {t:g}", s) for t, s in self.bayesian.items()) + " |",
            )
        )


def measure(n: int, fails: float, false: float, histories: int, seed: int) -> Cell:
    """One cell: every rule sees the same histories and the same outcomes."""
    cell = Cell(
        false,
        fails,
        Score(),
        {k: Score() for k in REPEATS},
        {t: Score() for t in THRESHOLDS},
    )
    draw = random.Random(f"{seed} {fails} {false}")
    for _ in range(histories):
        place, stream = draw.randrange(1, n), draw.getrandbits(32)
        history = History(n, range(place, n), fails, false, stream)
        cell.ours.add(place, ours(history), history.runs, history.installs)
        for times, score in cell.repeated.items():
            history = History(n, range(place, n), fails, false, stream)
            score.add(place, repeated(times)(history), history.runs, history.installs)
        history = History(n, range(place, n), fails, false, stream)
        for threshold, (claim, runs, installs) in bayesian(history).items():
            cell.bayesian[threshold].add(place, claim, runs, installs)
    return cell


def measure_windows(n: int, fails: float, false: float, histories: int, seed: int) -> Score:
    """The last candidate with the bug, of a window of any length, with no ends stated."""
    score = Score()
    draw = random.Random(f"windows {seed} {fails} {false}")
    for _ in range(histories):
        start = draw.randrange(1, n - 1)
        end = draw.randrange(start + 1, n)
        history = History(n, range(start, end), fails, false, draw.getrandbits(32))
        claim = ask(Question(n, "fixed", grid=tuple(range(4, n, 5))), history)
        score.add(end, claim, history.runs, history.installs)
    return score


def table(cells: list[Cell]) -> Iterator[str]:
    yield "Every entry: right answers · installs · runs, the means of one history.\n"
    yield (
        "| false-failure rate | failure rate | harness.search | plain bisection "
        "| k runs, at equal accuracy | Bayesian rule at 0.95 | Bayesian rule, at equal accuracy |"
    )
    yield "|---|---|---|---|---|---|---|"
    for cell in cells:
        yield cell.row()


def calibration(claims: list[tuple[float, bool]]) -> Iterator[str]:
    yield "| claimed confidence | claims | mean claim | right |"
    yield "|---|---|---|---|"
    for low, high in pairwise(BINS):
        inside = [each for each in claims if low <= each[0] < high]
        if inside:
            name = f"{low:g} to {min(high, 1):g}"
            yield f"| {name} {_claims(inside)}"
    yield f"| all {_claims(claims)}"


def _claims(claims: list[tuple[float, bool]]) -> str:
    mean = sum(claim for claim, _ in claims) / len(claims)
    right = sum(right for _, right in claims) / len(claims)
    return f"| {len(claims)} | {mean:.3f} | {right:.3f} |"


def by_rate(cells: list[Cell]) -> Iterator[str]:
    yield "| failure rate | histories | claims | mean claim | right |"
    yield "|---|---|---|---|---|"
    for fails in FAILURE_RATES:
        scores = [cell.ours for cell in cells if cell.fails == fails]
        claims = [claim for score in scores for claim in score.claims]
        yield f"| {fails:g} | {sum(score.histories for score in scores)} {_claims(claims)}"


def report(options: argparse.Namespace) -> Iterator[str]:
    """The measured part of docs/search.md."""
    rates = [(q, p) for q in FALSE_RATES for p in FAILURE_RATES if p > q]
    cells = []
    for false, fails in rates:
        cells.append(measure(options.n, fails, false, options.histories, options.seed))
        print(cells[-1].row(), file=sys.stderr, flush=True)
    claims = [claim for cell in cells for claim in cell.ours.claims]
    total = len(rates) * options.histories
    yield (
        f"Measured {datetime.date.today()} with `python scripts/simulate_search.py --n {options.n} "
        f"--histories {options.histories} --seed {options.seed}`: {total} histories of "
        f"{options.n} candidates, {options.histories} for each pair of rates. Wherever a rule "
        f"reaches {RUN_LIMIT} runs without an answer, that counts as no right answer.\n"
    )
    yield from table(cells)
    yield "\n### Calibration\n"
    yield (
        f"{len(claims)} of the {total} searches named a pair. So often was it the right one, by "
        "what the search claimed:\n"
    )
    yield from calibration(claims)
    yield "\nAnd by how often the bug really shows, over all false-failure rates:\n"
    yield from by_rate(cells)
    bayesian = [claim for cell in cells for claim in cell.bayesian[0.95].claims]
    yield "\nThe Bayesian rule at 0.95, on the same histories:\n"
    yield from calibration(bayesian)
    yield "\n### Windows, no end stated\n"
    yield (
        "The bug came and left again, and the question is where it left. Windows are of any "
        "length, every fifth candidate is on the grid.\n"
    )
    yield "| false-failure rate | failure rate | right · installs · runs | claims | right claims |"
    yield "|---|---|---|---|---|"
    for false, fails in ((0.0, 1.0), (0.0, 0.7), (0.0, 0.3), (0.05, 1.0), (0.05, 0.7), (0.1, 0.7)):
        score = measure_windows(options.n, fails, false, options.histories, options.seed)
        right = score.right / max(len(score.claims), 1)
        yield f"| {false:g} | {fails:g} | {score.cells()} | {len(score.claims)} | {right:.3f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=64, help="candidates of a history")
    parser.add_argument("--histories", type=int, default=200, help="for each pair of rates")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--doc", type=Path, default=ROOT / "docs" / "search.md")
    options = parser.parse_args()
    lines = "\n".join(report(options))
    before, _, rest = options.doc.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    text = f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"
    draft = options.doc.with_suffix(".new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(options.doc)


if __name__ == "__main__":
    main()
