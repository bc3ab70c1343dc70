"""Which candidate brought a bug, which took it away: verdicts in, next candidate out.

Candidates are the indices 0 to n - 1, oldest to newest. The search holds no state: ``step`` looks
at the question and at all the evidence and says what to run next, or what the answer is. So a
search resumes from its records, and evidence recorded for another purpose is used before anything
is run. An unknown answer counts for no side.

While outcomes are unanimous this is bisection: with both ends given it asks at most
ceil(log2(n - 1)) candidates besides the ends, and one more for each unknown that it meets. As soon
as one candidate gives mixed outcomes, ``posterior`` takes over.
"""

from __future__ import annotations

from functools import cached_property
from math import ceil, log2

import numpy as np
import numpy.typing as npt

from harness.posterior import Belief, believe, halving, likeliest_window, widest
from harness.question import (
    Answer,
    Ask,
    Confirm,
    Done,
    Evidence,
    Find,
    Kind,
    Question,
    Result,
    Transition,
    count,
    kind_of,
    notes_for,
    turns,
)

__all__ = ["Answer", "Ask", "Confirm", "Done", "Evidence", "Find", "Kind", "Question", "Result"]
__all__ += ["Transition", "step", "upcoming"]

Bools = npt.NDArray[np.bool_]

# What running a candidate again costs, where installing one costs 1: an install downloads and
# unpacks gigabytes, a run takes seconds.
RERUN_COST = 0.1
# A search that is still unsure after so many runs, and so many for each candidate that was tried,
# has no answer within reason. It only ends what no budget ends.
RUN_CAP = 400
RUN_CAP_EACH = 20
LOOKAHEAD = 5


def step(question: Question, evidence: Evidence) -> Ask | Done:
    """What to run next, or the answer. A pure function of its arguments, in any order of evidence."""
    return _Search(question, evidence).step()


def upcoming(question: Question, evidence: Evidence, ask: Ask) -> tuple[int, ...]:
    """What could be asked after ``ask``, for the answers bug, clean and unknown in this order.

    Where candidates are only run again at first, it looks on, as if each answered as before, to
    the next that nobody has tried, since that one has to be installed.
    """
    ahead: list[int] = []
    for answer in Answer:
        known = [*evidence, (ask.index, answer)]
        last = dict(known)
        for _ in range(LOOKAHEAD):
            move = step(question, known)
            if isinstance(move, Done):
                break
            if move.index not in (ask.index, *ahead):
                ahead.append(move.index)
            if move.index not in last:
                break
            known.append((move.index, last[move.index]))
    return tuple(ahead)


