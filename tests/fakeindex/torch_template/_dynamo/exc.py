# mypy: ignore-errors
class TorchDynamoException(RuntimeError):
    pass


class Unsupported(TorchDynamoException):
    pass


class InvalidBackend(TorchDynamoException):
    def __init__(self, name):
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends."
        )


class BackendCompilerFailed(TorchDynamoException):
    def __init__(self, backend, inner):
        self.backend_name, self.inner_exception = backend, inner
        super().__init__(
            f"backend={backend!r} raised:\n{type(inner).__name__}: {inner}\n\n"
            'Set TORCH_LOGS="+dynamo" and TORCHDYNAMO_VERBOSE=1 for '
            "more information\n\n\nYou can suppress this exception and fall back to eager by "
            "setting:\n    import torch._dynamo\n    torch._dynamo.config.suppress_errors = True\n"
        )
