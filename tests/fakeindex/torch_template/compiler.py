# mypy: ignore-errors
from ._dynamo.eval_frame import is_compiling, list_backends, reset

__all__ = ["is_compiling", "list_backends", "reset"]
