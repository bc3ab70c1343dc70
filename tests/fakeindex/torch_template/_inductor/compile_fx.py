# mypy: ignore-errors
"""Failures of the compiler come out of this file, so that a traceback shows the phase."""

from .. import fake


def compile_fx(step, backend):
    """Run `step`; what it raises leaves wrapped as this release wraps it."""
    try:
        return step()
    except Exception as error:
        if fake.RELEASE >= (2, 7):
            from .exc import InductorError

            raise InductorError(error) from error
        from .._dynamo.exc import BackendCompilerFailed

        raise BackendCompilerFailed(backend, error) from error
