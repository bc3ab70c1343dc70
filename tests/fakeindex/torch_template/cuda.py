# mypy: ignore-errors
def is_available():
    return False


def device_count():
    return 0


def is_initialized():
    return False


def synchronize(device=None):
    raise RuntimeError("Found no NVIDIA driver on your system.")


def get_device_name(device=None):
    raise RuntimeError("Found no NVIDIA driver on your system.")
