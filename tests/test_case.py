"""A case file that is malformed is refused with file, line, key and what would be right."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.case import Case
from harness.casefile import build_case, load_case, load_corpus
from harness.cell import make_cell
from harness.errors import CaseError
from harness.yamlsource import MAX_BYTES, parse_yaml

HERE = Path(__file__).parent
CORPUS = HERE.parent / "cases"

GOOD = """\
id: good
title: A good case
failure:
  - {kind: error, phase: [compile, run], message: 'Expected .*'}
repros:
  one:
    role: trigger
    model: |
      def forward(x, y):
          return x + y
    inputs: {x: {shape: [2, 3]}, y: {same_as: x}}
  two:
    role: control
    model: |
      def run(compile, x):
          return compile(torch.relu)(x)
    inputs: {x: {shape: [3]}}
workarounds:
  plain: {compile: {backend: eager}, applies_to: [one]}
claims:
  - source: blog
    section: "1"
    says: It helps.
    expect: {workaround: plain, verdict: holds}
expect:
  - {repro: two, verdict: clean, torch: 2.1..}
"""

TWO = "    model: |\n      def run(compile, x):\n          return compile(torch.relu)(x)\n"

# What is changed in GOOD, and what the refusal must say: line, key, words, words of the hint.
REFUSED: dict[str, tuple[str, str, int, str, str, str]] = {
    "unknown key": (
        "    role: trigger",
        "    rolle: trigger",
        7,
        "repros.one.rolle",
        "unknown key 'rolle'",
        "role",
    ),
    "unknown key at the top": ("title:", "titel:", 2, "titel", "unknown key 'titel'", "title"),
    "unknown key of an input": (
        "shape: [2, 3]",
        "shap: [2, 3]",
        11,
        "repros.one.inputs.x.shap",
        "unknown key 'shap'",
        "shape",
    ),
    "unknown key of compile": (
        "{backend: eager}",
        "{backnd: eager}",
        19,
        "workarounds.plain.compile.backnd",
        "unknown key",
        "backend",
    ),
    "unknown key of a signature": ("phase:", "fase:", 4, "failure.0.fase", "unknown key 'fase'", "phase"),
    "missing key": ("    role: trigger\n", "", 6, "repros.one", "key 'role' is missing", ""),
    "wrong type": ("title: A good case", "title: [1]", 2, "title", "valid string", ""),
    "a number for a string": ("title: A good case", "title: 3", 2, "title", "valid string, not 3", ""),
    "a string for a list": ("[2, 3]", "abc", 11, "repros.one.inputs.x", "", ""),
    "a role that is none": (
        "role: control",
        "role: contrl",
        13,
        "repros.two.role",
        "'trigger', 'control' or 'claimed', not 'contrl'",
        "",
    ),
    "a kind that is none": ("kind: error", "kind: eror", 4, "failure.0.kind", "must be one of ok, error", ""),
    "a phase that is none": ("[compile, run]", "[compile, runn]", 4, "failure.0.phase", "must be one of", ""),
    "a bad pattern": (
        "'Expected .*'",
        "'(Expected'",
        4,
        "failure.0.message",
        "is no regular expression: missing )",
        "",
    ),
    "an endless pattern": (
        "'Expected .*'",
        f"'{'a' * 3000}'",
        4,
        "failure.0.message",
        "longer than 2000",
        "",
    ),
    "bad Python": (
        "    return x + y",
        "    return x +",
        8,
        "repros.one.model",
        "is not valid Python: invalid syntax (line 2 of the source)",
        "",
    ),
    "Python that defines nothing": (
        "def forward",
        "def fourward",
        6,
        "repros.one",
        "must define forward(...)",
        "",
    ),
    "no body": (TWO, "", 12, "repros.two", "exactly one of model and script", ""),
    "a repro that is not there": (
        "applies_to: [one]",
        "applies_to: [onne]",
        19,
        "workarounds.plain.applies_to.0",
        "no repro is named 'onne'",
        "one",
    ),
    "a workaround that is not there": (
        "workaround: plain",
        "workaround: plan",
        24,
        "claims.0.expect.0.workaround",
        "no workaround is named 'plan'",
        "plain",
    ),
    "an expected repro that is not there": (
        "repro: two",
        "repro: too",
        26,
        "expect.0.repro",
        "no repro is named 'too'",
        "two",
    ),
    "same_as of nothing": ("same_as: x", "same_as: z", 11, "repros.one.inputs.y", "'z' does not exist", "x"),
    "same_as of itself": ("same_as: x", "same_as: y", 11, "repros.one.inputs.y", "'y' stands below it", "x"),
    "a verdict of something else": (
        "verdict: clean",
        "verdict: holds",
        26,
        "expect.0",
        "'holds' is no verdict of a repro",
        "",
    ),
    "a range that is none": (
        "torch: 2.1..",
        "torch: two",
        26,
        "expect.0.torch",
        "'two' is no release or range",
        "",
    ),
    "a range that runs backwards": (
        "torch: 2.1..",
        "torch: 2.5..2.1",
        26,
        "expect.0.torch",
        "runs backwards",
        "",
    ),
    "an id that is none": ("id: good", "id: Good!", 1, "id", "must be lower-case letters", ""),
    "an id with a path in it": ("id: good", "id: ../good", 1, "id", "must be lower-case letters", ""),
    "a repro's name that is none": ("  one:", "  One Two:", 6, "repros", "must be lower-case letters", ""),
    "a workaround that changes nothing": (
        "compile: {backend: eager}, ",
        "",
        19,
        "workarounds.plain",
        "changes nothing",
        "",
    ),
    "a key that stands twice": (
        "    role: trigger",
        "    role: trigger\n    role: control",
        8,
        "role",
        "key 'role' stands twice",
        "",
    ),
    "a key that YAML reads as a number": (
        "{x: {shape: [3]}}",
        "{2.10: {shape: [3]}}",
        17,
        "",
        "key '2.10' must be quoted, else YAML reads it as 2.1",
        "",
    ),
    "an alias": ("{same_as: x}}", "*x}", 11, "", "anchors and aliases are not allowed", ""),
    "an anchor": ("title: A", "title: &a A", 2, "", "anchors and aliases are not allowed", ""),
    "a tag": (
        "title: A good case",
        "title: !!python/object:os.system x",
        2,
        "",
        "could not determine a constructor",
        "",
    ),
    "a value that its tag does not fit": (
        "title: A good case",
        "title: !!int ''",
        0,
        "",
        "is not valid YAML",
        "",
    ),
    "a number that fits no tensor": (
        "[2, 3]",
        f"[0x{'f' * 20000}]",
        11,
        "repros.one.inputs.x.shape.0",
        "a number this large",
        "",
    ),
    "broken YAML": ("title: A", "title: 'A", 4, "", "is not valid YAML", ""),
    "a script that is not there": (
        TWO,
        "    script: no.py\n",
        14,
        "repros.two.script",
        "no such file: no.py",
        "",
    ),
    "a script outside": (
        TWO,
        "    script: ../../etc/passwd\n",
        14,
        "repros.two.script",
        "must lie in the folder",
        "",
    ),
    "a script of no name": (
        TWO,
        '    script: "a\\0b"\n',
        14,
        "repros.two.script",
        "is no name of a file",
        "",
    ),
    "a stride of another length": (
        "{shape: [2, 3]}",
        "{shape: [2, 3], stride: [1]}",
        11,
        "repros.one.inputs.x",
        "stride must have as many entries",
        "",
    ),
    "a fill without a value": (
        "{shape: [2, 3]}",
        "{shape: [2, 3], fill: full}",
        11,
        "repros.one.inputs.x",
        "full needs a value",
        "",
    ),
    "a setting that is no path": (
        "{compile: {backend: eager}, ",
        "{config: {max_autotune: true}, ",
        19,
        "workarounds.plain.config",
        "full path such as torch._inductor",
        "",
    ),
    "a variable that is none": (
        "{compile: {backend: eager}, ",
        "{env: {A=B: x}, ",
        19,
        "workarounds.plain.env",
        "is no name of an environment variable",
        "",
    ),
    "a time that is none": (
        "role: control",
        "role: control\n    timeout: -1",
        14,
        "repros.two.timeout",
        "greater than 0, not -1",
        "",
    ),
    "too many trials": (
        "role: control",
        "role: control\n    trials: 5000",
        14,
        "repros.two.trials",
        "less than or equal to 1000",
        "",
    ),
}


def refuse(text: str, folder: Path, name: str = "good.yaml") -> CaseError:
    """The refusal of a case file."""
    file = folder / name
    file.write_text(text)
    with pytest.raises(CaseError) as caught:
        load_case(file, name)
    return caught.value


@pytest.mark.parametrize("what", REFUSED)
def test_a_malformed_case_is_refused_with_file_line_key_and_what_would_be_right(
    what: str, tmp_path: Path
) -> None:
    old, new, line, key, said, hint = REFUSED[what]
    assert GOOD.count(old) >= 1
    error = refuse(GOOD.replace(old, new, 1), tmp_path)
    assert said in error.message
    assert error.file == "good.yaml"
    assert error.message.startswith(f"good.yaml:{line}:" if line else "good.yaml:"), error.message
    assert error.line == (line or None)
    assert (error.key or "").startswith(key), error.key
    assert hint in (error.hint or "")
    assert "\n" not in error.message or "regular expression" in error.message
    assert "pydantic" not in error.message


def test_the_good_case_is_read() -> None:
    case = build_case(parse_yaml(GOOD.encode(), "good.yaml"), HERE)
    assert case.targets_of("plain") == ["one"]
    assert make_cell(case, HERE, "one", "plain").spec["compile"] == {"backend": "eager"}


@pytest.mark.parametrize("folder", [CORPUS, HERE / "cases"], ids=["corpus", "tests"])
def test_every_case_of_the_project_is_well_formed(folder: Path) -> None:
    assert all(isinstance(case, Case) for case in load_corpus(folder))


def test_the_id_is_the_name_of_the_file(tmp_path: Path) -> None:
    error = refuse(GOOD, tmp_path, "better.yaml")
    assert (error.line, error.key) == (1, "id")
    assert "must be the name of the file, 'better'" in error.message


def test_a_file_that_cannot_be_a_case_is_refused_without_reading_it_all(tmp_path: Path) -> None:
    began = time.monotonic()
    assert "larger than" in refuse("x: " + "y" * MAX_BYTES, tmp_path).message
    assert "nested deeper than" in refuse("a: " + "[" * 5000 + "]" * 5000, tmp_path).message
    assert "nested deeper than" in refuse("a: " + "{a: " * 5000 + "}" * 5000, tmp_path).message
    assert "must be a mapping" in refuse("- 1", tmp_path).message
    assert "must be a mapping" in refuse("", tmp_path).message
    assert "aliases" in refuse("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", tmp_path).message
    assert time.monotonic() - began < 10
    with pytest.raises(CaseError, match="cannot be read: No such file"):
        load_case(tmp_path / "none.yaml")
    with pytest.raises(CaseError, match="cannot be read: Is a directory"):
        load_case(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"id: good\ntitle: caf\xe9\n")
    with pytest.raises(CaseError, match=r"latin\.yaml:2: is not UTF-8"):
        load_case(tmp_path / "latin.yaml")


def test_a_corpus_names_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="holds no case"):
        load_corpus(tmp_path)
    (tmp_path / "good.yaml").write_text(GOOD)
    assert [case.id for case in load_corpus(tmp_path)] == ["good"]
    assert [case.id for case in load_corpus(tmp_path, ["good", str(tmp_path / "good.yaml")])] == ["good"]
    with pytest.raises(CaseError, match="no case is named 'godo'") as caught:
        load_corpus(tmp_path, ["godo"])
    assert caught.value.hint == "did you mean good?"
    with pytest.raises(CaseError) as caught:
        load_corpus(tmp_path, ["xyz"])
    assert caught.value.hint == "known: good"
    other = tmp_path / "other"
    other.mkdir()
    (other / "good.yaml").write_text(GOOD.replace("A good case", "Another"))
    with pytest.raises(CaseError, match="two cases have the id 'good'"):
        load_corpus(tmp_path, ["good", str(other / "good.yaml")])


def test_a_workaround_cannot_name_an_input_that_its_repro_does_not_have(tmp_path: Path) -> None:
    text = GOOD.replace("{compile: {backend: eager}, ", "{inputs: {y: {same_as: zz}}, ")
    error = refuse(text, tmp_path)
    assert error.key == "workarounds.plain.inputs.y"
    assert "'zz' does not exist" in error.message
    moved = GOOD.replace("{compile: {backend: eager}, ", "{inputs: {x: {same_as: y}, y: {shape: [2]}}, ")
    assert "stands below it" in refuse(moved, tmp_path).message


def test_the_digest_covers_what_runs_and_nothing_else() -> None:
    def digest(text: str) -> str:
        return make_cell(build_case(parse_yaml(text.encode(), "good.yaml"), HERE), HERE, "one").digest

    same = digest(GOOD)
    assert digest(GOOD.replace("A good case", "Another title")) == same
    assert digest(GOOD.replace("    role: trigger", "    role: trigger\n    note: words")) == same
    assert digest(GOOD.replace("'Expected .*'", "'Something else'")) == same
    assert digest(GOOD.replace("x + y", "x - y")) != same
    assert digest(GOOD.replace("[2, 3]", "[2, 4]")) != same


# Fuzzing: whatever the text, a case comes of it or a CaseError.

WORDS = sorted({word for line in GOOD.splitlines() for word in line.replace(":", " ").split()})
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=8),
    st.dates(),
)
KEYS = st.sampled_from(
    [*WORDS, "expect", "timings", "script", "timeout", "config", "env", "options", "unsupported"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


def survives(raw: bytes) -> None:
    """Nothing but a CaseError leaves."""
    with contextlib.suppress(CaseError):
        assert isinstance(build_case(parse_yaml(raw, "fuzz"), HERE), Case)


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=300))
def test_no_bytes_make_the_loader_fail_otherwise(raw: bytes) -> None:
    survives(raw)


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(alphabet="abx01:-[]{},&*!|>'\"#%@`? \n\t=<.~_", max_size=120))
def test_no_punctuation_makes_the_loader_fail_otherwise(text: str) -> None:
    survives(text.encode())


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_change_to_a_good_case_makes_the_loader_fail_otherwise(data: st.DataObject) -> None:
    document: Any = yaml.safe_load(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        here: Any = document
        while True:
            if isinstance(here, dict) and here:
                key: Any = data.draw(st.sampled_from(sorted(here)))
            elif isinstance(here, list) and here:
                key = data.draw(st.integers(0, len(here) - 1))
            else:
                break
            if not isinstance(here[key], dict | list) or not here[key] or data.draw(st.integers(0, 3)) == 0:
                here[key] = data.draw(VALUES)
                break
            here = here[key]
        if isinstance(here, dict) and data.draw(st.booleans()):
            here[data.draw(KEYS)] = data.draw(VALUES)
    survives(yaml.safe_dump(document, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, len(GOOD)), st.integers(0, 12), st.text(max_size=12))
def test_no_cut_or_insertion_makes_the_loader_fail_otherwise(at: int, cut: int, put: str) -> None:
    survives((GOOD[:at] + put + GOOD[at + cut :]).encode("utf-8", "surrogatepass"))


def test_the_published_schema_is_the_one_that_the_code_has() -> None:
    from harness.schema import schema_text

    published = Path(__file__).resolve().parent.parent / "cases" / "schema.json"
    assert published.read_text() == schema_text()
