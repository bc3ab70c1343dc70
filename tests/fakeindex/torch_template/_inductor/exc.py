# mypy: ignore-errors
class CompileError(RuntimeError):
    """What `suppress_errors` may swallow."""


class InductorError(CompileError):
    def __init__(self, inner):
        self.inner_exception = inner
        super().__init__(f"{type(inner).__name__}: {inner}")


class LoweringException(RuntimeError):
    pass


class CppCompileError(RuntimeError):
    pass
