"""Fake torch releases on a local package index: the whole tool, tested in seconds.

    with FakeIndex(history(bug=("2.3.0", "2.6.0")), work=tmp_path) as index:
        subprocess.run(["harness", "bisect", "script.py", ...], env=index.env())

A script or repro asks for its bug with `torch.fake.maybe("bug", value)`, and the release's table
decides what happens; see `behaviour` for what can, `releases` for what can be published, and
`FakeIndex` for what can go wrong on the way.
"""

from .behaviour import (
    SHORTHANDS,
    Behaviour,
    allocate,
    clean,
    crash,
    error,
    exits,
    flaky,
    hang,
    missing_operator,
    one_of,
    warns,
    wrong_dtype,
    wrong_shape,
    wrong_stride,
    wrong_values,
)
from .index import FakeIndex
from .releases import (
    DATES,
    NIGHTLY,
    STABLE,
    SUPPORT,
    Bug,
    Package,
    Release,
    history,
    nightlies,
    setuptools,
)
from .server import Fault, Request
from .wheels import Damage, Wheel, git_version, platform_tag, python_tag

__all__ = [
    "DATES",
    "NIGHTLY",
    "SHORTHANDS",
    "STABLE",
    "SUPPORT",
    "Behaviour",
    "Bug",
    "Damage",
    "FakeIndex",
    "Fault",
    "Package",
    "Release",
    "Request",
    "Wheel",
    "allocate",
    "clean",
    "crash",
    "error",
    "exits",
    "flaky",
    "git_version",
    "hang",
    "history",
    "missing_operator",
    "nightlies",
    "one_of",
    "platform_tag",
    "python_tag",
    "setuptools",
    "warns",
    "wrong_dtype",
    "wrong_shape",
    "wrong_stride",
    "wrong_values",
]
