# mypy: ignore-errors
"""Tensors as a list of values in logical order, with the strides as a label on top."""

import builtins
import math
import operator


class Size(tuple):
    def __repr__(self):
        return f"torch.Size({list(self)})"

    def numel(self):
        return math.prod(self)


class dtype:
    def __init__(self, name, is_floating_point, bits):
        self.name, self.is_floating_point, self.bits = name, is_floating_point, bits
        self.itemsize, self.is_complex = bits // 8, False

    def __repr__(self):
        return "torch." + self.name

    def __reduce__(self):
        return self.name


float16, float32, float64 = (dtype(f"float{b}", True, b) for b in (16, 32, 64))
bfloat16, bool = dtype("bfloat16", True, 16), dtype("bool", False, 8)
int32, int64 = dtype("int32", False, 32), dtype("int64", False, 64)
half, float, double, int, long = float16, float32, float64, int32, int64
strided = "torch.strided"


class device:
    def __init__(self, type="cpu", index=None):
        name, _, number = str(type).partition(":")
        self.type, self.index = name, builtins.int(number) if number else index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self):
        return f"device(type={self.type!r})"

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def _place(where):
    place = device("cpu") if where is None else device(where)
    if place.type == "cuda":
        raise RuntimeError("No CUDA GPUs are available")
    return place


class finfo:
    def __init__(self, type=float32):
        self.eps = {16: 2.0**-10, 32: 2.0**-23, 64: 2.0**-52}[type.bits]


def _row_major(shape):
    strides, step = [], 1
    for length in reversed(shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(reversed(strides))


class Tensor:
    def __init__(self, values, shape, dtype=float32, stride=None, requires_grad=False):
        self._values, self.shape, self.dtype = list(values), Size(shape), dtype
        self._stride = _row_major(shape) if stride is None else tuple(stride)
        self.device, self.layout, self.grad = device("cpu"), strided, None
        self.requires_grad, self.is_cuda, self.is_sparse = requires_grad, False, False

    ndim = property(lambda self: len(self.shape))

    def stride(self, dim=None):
        return self._stride if dim is None else self._stride[dim]

    def size(self, dim=None):
        return self.shape if dim is None else self.shape[dim]

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)

    def element_size(self):
        return self.dtype.itemsize

    def storage_offset(self):
        return 0

    def is_floating_point(self):
        return self.dtype.is_floating_point

    def is_complex(self):
        return False

    def is_contiguous(self, memory_format=None):
        return self._stride == _row_major(self.shape)

    def tolist(self):
        values = list(self._values)
        for length in reversed(self.shape[1:]):
            step = max(length, 1)
            values = [values[i : i + step] for i in range(0, len(values), step)]
        return values if self.shape else values[0]

    def item(self):
        if len(self._values) != 1:
            raise RuntimeError(f"a Tensor with {len(self._values)} elements cannot be converted to Scalar")
        return self._values[0]

    def _like(self, values, dtype=None, stride=None):
        return Tensor(values, self.shape, dtype or self.dtype, stride or self._stride)

    def clone(self, memory_format=None):
        return self._like(self._values)

    detach = cpu = alias = clone

    def contiguous(self, memory_format=None):
        return Tensor(self._values, self.shape, self.dtype)

    def to(self, target=None, *args, dtype=None, device=None, **kwargs):
        kind = dtype or (target if hasattr(target, "bits") else self.dtype)
        if device is not None or isinstance(target, str):
            _place(device or target)
        convert = builtins.float if kind.is_floating_point else builtins.int
        return self._like(map(convert, self._values), kind)

    def double(self):
        return self.to(float64)

    def float(self):
        return self.to(float32)

    def requires_grad_(self, requires_grad=True):
        self.requires_grad = requires_grad
        return self

    def flatten(self):
        return Tensor(self._values, (self.numel(),), self.dtype)

    def t(self):
        if self.dim() < 2:
            return self.clone()
        rows, columns = self.shape
        turned = [self._values[r * columns + c] for c in range(columns) for r in range(rows)]
        return Tensor(turned, (columns, rows), self.dtype, self._stride[::-1])

    def sum(self):
        return Tensor([builtins.sum(self._values)], (), self.dtype)

    def mean(self):
        return self.sum() / max(self.numel(), 1)

    def max(self):
        return Tensor([max(self._values)], (), self.dtype)

    def min(self):
        return Tensor([min(self._values)], (), self.dtype)

    def all(self):
        return Tensor([builtins.all(self._values)], (), bool)

    def any(self):
        return Tensor([builtins.any(self._values)], (), bool)

    def abs(self):
        return self._like(map(builtins.abs, self._values))

    def _zip(self, other, operation, dtype=None):
        if not isinstance(other, Tensor):
            return self._like((operation(v, other) for v in self._values), dtype)
        if other.shape == self.shape:
            return self._like(map(operation, self._values, other._values), dtype)
        if len(other._values) == 1:
            return self._zip(other._values[0], operation, dtype)
        if len(self._values) == 1:
            return other._like((operation(self._values[0], v) for v in other._values), dtype)
        raise RuntimeError("The size of tensor a must match the size of tensor b")

    def reshape(self, *sizes):
        return Tensor(self._values, _shape(sizes), self.dtype)

    view = reshape

    def copy_(self, other):
        self._values = list(other._values)
        return self

    def backward(self):
        return None

    def __getitem__(self, mask):
        chosen = [value for value, kept in zip(self._values, mask._values) if kept]  # noqa: B905
        return Tensor(chosen, (len(chosen),), self.dtype)

    def __invert__(self):
        return self._like([not value for value in self._values])

    def __int__(self):
        return builtins.int(self.item())

    def __format__(self, spec):
        return format(self.item() if spec else repr(self), spec)

    def __neg__(self):
        return self * -1

    def __len__(self):
        return self.shape[0]

    def __bool__(self):
        return builtins.bool(self.item())

    def __float__(self):
        return builtins.float(self.item())

    def __repr__(self):
        return f"tensor({self.tolist()})"

    __hash__ = object.__hash__


