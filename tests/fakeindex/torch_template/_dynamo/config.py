# mypy: ignore-errors
from .._config import install

install(
    __name__,
    {
        "assume_static_by_default": True,
        "automatic_dynamic_shapes": True,
        "cache_size_limit": 8,
        "capture_scalar_outputs": False,
        "disable": False,
        "recompile_limit": 8,
        "suppress_errors": False,
        "verbose": False,
    },
)
