# mypy: ignore-errors
from . import config, exc

__all__ = ["config", "exc", "list_mode_options", "list_options"]


def list_options():
    return list(config.get_config_copy())


def list_mode_options(mode=None, dynamic=None):
    options = {
        "default": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
        "max-autotune": {
            "max_autotune": True,
            "triton.cudagraphs": True,
            "coordinate_descent_tuning": True,
        },
    }
    return options[mode] if mode else options
