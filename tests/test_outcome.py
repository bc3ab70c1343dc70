"""The rules that turn outcomes into verdicts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.outcome import (
    ExceptionInfo,
    Kind,
    Outcome,
    Phase,
    Signature,
    Verdict,
    WorkaroundVerdict,
    hits,
    matched,
    repro_verdict,
    workaround_verdict,
)

BUG = [Signature.model_validate({"kind": "error", "message": "the bug"})]
PYTHON = [Signature.model_validate({"kind": "error", "message": "not yet supported"})]
NO_EVIDENCE = {Kind.UNSUPPORTED, Kind.SETUP, Kind.SKIPPED}


def outcome(kind: Kind, message: str = "", phase: Phase = Phase.RUN, **more: Any) -> Outcome:
    exceptions = (ExceptionInfo(type="RuntimeError", message=message),) if message else ()
    return Outcome(kind=kind, phase=phase, exceptions=exceptions, **more)


bug = outcome(Kind.ERROR, "this is the bug")
other = outcome(Kind.ERROR, "another failure")
ok = outcome(Kind.OK)

outcomes = st.builds(
    outcome,
    st.sampled_from(list(Kind)),
    st.sampled_from(["", "this is the bug", "another failure", "Python 3.12 not yet supported"]),
    st.sampled_from(list(Phase)),
)
several = st.lists(outcomes, max_size=5)


@given(several, st.lists(st.sampled_from(list(Verdict)), min_size=1))
def test_where_a_control_is_not_clean_nothing_is_concluded(
    attempts: list[Outcome], controls: list[Verdict]
) -> None:
    verdict = repro_verdict(attempts, BUG, (), controls)
    if any(control is not Verdict.CLEAN for control in controls):
        assert verdict is Verdict.UNKNOWN
    else:
        assert verdict is repro_verdict(attempts, BUG)


@given(several)
def test_one_attempt_that_matches_is_enough_and_nothing_else_is_a_bug(attempts: list[Outcome]) -> None:
    verdict = repro_verdict(attempts, BUG, PYTHON)
    assert (verdict is Verdict.BUG) == (hits(attempts, BUG) > 0)


@given(st.lists(st.sampled_from(sorted(NO_EVIDENCE)).map(outcome), max_size=4))
def test_what_could_not_run_says_nothing(attempts: list[Outcome]) -> None:
    assert repro_verdict(attempts, BUG) is Verdict.UNKNOWN
    everything = [Signature.model_validate({"kind": [str(kind) for kind in Kind]})]
    assert repro_verdict(attempts, everything) is Verdict.UNKNOWN


@given(several, st.randoms())
def test_the_order_of_attempts_does_not_matter(attempts: list[Outcome], random: Any) -> None:
    shuffled = list(attempts)
    random.shuffle(shuffled)
    assert repro_verdict(attempts, BUG, PYTHON) is repro_verdict(shuffled, BUG, PYTHON)
    for baseline in Verdict:
        assert workaround_verdict(baseline, attempts, BUG) is workaround_verdict(baseline, shuffled, BUG)


@given(several)
def test_clean_means_that_all_that_ran_was_fine(attempts: list[Outcome]) -> None:
    ran = [o for o in attempts if o.kind not in NO_EVIDENCE]
    assert (repro_verdict(attempts, BUG) is Verdict.CLEAN) == (
        bool(ran) and all(o.kind is Kind.OK for o in ran)
    )


def test_a_failure_of_another_sort_is_other_and_one_that_says_unsupported_is_nothing() -> None:
    assert repro_verdict([ok, other], BUG) is Verdict.OTHER
    refused = outcome(Kind.ERROR, "Python 3.12+ not yet supported")
    assert repro_verdict([refused], BUG) is Verdict.OTHER
    assert repro_verdict([refused], BUG, PYTHON) is Verdict.UNKNOWN
    assert repro_verdict([refused, ok], BUG, PYTHON) is Verdict.CLEAN
    both = outcome(Kind.ERROR, "this is the bug, not yet supported")
    assert repro_verdict([both], BUG, PYTHON) is Verdict.BUG


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        ([ok], "holds"),
        ([ok, ok], "holds"),
        ([ok, bug], "fails"),
        ([bug, other], "fails"),
        ([other], "breaks"),
        ([ok, outcome(Kind.TIMEOUT)], "breaks"),
        ([outcome(Kind.UNSUPPORTED, "no such option")], "rejected"),
        ([outcome(Kind.SETUP)], "unknown"),
        ([outcome(Kind.SETUP), ok], "holds"),
        ([], "unknown"),
    ],
)
def test_a_workaround_is_judged_where_its_baseline_shows_the_bug(
    attempts: list[Outcome], verdict: str
) -> None:
    assert workaround_verdict(Verdict.BUG, attempts, BUG) == verdict
    assert workaround_verdict(Verdict.UNKNOWN, attempts, BUG) is WorkaroundVerdict.UNKNOWN
    for baseline in (Verdict.CLEAN, Verdict.OTHER):
        assert workaround_verdict(baseline, attempts, BUG) is WorkaroundVerdict.MOOT


CHAIN = Outcome(
    kind=Kind.ERROR,
    phase=Phase.COMPILE,
    exit_code=0,
    exceptions=(
        ExceptionInfo(
            type="torch._dynamo.exc.BackendCompilerFailed", message="backend raised:\nKeyError: 'x'"
        ),
        ExceptionInfo(type="KeyError", message="'x'", link="cause"),
        ExceptionInfo(type="OSError", message="unrelated", link="context"),
    ),
    stderr_tail="W1230 something was logged",
)


@pytest.mark.parametrize(
    ("asked", "matches"),
    [
        ({"kind": "error"}, True),
        ({"kind": ["mismatch", "error"]}, True),
        ({"kind": "mismatch"}, False),
        ({"phase": "compile"}, True),
        ({"phase": ["run", "eager"]}, False),
        ({"exception": "KeyError"}, True),
        ({"exception": "BackendCompilerFailed"}, True),
        ({"exception": "torch._dynamo.exc.BackendCompilerFailed"}, True),
        ({"exception": ["TypeError", "KeyError"]}, True),
        ({"exception": "Key"}, False),
        ({"message": "backend rai.ed"}, True),
        ({"message": ["no", "something was logged"]}, True),
        ({"message": "KeyError: 'x'"}, True),
        ({"message": "no such words"}, False),
        ({"exit_code": 0}, True),
        ({"exit_code": [1, 2]}, False),
        ({"signal": "SIGSEGV"}, False),
        ({"exception": "KeyError", "message": "no such words"}, False),
    ],
)
def test_a_signature_matches_where_all_that_it_gives_holds(asked: dict[str, Any], matches: bool) -> None:
    signature = Signature.model_validate({"kind": "error", **asked})
    assert signature.matches(CHAIN) is matches
    assert (matched(CHAIN, [Signature(kind=[Kind.SIGNAL]), signature]) == 1) is matches


def test_the_innermost_explicit_exception_is_the_one_that_is_shown() -> None:
    assert (CHAIN.exception, CHAIN.message) == ("KeyError", "'x'")
    bare = Outcome(kind=Kind.TIMEOUT, phase=Phase.RUN, reason="did not end within 3 s")
    assert (bare.exception, bare.message) == (None, "did not end within 3 s")
    blank = outcome(Kind.ERROR, "\n\n  said late  \n")
    assert blank.message == "said late"


@pytest.mark.parametrize(
    "bad",
    [{}, {"kind": []}, {"kind": "eror"}, {"kind": "error", "phase": "x"}, {"kind": "error", "message": "("},
     {"kind": "error", "mesage": "x"}, {"kind": 3}, {"kind": "error", "exit_code": "x"}],
)  # fmt: skip
def test_a_signature_that_makes_no_sense_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Signature.model_validate(bad)


@given(st.text(max_size=20))
def test_any_text_is_a_pattern_or_refused(text: str) -> None:
    try:
        Signature.model_validate({"kind": "error", "message": text})
    except ValidationError:
        with pytest.raises((re.error, RecursionError, OverflowError)):
            re.compile(text)
