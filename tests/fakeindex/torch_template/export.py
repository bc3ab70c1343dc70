# mypy: ignore-errors
from . import fake, nn


class ExportedProgram:
    def __init__(self, module, run):
        self._module, self._run = module, run

    def module(self):
        from ._dynamo.eval_frame import _with_bugs

        return lambda *args, **kwargs: _with_bugs(self._run, self._module, args, kwargs)


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=True):
    if not isinstance(mod, nn.Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError("Expecting `args` to be a tuple of example positional inputs")
    return ExportedProgram(mod, fake.Run("export", None, {}, None, True))
