# mypy: ignore-errors
from ._tensor import allclose


def assert_close(
    actual,
    expected,
    *,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    compared = ["shape"] + ["dtype"] * check_dtype
    for name in compared:
        left, right = getattr(actual, name), getattr(expected, name)
        if left != right:
            raise AssertionError(f"The values for attribute {name!r} do not match: {left} != {right}.")
    if check_stride and actual.stride() != expected.stride():
        raise AssertionError(
            f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}."
        )
    if not allclose(
        actual,
        expected,
        rtol=1.3e-6 if rtol is None else rtol,
        atol=1e-5 if atol is None else atol,
        equal_nan=equal_nan,
    ):
        raise AssertionError(msg or "Tensor-likes are not close!")