def _arithmetic(name, result=None):
    operation = getattr(operator, name)
    setattr(Tensor, f"__{name}__", lambda self, other: self._zip(other, operation, result))
    if result is None:
        setattr(
            Tensor,
            f"__r{name}__",
            lambda self, other: self._zip(other, lambda a, b: operation(b, a)),
        )


for _name in ("add", "sub", "mul", "truediv"):
    _arithmetic(_name)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _arithmetic(_name, bool)

_random = None


def manual_seed(seed):
    global _random
    import random

    _random = random.Random(seed)
    return _random


def _shape(sizes):
    return tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], builtins.int) else sizes


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False):
    _place(device)
    kind = dtype or (int64 if isinstance(fill_value, builtins.int) else float32)
    return Tensor([fill_value] * math.prod(size), size, kind, requires_grad=requires_grad)


def zeros(*size, dtype=float32, **kwargs):
    return full(_shape(size), 0.0 if dtype.is_floating_point else 0, dtype=dtype, **kwargs)


def ones(*size, dtype=float32, **kwargs):
    return full(_shape(size), 1.0 if dtype.is_floating_point else 1, dtype=dtype, **kwargs)


def _drawn(draw, size, dtype, device=None, requires_grad=False):
    _place(device)
    source = _random or manual_seed(0)
    values = [getattr(source, draw)(0.0, 1.0) for _ in range(math.prod(size))]
    return Tensor(values, size, dtype or float32, requires_grad=requires_grad)


def randn(*size, dtype=None, **kwargs):
    return _drawn("gauss", _shape(size), dtype, **kwargs)


def rand(*size, dtype=None, **kwargs):
    return _drawn("uniform", _shape(size), dtype, **kwargs)


def randn_like(other):
    return _drawn("gauss", other.shape, other.dtype)


def zeros_like(other):
    return zeros(other.shape, dtype=other.dtype)


def ones_like(other):
    return ones(other.shape, dtype=other.dtype)


empty, empty_like = zeros, zeros_like


def empty_strided(size, stride, *, dtype=float32, device=None, requires_grad=False):
    _place(device)
    if len(size) != len(stride):
        raise RuntimeError("dimensionality of sizes must match dimensionality of strides")
    return Tensor([0.0] * math.prod(size), size, dtype, stride, requires_grad)


def arange(start, end=None, step=1, *, dtype=None, device=None):
    _place(device)
    first, last = (0, start) if end is None else (start, end)
    whole = builtins.all(isinstance(v, builtins.int) for v in (first, last, step))
    count = max(math.ceil((last - first) / step), 0)
    kind = dtype or (int64 if whole else float32)
    convert = builtins.float if kind.is_floating_point else builtins.int
    return Tensor([convert(first + i * step) for i in range(count)], (count,), kind)


def tensor(data, *, dtype=None, device=None, requires_grad=False):
    _place(device)
    shape, flat = [], [data]
    while flat and isinstance(flat[0], (list, tuple)):
        shape.append(len(flat[0]))
        flat = [value for row in flat for value in row]
    kind = dtype or (
        bool
        if flat and isinstance(flat[0], builtins.bool)
        else int64
        if flat and builtins.all(isinstance(v, builtins.int) for v in flat)
        else float32
    )
    convert = builtins.float if kind.is_floating_point else builtins.int
    values = flat if kind is bool else map(convert, flat)
    return Tensor(values, shape, kind, requires_grad=requires_grad)


def randint(low, high, size, *, dtype=None, device=None):
    _place(device)
    source = _random or manual_seed(0)
    return Tensor([source.randrange(low, high) for _ in range(math.prod(size))], size, dtype or int64)


def is_tensor(value):
    return isinstance(value, Tensor)


def isnan(value):
    return value._like([v != v for v in value._values], bool)


def equal(left, right):
    return left.shape == right.shape and left._values == right._values


def isfinite(value):
    return value._like([math.isfinite(v) for v in value._values], bool)


def isclose(left, right, rtol=1e-05, atol=1e-08, equal_nan=False):
    def near(a, b):
        if a != a or b != b:
            return equal_nan and a != a and b != b
        return a == b or abs(a - b) <= atol + rtol * abs(b)

    return left._like(map(near, left._values, right._values), bool)


def allclose(left, right, rtol=1e-05, atol=1e-08, equal_nan=False):
    def near(a, b):
        if a != a or b != b:
            return equal_nan and a != a and b != b
        return a == b or abs(a - b) <= atol + rtol * abs(b)

    if left.shape != right.shape:
        raise RuntimeError("The size of tensor a must match the size of tensor b")
    return builtins.all(map(near, left._values, right._values))
