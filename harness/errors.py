"""One base error; each kind has its exit code and, where there is one, a next step for the user.

Exit codes (docs in ``harness --help``): 0 done; 1 a checked expectation does not hold; 2 usage or a
malformed case; 3 inconclusive; 4 an environment could not be made; 130 interrupted.
"""

from __future__ import annotations


class HarnessError(Exception):
    """What a user can cause or mend. ``hint`` is the next step, one sentence."""

    exit_code = 2

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(HarnessError):
    """A command-line value that makes no sense."""


class CaseError(HarnessError):
    """A case file that is malformed; says file, line and key."""

    def __init__(
        self,
        message: str,
        *,
        file: str,
        line: int | None = None,
        key: str | None = None,
        hint: str | None = None,
    ) -> None:
        where = file if line is None else f"{file}:{line}"
        at = f" {key}:" if key else ""
        super().__init__(f"{where}:{at} {message}", hint)
        self.file, self.line, self.key = file, line, key


class StoreError(HarnessError):
    """Records that cannot be read or written."""


class SetupError(HarnessError):
    """An environment that could not be made."""

    exit_code = 4


class ListingError(HarnessError):
    """The package index gave no usable listing, and none was kept from before."""

    exit_code = 4


class ExpectationError(HarnessError):
    """An expectation of the corpus that the records contradict."""

    exit_code = 1


class InconclusiveError(HarnessError):
    """Evidence that supports no answer."""

    exit_code = 3
