"""Ranges of releases as typed mean what a reader takes them to mean."""

from __future__ import annotations

import pytest
from fakeindex import DATES
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from harness.errors import UsageError
from harness.ranges import ReleaseRange

ALL = [Version(text) for text in DATES]
NIGHTLY = [Version("2.16.0.dev20261101+cpu"), Version("2.16.0.dev20261103+cpu")]


def picked(text: str, versions: list[Version] | None = None) -> str:
    return " ".join(map(str, ReleaseRange.parse(text).pick(ALL if versions is None else versions)))


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("2.14.1", "2.14.1"),
        (" 2.14.1 ", "2.14.1"),
        ("2.14", "2.14.0 2.14.1"),
        ("2.13..", "2.13.0 2.14.0 2.14.1 2.15.0"),
        ("..2.1.0", "2.0.0 2.0.1 2.1.0"),
        ("..2.0", "2.0.0 2.0.1"),
        ("2.8..2.9", "2.8.0 2.9.0 2.9.1"),
        ("2.9..2.9", "2.9.0 2.9.1"),
        ("2.9.1..2.9", "2.9.1"),
        ("latest", "2.15.0"),
        ("latest:2", "2.14.1 2.15.0"),
        ("minors:2.12..2.14", "2.12.1 2.13.0 2.14.1"),
        ("2.0.1,2.15,2.0.1", "2.0.1 2.15.0"),
        ("2.3.1, latest", "2.3.1 2.15.0"),
        ("3.0..", ""),
        ("2.5.9", ""),
    ],
)
def test_a_range_picks_what_it_says_oldest_first(text: str, means: str) -> None:
    assert picked(text) == means


def test_all_is_everything_and_minors_is_the_last_patch_of_each_minor() -> None:
    assert picked("all") == " ".join(DATES)
    minors = picked("minors").split()
    assert len(minors) == 16
    assert {"2.0.1", "2.9.1", "2.14.1"} <= set(minors)


def test_pre_releases_come_only_by_name_or_where_there_is_nothing_else() -> None:
    mixed = [*ALL, Version("2.16.0rc1")]
    assert picked("2.15..", mixed) == "2.15.0"
    assert picked("latest", mixed) == "2.15.0"
    assert picked("2.16.0rc1", mixed) == "2.16.0rc1"
    assert picked("2.15..2.16.0rc1", mixed) == "2.15.0 2.16.0rc1"
    assert picked("latest", NIGHTLY) == str(NIGHTLY[1])
    assert picked("2.16.0.dev20261102..", NIGHTLY) == str(NIGHTLY[1])
    assert picked("all", []) == ""


@pytest.mark.parametrize(
    "text",
    ["two", "2.9..2.8", "latest:0", "latest:-1", "latest:x", "2.6...2.9", ",", "minors:", "..x", "2.1,,x"],
)
@pytest.mark.parametrize("times", [1, 200])
def test_a_range_that_is_none_is_refused_with_a_hint(text: str, times: int) -> None:
    with pytest.raises(UsageError) as caught:
        ReleaseRange.parse(text * times)
    assert caught.value.hint


@given(st.text(alphabet="0123456789.,:latesminorv -+dvrc", max_size=30))
def test_any_text_is_a_range_or_a_usage_error(text: str) -> None:
    try:
        parsed = ReleaseRange.parse(text)
    except UsageError:
        return
    chosen = parsed.pick(ALL)
    assert chosen == sorted(set(chosen))
    assert set(chosen) <= set(ALL)


@given(st.sampled_from(ALL), st.sampled_from(ALL), st.sampled_from(ALL))
def test_a_span_holds_what_lies_between_its_ends(low: Version, high: Version, other: Version) -> None:
    low, high = min(low, high), max(low, high)
    span = ReleaseRange.parse(f"{low}..{high}")
    assert span.matches(other) == (low <= other <= high)
    assert (other in span.pick(ALL)) == span.matches(other)
