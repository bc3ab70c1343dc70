# mypy: ignore-errors
"""Config modules as torch has them: known dotted names alone, nested groups, `patch`."""

import contextlib
import sys
import types


class ConfigModule(types.ModuleType):
    """A module whose attributes are its settings; an unknown one is refused, as torch does."""

    def _key(self, name):
        if name not in self._values:
            raise AttributeError(f"{self.__name__}.{name} does not exist")
        return name

    def __getattr__(self, name):
        if name.startswith("__") or "_values" not in self.__dict__:
            raise AttributeError(name)
        if any(key.startswith(name + ".") for key in self._values):
            return Group(self, name)
        return self._values[self._key(name)]

    def __setattr__(self, name, value):
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            self._values[self._key(name)] = value

    def get_config_copy(self):
        return dict(self._values)

    shallow_copy_dict = to_dict = get_config_copy

    def load_config(self, values):
        self._values.update(values)

    @contextlib.contextmanager
    def patch(self, changes=None, value=None, **named):
        changes = {changes: value} if isinstance(changes, str) else dict(changes or {}, **named)
        before = {self._key(name): self._values[name] for name in changes}
        self._values.update(changes)
        try:
            yield
        finally:
            self._values.update(before)


class Group:
    def __init__(self, module, prefix):
        self.__dict__.update(_module=module, _prefix=prefix + ".")

    def __getattr__(self, name):
        return self._module._values[self._module._key(self._prefix + name)]

    def __setattr__(self, name, value):
        self._module._values[self._module._key(self._prefix + name)] = value


def install(name, values):
    """Turn the module `name` into a config module with these settings."""
    from .fake import TABLE

    module = sys.modules[name]
    missing = TABLE.get("missing_config", ())
    kept = {key: value for key, value in values.items() if name + "." + key not in missing}
    module.__dict__["_values"] = kept
    module.__class__ = ConfigModule
