# mypy: ignore-errors
"""Failures of compiled code come out of this file, so that a traceback shows the phase."""


def call(step):
    return step()