class _Search:
    """One look at the evidence. The rules of ``step`` run in order; the first with a move wins."""

    def __init__(self, question: Question, evidence: Evidence) -> None:
        self.q = question
        self.bug = np.zeros(question.n, dtype=np.int64)
        self.clean = np.zeros(question.n, dtype=np.int64)
        self.unknown = np.zeros(question.n, dtype=np.int64)
        tally = {Answer.BUG: self.bug, Answer.CLEAN: self.clean, Answer.UNKNOWN: self.unknown}
        for index, answer in evidence:
            tally[answer][index] += 1
        self.runs = len(evidence)
        self.notes: list[str] = []
        self.newest_is_clean_side = question.find == "fixed"
        seen = (self.bug + self.clean) > 0
        self.tried = seen | (self.unknown > 0)
        # One unknown retires a candidate that has never answered, two retire any other.
        self.open = np.where(seen, self.unknown < 2, self.unknown < 1)
        self.askable = seen | ~self.tried
        self.price = np.where(self.tried, RERUN_COST, 1.0)
        if question.cost is not None:
            self.price = np.maximum(np.array(question.cost), 1e-6)
        ends = question.good, question.bad
        older, newer = ends[::-1] if self.newest_is_clean_side else ends
        self.low, self.high = older or 0, question.n - 1 if newer is None else newer
        # A stated end that cannot be tested is replaced by the next one inward that can.
        at_old = None if older is None else self._usable(range(older, self.high))
        at_new = None if newer is None else self._usable(range(newer, self.low, -1))
        if at_old == at_new:  # one candidate alone can be tested, and it cannot be both ends
            at_old = at_new = None
        self.low = self.low if at_old is None else at_old
        self.high = self.high if at_new is None else at_new
        self.good, self.bad = (at_new, at_old) if self.newest_is_clean_side else (at_old, at_new)
        self.good_holds = self.good is not None and self.clean[self.good] > 0
        self.bad_holds = self.bad is not None and self.bug[self.bad] > 0
        for name, stated, used in (("good", ends[0], self.good), ("bad", ends[1], self.bad)):
            if used != stated:
                stand_in = "nothing" if used is None else f"candidate {used}"
                self.notes.append(f"The stated {name} end cannot be tested: {stand_in} replaces it.")

    def _usable(self, walk: range) -> int | None:
        return next((i for i in walk if self.askable[i]), None)

    def step(self) -> Ask | Done:
        move: Ask | Done | None = None
        ends = self._bad_end, self._good_end, self._newest
        for rule in (self._scan, *ends, self._meet, self._show, self._far_end):
            move = rule()
            if move is not None:
                break
        else:
            move = self._noisy() if self.mixed else self._exact()
        budget = self.q.budget
        if budget is None and self.mixed:
            budget = max(RUN_CAP, RUN_CAP_EACH * int(self.tried.sum()))
        if isinstance(move, Ask) and budget is not None and self.runs >= budget:
            return self._give_up(f"stopped at its budget of {budget} runs")
        return move

    def _where(self, mask: Bools, low: int | None = None, high: int | None = None) -> list[int]:
        """The candidates that satisfy the mask, from ``low`` to ``high``, both included."""
        low = self.low if low is None else max(low, self.low)
        high = self.high if high is None else min(high, self.high)
        return [low + int(i) for i in np.flatnonzero(mask[low : high + 1])]

    @cached_property
    def bugs(self) -> list[int]:
        return self._where(self.bug > 0)

    @cached_property
    def cleans(self) -> list[int]:
        return self._where((self.clean > 0) & (self.bug == 0))

    def _untried(self, low: int | None = None, high: int | None = None) -> list[int]:
        return self._where(~self.tried, low, high)

    @cached_property
    def mixed(self) -> bool:
        return bool(self._where((self.clean > 0) & (self.bug > 0)))

    def _scan(self) -> Ask | None:
        untried = self._untried() if self.q.scan else []
        return Ask(self._widest(untried), "every candidate is looked at") if untried else None

    def _bad_end(self) -> Ask | Done | None:
        if self.bad is None or self.bad_holds:
            return None
        # A flaky bug needs several tries to show itself; one seen elsewhere needs fewer.
        stated = self.bad == self.q.bad
        need = self.q.qualify if stated and not self.bugs else self.q.confirm.clean
        if self.clean[self.bad] < need and self.open[self.bad]:
            return Ask(self.bad, "the stated bad end must show the bug")
        runs = int(self.clean[self.bad])
        self.notes.append(f"The stated bad end did not show the bug in {count(runs, 'run')}.")
        return None

    def _good_end(self) -> Ask | Done | None:
        if self.good is None or self.good_holds:
            return None
        need = max(self.q.confirm.bug, self.q.confirm.clean)
        if self.bug[self.good] < need and self.open[self.good]:
            return Ask(self.good, "the stated good end must be clean")
        self.notes.append("The stated good end shows the bug: state one further away, or none.")
        return self._finish(Kind.CONTRADICTORY)

    def _newest(self) -> Ask | Done | None:
        """Settles which candidate is the newest that can be tested, and what it shows."""
        if not self.tried[self.high]:
            return Ask(self.high, "the newest candidate is one end")
        seen = self._where(self.tried & self.askable)
        if not seen:
            return self._step_back(self.high, self.high) or self._finish(Kind.UNTESTABLE)
        top = seen[-1]
        blocked = [i for i in self._where(self.tried) if i > top]
        limit = self.high if self.q.thorough or not blocked else blocked[0]
        if untried := self._untried(top + 1, limit):
            return Ask(self._middle(untried), "looks for the newest candidate that can run it")
        shows_bug = self.bug[top] > 0 and self.clean[top] == 0
        if self.newest_is_clean_side and shows_bug and not self.good_holds:
            if self.bug[top] < self.q.confirm.bug and self.open[top]:
                return Ask(top, "confirms that the newest candidate has the bug")
            return self._finish(Kind.NOT_FIXED, bug=top)
        return None

    def _meet(self) -> Ask | Done | None:
        return None if self.bugs else self._look() or self._finish(Kind.NEVER)

    def _look(self) -> Ask | None:
        """Looks for the bug where no end shows it: on the grid, then everywhere."""
        grid = sorted({i for i in self.q.grid if self.low <= i <= self.high and not self.tried[i]})
        if grid:
            return Ask(self._widest(grid), "looks for the bug on the coarse grid")
        if not self.q.grid and (ask := self._step_back(self.high, self.high, rest=False)):
            return ask
        untried = self._untried()
        reason = "looks for the bug where nobody has looked yet"
        return Ask(self._widest(untried), reason) if untried else None

    def _show(self) -> Ask | None:
        """Lets a flaky bug show itself before a walk: reruns are cheap, a misled walk is not."""
        last = self.bugs[-1]
        if self.mixed or self.bug[self.bugs].sum() >= self.q.confirm.bug or not self.open[last]:
            return None
        return Ask(last, "sees whether the bug shows every time")

    def _far_end(self) -> Ask | Done | None:
        """Looks for a clean candidate older than the bug."""
        last, first = self.bugs[-1], self.bugs[0]
        if self.newest_is_clean_side or self.good_holds or self._clean_side():
            return None
        if ask := self._step_back(last, first, rest=False):
            return ask
        blocked = [i for i in self._where(self.tried) if i < first]
        limit = self.low if self.q.thorough or not blocked else blocked[-1]
        if untried := self._untried(limit, first - 1):
            return Ask(self._middle(untried), "looks for the oldest candidate that can run it")
        if self.mixed:
            return None
        if self.bug[first] < self.q.confirm.bug and self.open[first]:
            return Ask(first, "confirms that the oldest candidate has the bug")
        return self._finish(Kind.EVERYWHERE, bug=first)

    def _exact(self) -> Ask | Done:
        """Bisection between the newest window of the bug and its clean neighbour."""
        clean, bug = self._bracket()
        low, high = min(clean, bug), max(clean, bug)
        inside = self._where(self.tried, self.low + 1, self.high - 1)
        spent = self.q.skips is not None and len(inside) >= ceil(log2(self.q.n)) + self.q.skips
        if (untried := self._untried(low + 1, high - 1)) and not spent:
            steps = ceil(log2(len(untried) + 1))
            return Ask(self._middle(untried), "halves the range", low, high, steps)
        for index, runs, need in (
            (clean, self.clean, self.q.confirm.clean),
            (bug, self.bug, self.q.confirm.bug),
        ):
            if runs[index] < need and self.open[index]:
                return Ask(index, "confirms a neighbour of the change", low, high, 0)
        belief = self._belief(self._stretch(clean, bug))
        mass = belief.mass_between(clean, bug)
        again = np.array([i for i in (clean, bug) if self.open[i]], dtype=np.int64)
        if self.q.confirm.until_sure and mass < self.q.confidence and len(again):
            return Ask(belief.best(self.price, again), "makes the change surer", low, high, 0)
        return self._finish(Kind.FOUND, clean, bug, belief, mass)

    def _noisy(self) -> Ask | Done:
        """The posterior over the change point, once a candidate has given mixed outcomes."""
        stretch = self.low, self.high
        if not self.bad_holds:
            seen = np.array(self._where(self.tried & self.askable), dtype=np.int64)
            start, end = likeliest_window(self.bug[seen], self.clean[seen])
            stretch = self.low, int(seen[end - 1])
            if self.newest_is_clean_side:
                stretch = int(seen[start]), self.high
        belief = self._belief(stretch)
        mass, clean, bug = belief.pair()
        low, high = belief.interval()
        # What failed now and then may have been clean: then the bug is still to be met.
        if bug is None and mass > 0.5 and (ask := self._look()):
            return ask
        if mass >= self.q.confidence:
            for index, need in ((clean, self.q.confirm.clean), (bug, self.q.confirm.bug)):
                runs = need if index is None else int(self.clean[index] + self.bug[index])
                if index is not None and runs < need and self.open[index]:
                    return Ask(index, "confirms a neighbour of the change", low, high, 0)
            return self._finish(kind_of(self.q.find, clean, bug), clean, bug, belief, mass)
        usable = self._where(self.open & self.askable, *stretch)
        if not usable:
            return self._give_up("cannot run any candidate of the range again")
        index = belief.best(self.price, np.array(usable, dtype=np.int64))
        return Ask(index, "tells most about the change for its cost", low, high)

    def _give_up(self, why: str) -> Done:
        self.notes.append(f"The search {why}.")
        if self.mixed:
            belief = self._belief((self.low, self.high))
            return self._finish(Kind.INCONCLUSIVE, None, None, belief)
        if not self.bugs or not self._clean_side():
            return self._finish(Kind.INCONCLUSIVE)
        clean, bug = self._bracket()
        belief = self._belief(self._stretch(clean, bug))
        mass = belief.mass_between(clean, bug)
        return self._finish(Kind.INCONCLUSIVE, clean, bug, belief, mass)

    def _clean_side(self) -> list[int]:
        """The clean candidates on the asked side of the newest window, the nearest one last."""
        last = self.bugs[-1]
        if self.newest_is_clean_side:
            return [i for i in reversed(self.cleans) if i > last]
        return [i for i in self.cleans if i < last]

    def _bracket(self) -> tuple[int, int]:
        """The tightest (clean, bug) neighbours at the asked edge of the newest window."""
        clean = self._clean_side()[-1]
        if self.newest_is_clean_side:
            return clean, self.bugs[-1]
        return clean, min(i for i in self.bugs if i > clean)

    def _stretch(self, clean: int, bug: int) -> tuple[int, int]:
        """The range around an edge in which the evidence knows no other change."""
        older, newer = (self.bugs, self.cleans) if clean < bug else (self.cleans, self.bugs)
        low, high = min(clean, bug), max(clean, bug)
        before = max((i for i in older if i < low), default=self.low - 1)
        after = min((i for i in newer if i > high), default=self.high + 1)
        return before + 1, after - 1

    def _belief(self, stretch: tuple[int, int]) -> Belief:
        ends = stretch[::-1] if self.newest_is_clean_side else stretch
        sure = self.good_holds and ends[0] == self.good, self.bad_holds and ends[1] == self.bad
        return believe(self.bug, self.clean, self.askable, stretch, self.newest_is_clean_side, sure)

    def _middle(self, untried: list[int]) -> int:
        return untried[halving(self.price[untried])]

    def _widest(self, choices: list[int]) -> int:
        known = np.array([self.low - 1, *self._where(self.tried), self.high + 1])
        return choices[widest(np.array(choices), known, self.price[choices])]

    def _step_back(self, start: int, before: int, rest: bool = True) -> Ask | None:
        """Doubles the distance from ``start`` until something untried lies before ``before``."""
        distance = 1
        while start - distance > self.low:
            if start - distance < before and not self.tried[start - distance]:
                return Ask(start - distance, "steps back by doubling")
            distance *= 2
        if self.low < before and not self.tried[self.low]:
            return Ask(self.low, "the oldest candidate is the other end")
        untried = self._untried() if rest else []
        return Ask(self._widest(untried), "looks for one that can run it") if untried else None

    def _finish(
        self,
        kind: Kind,
        clean: int | None = None,
        bug: int | None = None,
        belief: Belief | None = None,
        mass: float | None = None,
    ) -> Done:
        older, newer = (bug, clean) if self.newest_is_clean_side else (clean, bug)
        inside = (
            self.low if older is None else older + 1,
            self.high if newer is None else newer - 1,
        )
        hidden = tuple(self._where(self.tried & ~self.askable, *inside))
        untried = tuple(self._untried(*inside))
        transitions = self._transitions(belief)
        into = Answer.CLEAN if self.newest_is_clean_side else Answer.BUG
        same = [t for t in transitions if t.into is into and (t.before, t.after) != (older, newer)]
        same = [t for t in same if self.low <= t.before and t.after <= self.high]
        noisy = self.mixed
        notes = [*self.notes, *notes_for(self.q, kind, hidden, untried, same, noisy, mass)]
        return Done(
            Result(
                find=self.q.find,
                kind=kind,
                before=older,
                after=newer,
                hidden=hidden,
                untried=untried,
                confidence=mass,
                likely=None if belief is None else belief.interval(),
                transitions=transitions,
                noisy=noisy,
                rates=belief.posterior.rates() if noisy and belief is not None else None,
                contradicted=bool(same) and kind is Kind.FOUND,
                asked=int(self.tried.sum()),
                runs=self.runs,
                notes=tuple(notes),
            )
        )

    def _transitions(self, belief: Belief | None) -> tuple[Transition, ...]:
        """All neighbours in the evidence that differ; mixed ones stand where belief puts them."""
        shows = self.bug > 0
        if self.mixed and belief is not None:
            shows[belief.order] = belief.shown()
        seen = np.flatnonzero(self.tried & self.askable)
        return turns(dict(zip(seen.tolist(), shows[seen].tolist(), strict=True)))
