"""The boundary search: properties over whole families of histories, then its single promises."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.posterior import change_point, likeliest_window
from harness.search import (
    Answer,
    Ask,
    Confirm,
    Done,
    Find,
    Kind,
    Question,
    Result,
    step,
    upcoming,
)

# numpy warns where a formula breaks down, and that must not happen in silence.
pytestmark = pytest.mark.filterwarnings("error")

BUG, CLEAN, UNKNOWN = Answer.BUG, Answer.CLEAN, Answer.UNKNOWN
FINDS: st.SearchStrategy[Find] = st.sampled_from(("introduced", "fixed"))
History = list[Answer]
Trail = list[tuple[int, Answer]]

# Other work on the machine must not fail a test, so no example has a deadline.
calm = settings(deadline=None)
once = Confirm(clean=1, bug=1, until_sure=False)


def search(
    question: Question, truth: Callable[[int], Answer], evidence: Trail | None = None
) -> tuple[Result, Trail]:
    """Runs a search to its end: the result and what was asked for it, in order."""
    known, asked = list(evidence or []), Trail()
    while True:
        move = step(question, known)
        if isinstance(move, Done):
            return move.result, asked
        assert 0 <= move.index < question.n
        assert len(asked) < 3000, "the search does not end"
        asked.append((move.index, truth(move.index)))
        known.append(asked[-1])


def candidates(trail: Trail) -> set[int]:
    return {index for index, _ in trail}


def around(history: History, find: Find) -> tuple[int, int] | None:
    """The narrowest (before, after) at the newest window, by looking at everything."""
    known = [(i, a) for i, a in enumerate(history) if a is not UNKNOWN]
    into = BUG if find == "introduced" else CLEAN
    turns = [(i, j) for (i, a), (j, b) in pairwise(known) if a != b and b is into]
    return turns[-1] if turns else None


@st.composite
def monotone(draw: st.DrawFn, unknowns: bool = True) -> tuple[History, Find]:
    """One change between ends that can be tested; any candidates between may be unknown."""
    find: Find = draw(FINDS)
    n = draw(st.integers(2, 120))
    change = draw(st.integers(1, n - 1))
    old, new = (CLEAN, BUG) if find == "introduced" else (BUG, CLEAN)
    history = [old if i < change else new for i in range(n)]
    for i in draw(st.sets(st.integers(1, n - 2))) if unknowns and n > 2 else set():
        history[i] = UNKNOWN
    return history, find


@st.composite
def window(draw: st.DrawFn) -> History:
    """Clean, then the bug, then clean again; the window may be a single candidate."""
    n = draw(st.integers(3, 60))
    start = draw(st.integers(1, n - 2))
    end = draw(st.integers(start, n - 2))
    history = [BUG if start <= i <= end else CLEAN for i in range(n)]
    for i in draw(st.sets(st.integers(0, n - 1), max_size=n // 2)):
        history[i] = UNKNOWN
    return history


def ended(history: History, find: Find, **options: object) -> Question:
    """The question with both ends of the history stated."""
    last = len(history) - 1
    good, bad = (0, last) if find == "introduced" else (last, 0)
    return replace(Question(len(history), find, good=good, bad=bad), **options)  # type: ignore[arg-type]


# Whole families of histories.


@calm
@given(monotone())
def test_a_monotone_history_gets_the_narrowest_range_that_its_unknowns_allow(
    case: tuple[History, Find],
) -> None:
    history, find = case
    result, _ = search(ended(history, find), history.__getitem__)
    assert result.kind is Kind.FOUND
    assert (result.before, result.after) == around(history, find)
    assert result.before is not None
    assert result.after is not None
    assert result.hidden == tuple(range(result.before + 1, result.after))
    assert result.untried == ()
    assert not result.contradicted


@calm
@given(monotone(unknowns=False))
def test_without_unknowns_no_more_than_the_logarithm_is_asked_besides_the_ends(
    case: tuple[History, Find],
) -> None:
    history, find = case
    _, asked = search(ended(history, find), history.__getitem__)
    n = len(history)
    assert len(candidates(asked) - {0, n - 1}) <= ceil(log2(n - 1))


@calm
@given(monotone())
def test_each_unknown_met_costs_at_most_one_candidate_more(case: tuple[History, Find]) -> None:
    history, find = case
    _, asked = search(ended(history, find), history.__getitem__)
    n = len(history)
    met = sum(history[i] is UNKNOWN for i in candidates(asked))
    assert len(candidates(asked) - {0, n - 1}) <= ceil(log2(n - 1)) + met


@calm
@given(monotone())
def test_two_skips_keep_any_unknowns_within_two_of_the_logarithm_and_the_answer_right(
    case: tuple[History, Find],
) -> None:
    history, find = case
    result, asked = search(ended(history, find, skips=2), history.__getitem__)
    n = len(history)
    assert len(candidates(asked) - {0, n - 1}) <= ceil(log2(n)) + 2
    narrowest = around(history, find)
    assert narrowest is not None
    assert result.kind is Kind.FOUND
    assert result.before is not None
    assert result.after is not None
    assert result.before <= narrowest[0] < narrowest[1] <= result.after
    assert sorted((*result.hidden, *result.untried)) == list(range(result.before + 1, result.after))


@calm
@given(monotone(), st.booleans())
def test_without_ends_the_answer_is_the_same_or_a_proper_one(
    case: tuple[History, Find], turned: bool
) -> None:
    history, find = case
    asks: Find = find if not turned else ("fixed" if find == "introduced" else "introduced")
    result, _ = search(Question(len(history), asks, thorough=True), history.__getitem__)
    if not turned:
        assert (result.before, result.after) == around(history, find)
    elif asks == "introduced":
        assert (result.kind, result.after) == (Kind.EVERYWHERE, 0)
    else:
        assert (result.kind, result.before) == (Kind.NOT_FIXED, len(history) - 1)


@calm
@given(window(), FINDS)
def test_both_edges_of_a_window_are_found_however_short_it_is(history: History, find: Find) -> None:
    result, _ = search(Question(len(history), find, thorough=True), history.__getitem__)
    known = [a for a in history if a is not UNKNOWN]
    edge = around(history, find)
    if edge is not None:
        assert result.kind is Kind.FOUND
        assert (result.before, result.after) == edge
    elif not known:
        assert result.kind is Kind.UNTESTABLE
    elif BUG not in known:
        assert result.kind is Kind.NEVER
    else:
        assert result.kind is (Kind.EVERYWHERE if find == "introduced" else Kind.NOT_FIXED)


@calm
@given(window(), FINDS)
def test_a_window_is_found_though_a_clean_end_was_stated_to_have_the_bug(
    history: History, find: Find
) -> None:
    history[0] = history[-1] = CLEAN
    if BUG not in history:
        return
    result, _ = search(ended(history, find), history.__getitem__)
    assert result.kind is Kind.FOUND
    assert (result.before, result.after) == around(history, find)
    assert "did not show the bug" in " ".join(result.notes)


@calm
@given(st.lists(st.sampled_from(list(Answer)), min_size=1, max_size=40), FINDS)
def test_scan_looks_at_every_candidate_and_reports_every_transition(history: History, find: Find) -> None:
    result, asked = search(Question(len(history), find, scan=True, confirm=once), history.__getitem__)
    assert candidates(asked) == set(range(len(history)))
    known = [(i, a) for i, a in enumerate(history) if a is not UNKNOWN]
    pairs = pairwise(known)
    turns = [(i, j, b) for (i, a), (j, b) in pairs if a is not b]
    assert [(t.before, t.after, t.into) for t in result.transitions] == turns


@calm
@given(st.lists(st.sampled_from(list(Answer)), min_size=1, max_size=40), FINDS)
def test_records_of_any_history_are_answered_by_its_newest_window_and_nothing_is_run(
    history: History, find: Find
) -> None:
    records = list(enumerate(history))
    result, asked = search(Question(len(history), find, confirm=once), history.__getitem__, records)
    assert asked == []
    edges = [t for t in result.transitions if t.into is (BUG if find == "introduced" else CLEAN)]
    known = [a for a in history if a is not UNKNOWN]
    if find == "fixed" and known and known[-1] is BUG:
        assert result.kind is Kind.NOT_FIXED
    elif edges and (find == "fixed" or CLEAN in history[: _newest_bug(history)]):
        assert (result.before, result.after) == around(history, find)
        assert result.contradicted == (len(edges) > 1)
        assert ("more than once" in " ".join(result.notes)) == (len(edges) > 1)
    else:
        assert result.kind in (Kind.EVERYWHERE, Kind.NEVER, Kind.UNTESTABLE)


def _newest_bug(history: History) -> int:
    return max((i for i, a in enumerate(history) if a is BUG), default=0)


QUESTIONS = st.builds(
    lambda n, find, ends, grid, scan, thorough, skips, budget: Question(
        n,
        find,
        good=(None if not ends & 1 else 0 if find == "introduced" else n - 1),
        bad=(None if not ends & 2 else n - 1 if find == "introduced" else 0),
        grid=tuple(i for i in grid if i < n),
        scan=scan,
        thorough=thorough,
        skips=skips,
        qualify=3,
        budget=budget,
    ),
    st.integers(2, 16),
    FINDS,
    st.integers(0, 3),
    st.sets(st.integers(0, 15), max_size=4),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
    st.sampled_from([None, 0, 3, 6, 10, 30, 100]),
)


@settings(calm, max_examples=30)
@given(QUESTIONS, st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.4]))
def test_whatever_is_answered_the_search_ends_with_a_result_that_fits_what_it_saw(
    question: Question, seed: int, unknown: float
) -> None:
    rng = random.Random(seed)

    def anything(_: int) -> Answer:
        return UNKNOWN if rng.random() < unknown else rng.choice((BUG, CLEAN))

    result, asked = search(question, anything)
    assert result.runs == len(asked)
    assert result.asked == len(candidates(asked))
    if result.before is not None and result.after is not None:
        assert result.before < result.after
        assert {result.before, result.after} <= candidates(asked)


@settings(calm, max_examples=60)
@given(QUESTIONS, st.integers(0, 2**32), st.booleans())
def test_the_move_depends_on_the_evidence_alone_and_prefetch_names_the_next_one(
    question: Question, seed: int, flaky: bool
) -> None:
    rng = random.Random(seed)
    history = [rng.choice(list(Answer)) for _ in range(question.n)]
    evidence: Trail = []
    for _ in range(12):
        move = step(question, evidence)
        if isinstance(move, Done):
            return
        shuffled = rng.sample(evidence, len(evidence))
        assert step(question, shuffled) == move
        ahead = upcoming(question, evidence, move)
        assert move.index not in ahead
        answer = rng.choice(list(Answer)) if flaky else history[move.index]
        evidence.append((move.index, answer))
        following = step(question, evidence)
        if isinstance(following, Ask) and following.index != move.index:
            assert following.index in ahead


@calm
@given(monotone(), st.integers(0, 2**32))
def test_recorded_evidence_is_never_asked_for_again(case: tuple[History, Find], seed: int) -> None:
    history, find = case
    rng = random.Random(seed)
    some = [i for i in range(len(history)) if rng.random() < 0.5]
    records = [(i, history[i]) for i in some for _ in range(3)]
    question = ended(history, find, confirm=Confirm(3, 2, until_sure=False))
    result, asked = search(question, history.__getitem__, records)
    assert (result.before, result.after) == around(history, find)
    assert not candidates(asked) & set(some)


@calm
@given(monotone(unknowns=False), st.data())
def test_installed_candidates_never_make_more_installs_necessary(
    case: tuple[History, Find], data: st.DataObject
) -> None:
    history, find = case
    n = len(history)
    cheap = data.draw(st.sets(st.integers(0, n - 1)))
    cost = tuple(0.1 if i in cheap else 1.0 for i in range(n))
    result, asked = search(ended(history, find, cost=cost), history.__getitem__)
    assert (result.before, result.after) == around(history, find)
    assert len(candidates(asked) - cheap - {0, n - 1}) <= ceil(log2(n - 1))


# Noise.


def flaky(seed: int, bugs: range, fails: float, false: float = 0.0) -> Callable[[int], Answer]:
    rng = random.Random(seed)
    return lambda i: BUG if rng.random() < (fails if i in bugs else false) else CLEAN


@pytest.mark.parametrize(("fails", "false"), [(0.6, 0.0), (0.8, 0.05), (1.0, 0.2)])
def test_the_stated_confidence_is_honest_under_noise(fails: float, false: float) -> None:
    right, claims, claimed = 0, 0, 0.0
    for seed in range(80):
        change = 1 + seed * 7 % 39
        truth = flaky(seed, range(change, 40), fails, false)
        result, _ = search(Question(40, "introduced", good=0, bad=39), truth)
        if result.kind is Kind.FOUND:
            assert result.confidence is not None
            assert result.confidence >= 0.95
            claims, claimed = claims + 1, claimed + result.confidence
            right += result.after == change
    assert claims >= 74
    # Three standard deviations of a fair 0.95 over 80 histories are 0.073.
    assert right / claims >= claimed / claims - 0.073


def test_a_flaky_bug_that_looked_clean_is_caught_when_the_pair_is_confirmed() -> None:
    hasty = Confirm(clean=1, bug=1, until_sure=False)
    wrong = {False: 0, True: 0}
    for seed in range(40):
        for careful in wrong:
            confirm = Confirm() if careful else hasty
            question = Question(30, "introduced", good=0, bad=29, confirm=confirm)
            result, _ = search(question, flaky(seed, range(11, 30), 0.6))
            wrong[careful] += result.kind is Kind.FOUND and result.after != 11
    assert wrong[True] <= 4 < wrong[False]


def test_a_flaky_window_is_found_without_any_ends() -> None:
    right = 0
    for seed in range(20):
        result, _ = search(Question(30, "fixed"), flaky(seed, range(9, 20), 0.7))
        right += (result.kind, result.before) == (Kind.FOUND, 19)
    assert right >= 18


def test_a_budget_ends_a_noisy_search_with_the_range_that_holds_ninety_percent() -> None:
    question = Question(40, "introduced", good=0, bad=39, budget=20)
    result, asked = search(question, flaky(3, range(17, 40), 0.3, 0.1))
    assert len(asked) == 20
    assert result.kind is Kind.INCONCLUSIVE
    assert result.likely is not None
    assert result.likely[0] < 17 <= result.likely[1]
    assert "budget of 20 runs" in " ".join(result.notes)


def test_a_budget_ends_an_exact_search_with_the_range_that_is_left() -> None:
    question = Question(40, "introduced", good=0, bad=39, budget=4, confirm=once)
    result, _ = search(question, lambda i: BUG if i >= 17 else CLEAN)
    assert (result.kind, result.before, result.after) == (Kind.INCONCLUSIVE, 10, 20)


@pytest.mark.parametrize("budget", range(12))
def test_a_budget_may_end_a_search_before_it_has_any_range(budget: int) -> None:
    result, asked = search(Question(60, "introduced", budget=budget), lambda i: BUG if 5 < i < 40 else CLEAN)
    assert (result.kind, len(asked)) == (Kind.INCONCLUSIVE, budget)


def test_a_failure_rate_that_does_not_change_mostly_ends_inconclusive() -> None:
    question = Question(12, "introduced", good=0, bad=11, budget=200)
    kinds = [search(question, flaky(seed, range(12), 0.5))[0].kind for seed in range(10)]
    assert kinds.count(Kind.INCONCLUSIVE) >= 8


def test_a_stated_bad_end_is_tried_again_until_it_shows_a_flaky_bug() -> None:
    answers = iter([CLEAN] * 7)
    _, asked = search(
        Question(2, "introduced", good=0, bad=1),
        lambda i: next(answers, BUG) if i == 1 else CLEAN,
    )
    assert [i for i, _ in asked[:8]] == [1] * 8


def test_reruns_come_before_installs_because_they_cost_less() -> None:
    runs = installs = 0
    for seed in range(20):
        _, asked = search(Question(60, "introduced", good=0, bad=59), flaky(seed, range(23, 60), 0.5))
        runs, installs = runs + len(asked), installs + len(candidates(asked))
    assert installs / 20 <= ceil(log2(60)) + 6
    assert runs > 3 * installs


# Single promises.


def test_the_grid_is_visited_in_an_order_that_halves_the_gaps() -> None:
    grid = (4, 9, 14, 19, 24, 29, 34)
    _, asked = search(Question(40, "fixed", grid=grid), lambda i: BUG if i == 2 else CLEAN)
    order = [i for i in dict.fromkeys(i for i, _ in asked) if i != 39]
    assert order[0] == 19
    assert set(order[1:3]) == {9, 29}
    assert set(order[:7]) == set(grid)


def test_the_newest_candidate_comes_first_and_the_other_end_by_doubling() -> None:
    _, asked = search(Question(100, "introduced"), lambda i: BUG if i >= 80 else CLEAN)
    assert list(dict.fromkeys(i for i, _ in asked))[:7] == [99, 98, 97, 95, 91, 83, 67]


def test_the_bug_is_seen_several_times_on_one_candidate_before_others_are_installed() -> None:
    _, asked = search(Question(50, "introduced", good=0, bad=49), lambda i: BUG if i > 7 else CLEAN)
    assert [i for i, _ in asked][:5] == [49, 0, 49, 49, 25]


def test_prefetch_looks_past_reruns_to_the_next_candidate_that_must_be_installed() -> None:
    question = Question(50, "introduced", good=0, bad=49)
    evidence = [(49, BUG), (0, CLEAN)]
    ask = step(question, evidence)
    assert isinstance(ask, Ask)
    assert ask.index == 49
    assert 25 in upcoming(question, evidence, ask)


def test_unknowns_older_than_the_bug_are_bisected_and_the_rest_is_named_untried() -> None:
    result, asked = search(Question(64, "introduced"), lambda i: BUG if i >= 40 else UNKNOWN)
    assert (result.kind, result.after) == (Kind.EVERYWHERE, 40)
    assert sorted((*result.hidden, *result.untried)) == list(range(40))
    assert 39 in result.hidden
    assert len(candidates(asked)) <= 2 * log2(64) + 2
    assert any("not tried" in note for note in result.notes)


def test_newest_candidates_that_cannot_run_it_do_not_hide_that_it_is_not_fixed() -> None:
    result, _ = search(Question(64, "fixed"), lambda i: UNKNOWN if i >= 50 else BUG)
    assert (result.kind, result.before) == (Kind.NOT_FIXED, 49)


def test_a_good_end_that_shows_the_bug_is_a_contradiction() -> None:
    result, asked = search(Question(10, "introduced", good=3, bad=9), lambda i: BUG)
    assert result.kind is Kind.CONTRADICTORY
    assert candidates(asked) == {3, 9}


def test_an_end_that_cannot_be_tested_is_replaced_by_its_neighbour() -> None:
    history = [UNKNOWN, CLEAN, CLEAN, CLEAN, BUG, BUG, UNKNOWN, UNKNOWN]
    result, _ = search(ended(history, "introduced"), history.__getitem__)
    assert (result.kind, result.before, result.after) == (Kind.FOUND, 3, 4)
    assert len(result.notes) == 2


@pytest.mark.parametrize("answer", [BUG, CLEAN])
def test_one_testable_candidate_between_two_untestable_ends_is_no_change(answer: Answer) -> None:
    history = [UNKNOWN, UNKNOWN, answer, UNKNOWN]
    result, _ = search(ended(history, "introduced"), history.__getitem__)
    assert result.kind is (Kind.EVERYWHERE if answer is BUG else Kind.NEVER)


def test_unknowns_while_confirming_do_not_keep_the_search_going() -> None:
    seen: set[int] = set()

    def once_then_unknown(index: int) -> Answer:
        first = index not in seen
        seen.add(index)
        return (BUG if index >= 5 else CLEAN) if first else UNKNOWN

    result, _ = search(Question(12, "introduced", good=0, bad=11), once_then_unknown)
    assert (result.kind, result.before, result.after) == (Kind.FOUND, 4, 5)
    assert any("less than" in note for note in result.notes)


def test_the_newest_of_several_windows_is_answered_and_the_others_are_named() -> None:
    history = [BUG if 3 <= i < 6 or 20 <= i < 25 else CLEAN for i in range(30)]
    result, _ = search(Question(30, "introduced", scan=True), history.__getitem__)
    assert (result.last_without, result.first_with) == (19, 20)
    assert result.contradicted
    assert any("2 to 3" in note for note in result.notes)
    result, _ = search(Question(30, "fixed", scan=True), history.__getitem__)
    assert (result.last_with, result.first_without) == (24, 25)


def test_the_pair_is_confirmed_as_often_as_the_caller_says() -> None:
    question = Question(20, "introduced", good=0, bad=19, confirm=Confirm(5, 4, until_sure=False))
    _, asked = search(question, lambda i: BUG if i >= 8 else CLEAN)
    runs = [i for i, _ in asked]
    assert (runs.count(7), runs.count(8)) == (5, 4)


@pytest.mark.parametrize(
    "bad",
    [
        {"good": 5, "bad": 2},
        {"find": "fixed", "good": 2, "bad": 5},
        {"good": 10},
        {"grid": (11,)},
        {"confidence": 1.0},
        {"cost": (1.0,)},
        {"n": 0},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        replace(Question(10, "introduced"), **bad)  # type: ignore[arg-type]


@pytest.mark.timeout(60)
def test_ten_thousand_candidates_are_no_more_work_than_their_logarithm() -> None:
    history = [BUG if i >= 7777 else CLEAN for i in range(10_000)]
    _, asked = search(ended(history, "introduced"), history.__getitem__)
    assert len(candidates(asked)) <= ceil(log2(10_000)) + 2
    _, asked = search(Question(10_000, "introduced", good=0, bad=9_999), flaky(5, range(7777, 10_000), 0.8))
    assert len(candidates(asked)) <= ceil(log2(10_000)) + 12


@pytest.mark.timeout(60)
def test_two_noisy_runs_of_each_of_ten_thousand_candidates_can_be_judged() -> None:
    truth = flaky(6, range(7777, 10_000), 0.6, 0.05)
    records = [(i, truth(i)) for i in range(10_000) for _ in range(2)]
    result, _ = search(Question(10_000, "introduced"), truth, records)
    assert result.likely is not None
    assert abs(result.likely[0] - 7776) < 20


# The mathematics, against plain sums.


def _by_hand(fails: list[int], passes: list[int]) -> list[float]:
    """The posterior by summing over a fine grid of both rates, p > q."""
    rates = np.sin((np.arange(400) + 0.5) * np.pi / 800) ** 2
    masses = []
    for b in range(1, len(fails)):
        clean = rates ** sum(fails[:b]) * (1 - rates) ** sum(passes[:b])
        bug = rates ** sum(fails[b:]) * (1 - rates) ** sum(passes[b:])
        masses.append(float(np.triu(np.outer(clean, bug), 1).sum()))
    return [mass / sum(masses) for mass in masses]


TALLIES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=8)


@settings(calm, max_examples=50)
@given(TALLIES)
def test_the_posterior_agrees_with_a_sum_over_both_rates(tallies: list[tuple[int, int]]) -> None:
    fails, passes = ([t[k] for t in tallies] for k in (0, 1))
    posterior = change_point(np.array(fails), np.array(passes))
    assert posterior.mass[0] == posterior.mass[-1] == 0.0
    assert posterior.mass[1:-1] == pytest.approx(_by_hand(fails, passes), abs=0.01)


@settings(calm, max_examples=50)
@given(TALLIES)
def test_the_expected_gain_is_the_fall_of_entropy_that_running_brings(
    tallies: list[tuple[int, int]],
) -> None:
    fails, passes = (np.array([t[k] for t in tallies]) for k in (0, 1))
    before = change_point(fails, passes, 1.0, 1.0)
    gains = before.gains()
    for x in range(len(fails)):
        one = np.eye(len(fails), dtype=np.int64)[x]
        on_bug_side = np.arange(len(fails) + 1) <= x
        fail = float(before.mass @ np.where(on_bug_side, before.bug_rate, before.clean_rate))
        after = [change_point(fails + one, passes, 1, 1), change_point(fails, passes + one, 1, 1)]
        left = fail * _bits(after[0].mass) + (1 - fail) * _bits(after[1].mass)
        assert gains[x] == pytest.approx(_bits(before.mass) - left, abs=1e-6)


def _bits(mass: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(-sum(m * log2(m) for m in mass.tolist() if m > 0))


def test_the_likeliest_window_is_where_the_failures_are() -> None:
    fails = np.array([0, 0, 1, 2, 1, 0, 0])
    assert likeliest_window(fails, 2 - fails) == (2, 5)
