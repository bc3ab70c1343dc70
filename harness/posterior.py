"""Where a failure rate changed, as a probability: the mathematics behind the noisy search.

Model: candidates stand in a row, the first ``b`` on the clean side, the rest on the bug side.
A clean one fails at an unknown rate q, one with the bug at an unknown rate p, and p > q. Both
rates have Jeffreys priors and are integrated out; nobody has to guess them. Because the Jeffreys
prior is the arcsine law, equal weights on Chebyshev nodes integrate any polynomial likelihood of
up to 2 x NODES - 1 observations exactly, and the condition p > q costs one cumulative sum.

Pure: arrays in, arrays out, no knowledge of what a candidate is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lgamma

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NODES = 64
# A window search over more observed candidates than this works on blocks of neighbours.
WINDOW_BLOCKS = 256

_RATES: Floats = np.sin((np.arange(NODES) + 0.5) * np.pi / (2 * NODES)) ** 2
_LOG_FAIL: Floats = np.log(_RATES)
_LOG_PASS: Floats = np.log1p(-_RATES)


@dataclass(frozen=True)
class Posterior:
    """Belief about the change point of ``m`` candidates.

    ``mass[b]``, shape (m + 1,): probability that exactly the first b are on the clean side; 0 is
    "all have the bug", m is "none has it". ``clean_rate[b]`` and ``bug_rate[b]``, same shape: the
    predicted failure rate of either side, given b.
    """

    mass: Floats
    clean_rate: Floats
    bug_rate: Floats

    def gains(self) -> Floats:
        """Expected fall of the entropy of b, in bits, by running each candidate once: shape (m,).

        This is the mutual information of b and the outcome. Candidate x is on the bug side for
        every b <= x, so two cumulative sums serve all candidates.
        """
        fails = _split(self.mass * self.bug_rate, self.mass * self.clean_rate)
        rest = _split(self.mass * _entropy(self.bug_rate), self.mass * _entropy(self.clean_rate))
        return np.maximum(_entropy(fails) - rest, 0.0)

    def rates(self) -> tuple[float, float]:
        """The mean failure rate of the clean side and of the bug side."""
        return float(self.mass @ self.clean_rate), float(self.mass @ self.bug_rate)

    def interval(self, share: float = 0.9) -> tuple[int, int]:
        """The least and the greatest b of the central range that holds this share."""
        total = np.cumsum(self.mass)
        low = int(np.searchsorted(total, (1 - share) / 2))
        high = int(np.searchsorted(total, (1 + share) / 2))
        return min(low, len(total) - 1), min(high, len(total) - 1)


def change_point(fails: Ints, passes: Ints, all_bug: float = 0.0, all_clean: float = 0.0) -> Posterior:
    """The posterior of the change point.

    ``fails`` and ``passes``, shape (m,): outcomes of each candidate, the clean side first. Every
    change inside has prior weight 1; ``all_bug`` and ``all_clean`` are the weights of "no change
    at all", 0 where the end in question is taken for granted.
    """
    observed = (fails + passes) > 0
    # The likelihood only changes where something was observed, so it is computed once for each
    # stretch between observations: ten thousand candidates cost what twenty do.
    row = np.concatenate(([0], np.cumsum(observed)))
    clean_fails = np.concatenate(([0], np.cumsum(fails[observed])))[:, None]
    clean_passes = np.concatenate(([0], np.cumsum(passes[observed])))[:, None]
    clean = clean_fails * _LOG_FAIL + clean_passes * _LOG_PASS
    bug = (clean_fails[-1] - clean_fails) * _LOG_FAIL
    bug = bug + (clean_passes[-1] - clean_passes) * _LOG_PASS
    clean_top, bug_top = clean.max(axis=1), bug.max(axis=1)
    clean = np.exp(clean - clean_top[:, None])
    bug = np.exp(bug - bug_top[:, None])
    joint = bug * _below(clean)
    weight = joint.sum(axis=1)
    # Far from the peak the weight underflows; the floor keeps "impossible" a very small number.
    floor = np.maximum(weight, 1e-300)
    bug_rate = (joint * _RATES).sum(axis=1) / floor
    clean_rate = (bug * _below(clean * _RATES)).sum(axis=1) / floor
    log_mass = (np.log(floor) + clean_top + bug_top)[row]
    prior = np.ones(len(fails) + 1)
    prior[0], prior[-1] = all_bug, all_clean
    log_mass = np.where(prior > 0, log_mass, -np.inf)
    mass = prior * np.exp(log_mass - log_mass.max())
    return Posterior(mass / mass.sum(), clean_rate[row], bug_rate[row])


@dataclass(frozen=True)
class Belief:
    """The posterior over a stretch of candidates, in the words of the candidates' own indices.

    ``order`` lists the stretch from its clean end to its bug end; ``askable`` are the positions
    in it that can answer.
    """

    order: Ints
    askable: Ints
    posterior: Posterior

    def pair(self) -> tuple[float, int | None, int | None]:
        """The likeliest (probability, clean neighbour, bug neighbour) of the change.

        A neighbour is None where the likeliest is that there is no change at all.
        """
        mass = pooled(self.posterior.mass, self.askable)
        best = int(np.argmax(mass))
        clean = int(self.order[self.askable[best - 1]]) if best > 0 else None
        bug = int(self.order[self.askable[best]]) if best < len(self.askable) else None
        return float(mass[best]), clean, bug

    def mass_between(self, clean: int, bug: int) -> float:
        """The probability that the change lies between these two candidates of the stretch."""
        at = abs(clean - int(self.order[0])), abs(bug - int(self.order[0]))
        return float(self.posterior.mass[at[0] + 1 : at[1] + 1].sum())

    def interval(self) -> tuple[int, int]:
        """The range, as (older, newer) candidate, that holds 90 % of the probability."""
        low, high = self.posterior.interval()
        last = len(self.order) - 1
        ends = int(self.order[max(low - 1, 0)]), int(self.order[min(high, last)])
        return min(ends), max(ends)

    def shown(self) -> npt.NDArray[np.bool_]:
        """For each candidate of ``order``: whether it more likely than not has the bug."""
        result: npt.NDArray[np.bool_] = np.cumsum(self.posterior.mass)[:-1] > 0.5
        return result

    def best(self, cost: Floats, among: Ints) -> int:
        """The candidate of ``among`` whose run tells most for its cost; costs by candidate."""
        gains = np.zeros(len(cost))
        gains[self.order] = self.posterior.gains()
        return int(among[int(np.argmax(gains[among] / cost[among]))])


def believe(
    fails: Ints,
    passes: Ints,
    askable: npt.NDArray[np.bool_],
    stretch: tuple[int, int],
    newest_first: bool,
    sure: tuple[bool, bool],
) -> Belief:
    """The belief over the candidates ``stretch[0]`` to ``stretch[1]``.

    ``fails``, ``passes`` and ``askable`` are given for all candidates. The clean side is the older
    one unless ``newest_first``. ``sure``: whether the clean end and the bug end are known to be
    what they are called; an end that is not leaves the possibility of no change at all.
    """
    order = np.arange(stretch[0], stretch[1] + 1)
    if newest_first:
        order = order[::-1]
    # "No change" together weighs half as much as all changes: common, and still to be shown.
    loose = max(len(order) / 4, 1.0)
    posterior = change_point(
        fails[order],
        passes[order],
        all_bug=0.0 if sure[0] else loose,
        all_clean=0.0 if sure[1] else loose,
    )
    return Belief(order, np.flatnonzero(askable[order]), posterior)


def likeliest_window(fails: Ints, passes: Ints) -> tuple[int, int]:
    """The run ``[start, end)`` of observed candidates that most likely has the bug.

    Shapes (m,), every candidate observed, m >= 1. The rates inside and outside are integrated out
    with Jeffreys priors; the inside must fail more often.
    """
    count = len(fails)
    edges = np.unique(np.linspace(0, count, min(count, WINDOW_BLOCKS) + 1).astype(np.int64))
    total_fails = np.concatenate(([0], np.cumsum(fails)))[edges]
    total_passes = np.concatenate(([0], np.cumsum(passes)))[edges]
    inner_fails = total_fails[None, :] - total_fails[:, None]
    inner_passes = total_passes[None, :] - total_passes[:, None]
    outer_fails, outer_passes = total_fails[-1] - inner_fails, total_passes[-1] - inner_passes
    inner, outer = inner_fails + inner_passes, outer_fails + outer_passes
    top = int(total_fails[-1] + total_passes[-1]) + 1
    half: Floats = np.array([lgamma(k + 0.5) for k in range(top)])
    whole: Floats = np.array([lgamma(k + 1.0) for k in range(top)])
    upper = np.triu(np.ones_like(inner, dtype=bool), 1)
    sane = upper & (inner_fails * np.maximum(outer, 1) > outer_fails * np.maximum(inner, 1))
    sane |= upper & (outer == 0)
    index = np.where(upper, inner, 0), np.where(upper, outer, 0)
    score = half[np.where(upper, inner_fails, 0)] + half[np.where(upper, inner_passes, 0)]
    score = score + half[np.where(upper, outer_fails, 0)] + half[np.where(upper, outer_passes, 0)]
    score = np.where(sane, score - whole[index[0]] - whole[index[1]], -np.inf)
    start, end = np.unravel_index(int(np.argmax(score)), score.shape)
    return int(edges[start]), int(edges[end])


def pooled(mass: Floats, askable: Ints) -> Floats:
    """The mass between neighbouring candidates that can be told apart: shape (len(askable) + 1,).

    ``askable`` is sorted. Those left out never answer, so change points around them stay one.
    """
    group = np.searchsorted(askable, np.arange(len(mass)), side="left")
    result: Floats = np.bincount(group, weights=mass, minlength=len(askable) + 1).astype(np.float64)
    return result


def halving(prices: Floats) -> int:
    """Which of a row of untried candidates to try: the middle, or a cheaper one nearly as good.

    A cheap candidate is one that is installed: trying it first can only shrink the range, so the
    installs that are left never become more.
    """
    count = len(prices)
    middle = count // 2
    bits = _entropy((np.arange(count) + 1) / (count + 1))
    worth = np.where(prices < prices[middle], bits / prices, 0.0)
    best = int(np.argmax(worth))
    return best if worth[best] > 1.0 / prices[middle] else middle


def widest(choices: Ints, known: Ints, prices: Floats) -> int:
    """Which choice is farthest from all known ones, for its price: it halves the widest gap.

    ``known`` is sorted and encloses the choices. Of equals the last, which is the newest.
    """
    right = np.searchsorted(known, choices)
    worth = np.minimum(choices - known[right - 1], known[right] - choices) / prices
    return int(np.flatnonzero(worth == worth.max())[-1])


def _below(values: Floats) -> Floats:
    """For each node, the sum over smaller nodes; a tie counts half."""
    result: Floats = np.cumsum(values, axis=1) - 0.5 * values
    return result


def _split(bug: Floats, clean: Floats) -> Floats:
    """For each candidate x: the sum of ``bug[b]`` for b <= x and of ``clean[b]`` for b > x."""
    result: Floats = np.cumsum(bug)[:-1] + (clean.sum() - np.cumsum(clean)[:-1])
    return result


def _entropy(rate: Floats) -> Floats:
    safe = np.clip(rate, 1e-300, 1.0)
    other = np.clip(1.0 - rate, 1e-300, 1.0)
    result: Floats = -(safe * np.log2(safe) + other * np.log2(other))
    return result
