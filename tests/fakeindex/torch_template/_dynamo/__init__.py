# mypy: ignore-errors
from . import config, exc, utils
from .eval_frame import is_compiling, list_backends, optimize, reset

__all__ = ["config", "exc", "is_compiling", "list_backends", "optimize", "reset", "utils"]
