"""Steady times: calls of several variants in turn, so that a drift of the machine hits all alike.

Three clocks, all in seconds a call, one value a round for each variant:

``call``    host wall time of a batch of calls made back to back and waited for at its end, divided by
            their number: what a caller waits, whether the host or the device is the slower one
``device``  CUDA only: events around single calls, the L2 cache flushed before each and the device
            kept busy until the host has queued the call, so that no launch gap is in it
``host``    CUDA only: what the host needs to queue a call, measured in the same calls
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from typing import Any, Dict, List

Json = Dict[str, Any]
Sets = List[List[Any]]

CLOCK_HZ = 2e9  # about what a GPU's cycle counter runs at; only sets how long it is kept busy
DEVICE_CALLS = 10
MOST_CALLS = 2000
MOST_SETS = 16
MOST_SET_BYTES = 512 * 2**20
DEFAULT_CACHE = 32 * 2**20
BOUNDS = {"budget_s": 0.5, "batch_s": 0.005, "rounds_min": 7, "rounds_max": 25}


def quartiles(values: list[float]) -> list[float]:
    """Lower quartile, median and upper quartile, with linear interpolation."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return [at(0.25), at(0.5), at(0.75)]


def summary(values: list[float], keep: bool = True) -> Json:
    """Median, quartiles, number and, to be kept, the values themselves, in five digits."""
    low, middle, high = quartiles(values)
    found: Json = {"median": short(middle), "q1": short(low), "q3": short(high), "n": len(values)}
    if keep:
        found["rounds"] = [short(value) for value in values]
    return found


def short(value: float) -> float:
    return float("%.5g" % value)


def cache_bytes(torch: Any, device: str) -> int:
    """Size in bytes of the last cache before memory."""
    if device == "cuda":
        # Newer torch tells; 50 MiB is what the H100's generation has.
        return int(getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 0) or 50 * 2**20)
    for level in (3, 2):
        try:
            with open("/sys/devices/system/cpu/cpu0/cache/index%d/size" % level) as stream:
                text = stream.read().strip()
            return int(text[:-1]) * {"K": 2**10, "M": 2**20}[text[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return DEFAULT_CACHE


def wanted_sets(set_bytes: int, cache: int) -> int:
    """How many input sets to rotate among: together twice the cache, where that takes few."""
    enough = -(-2 * cache // max(1, set_bytes))
    return max(2, min(MOST_SETS, enough, max(2, MOST_SET_BYTES // max(1, set_bytes))))


def _nothing() -> None:
    pass


class Clock:
    """Times calls on one device."""

    def __init__(self, torch: Any, device: str, cache: int) -> None:
        self.torch, self.device = torch, device
        self._flush: Any = None
        self._step: Callable[[], Any] = _nothing
        if device == "cuda":
            self._flush = torch.empty(2 * cache, dtype=torch.int8, device="cuda")
            # Several graphs live in this process; each call is a step of its own.
            mark = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin", None)
            self._step = mark or self._step

    def wait(self) -> None:
        """Until the device has done all that it was asked."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def once(self, call: Callable[..., Any], arguments: list[Any]) -> tuple[float, Any]:
        """Wall seconds of one call to its end, and what it returned."""
        self._step()
        self.wait()
        start = time.perf_counter_ns()
        output = call(*arguments)
        self.wait()
        return (time.perf_counter_ns() - start) * 1e-9, output

    def batch(self, call: Callable[..., Any], sets: Sets, first: int, count: int) -> float:
        """Wall seconds a call of ``count`` calls back to back, inputs taken in turn from ``first``."""
        turn = [sets[(first + index) % len(sets)] for index in range(count)]
        self._step()
        self.wait()
        start = time.perf_counter_ns()
        for arguments in turn:
            call(*arguments)
        self.wait()
        return (time.perf_counter_ns() - start) * 1e-9 / count

    def events(
        self, call: Callable[..., Any], sets: Sets, first: int, count: int, host_s: float
    ) -> tuple[float, float]:
        """Median device and host seconds of ``count`` single calls on a cold L2 cache."""
        cuda = self.torch.cuda
        cycles = int(min(2e-3, max(2e-5, 2 * host_s)) * CLOCK_HZ)
        marks = []
        hosts = []
        for index in range(count):
            arguments = sets[(first + index) % len(sets)]
            begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            self._step()
            self._flush.zero_()
            cuda._sleep(cycles)
            begin.record()
            start = time.perf_counter_ns()
            call(*arguments)
            hosts.append((time.perf_counter_ns() - start) * 1e-9)
            end.record()
            marks.append((begin, end))
        self.wait()
        return (
            quartiles([begin.elapsed_time(end) * 1e-3 for begin, end in marks])[1],
            quartiles(hosts)[1],
        )


class Steady:
    """Rounds over all variants. What raises is dropped and told; the others go on."""

    def __init__(self, clock: Clock, sets: Sets, bounds: Json) -> None:
        self.clock, self.sets = clock, sets
        self.bounds = dict(BOUNDS, **bounds)
        self.values: dict[str, Json] = {}
        self.failed: dict[str, Exception] = {}
        self._counts: dict[str, int] = {}
        self._estimates: dict[str, float] = {}

    def measure(self, calls: dict[str, Callable[..., Any]]) -> None:
        """Fill ``values``: by variant and clock, one number a round."""
        gc.collect()
        gc.disable()  # a collection inside a batch would be counted as the variant's
        try:
            for name, call in calls.items():
                self._guard(name, self._calibrate, call)
            left = [name for name in calls if name not in self.failed]
            if not left:
                return
            turn = random.Random(0)
            end = time.perf_counter() + self.bounds["budget_s"] * len(left)
            for number in range(self.bounds["rounds_max"]):
                if number >= self.bounds["rounds_min"] and time.perf_counter() > end:
                    break
                # Another order each round: none is always the one after the heaviest.
                for name in turn.sample(left, len(left)):
                    if name not in self.failed:
                        self._guard(name, self._round, calls[name], number)
        finally:
            gc.enable()
        for name in self.failed:
            self.values.pop(name, None)

    def calls_of(self, name: str) -> int:
        """How many calls the batches of ``name`` made in all."""
        return self._counts[name] * len(self.values[name]["call"])

    def _guard(self, name: str, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(name, *arguments)
        except Exception as exc:
            self.failed[name] = exc

    def _calibrate(self, name: str, call: Callable[..., Any]) -> None:
        estimate = min(self.clock.batch(call, self.sets, 0, len(self.sets)) for _ in range(2))
        self._estimates[name] = estimate
        self._counts[name] = max(1, min(MOST_CALLS, int(self.bounds["batch_s"] / max(1e-9, estimate))))
        self.values[name] = {"call": []}
        if self.clock.device == "cuda":
            self.values[name].update(device=[], host=[])

    def _round(self, name: str, call: Callable[..., Any], number: int) -> None:
        seen, estimate = self.values[name], self._estimates[name]
        seen["call"].append(self.clock.batch(call, self.sets, number, self._counts[name]))
        if self.clock.device == "cuda":
            few = max(1, min(DEVICE_CALLS, int(self.bounds["batch_s"] / max(1e-9, estimate))))
            device, host = self.clock.events(call, self.sets, number, few, estimate)
            seen["device"].append(device)
            seen["host"].append(host)


def machine_limits(torch: Any, device: str, dtype: Any) -> Json:
    """Rates of a large matrix product in ``dtype`` (FLOP/s) and of a large copy (bytes/s, read plus
    written): the machine's limits as this very process sees them."""
    clock = Clock(torch, device, 2**20)
    limits: Json = {}
    if device == "cuda":
        side = 8192 if torch.empty(0, dtype=dtype).element_size() <= 2 else 4096
        copied = 2**30
    else:
        side, copied = 1024, 2**28

    def product(n: int) -> list[float]:
        one, two = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
        clock.batch(torch.mm, [[one, two]], 0, 1)
        times: list[float] = []
        while len(times) < 10 and sum(times) < 0.6:
            times.append(clock.batch(torch.mm, [[one, two]], 0, 3 if device == "cuda" else 1))
        return times

    try:
        times = product(side)
        if device == "cpu" and min(times) < 0.02:  # a quick host: a larger one comes nearer the limit
            side = 2048
            times = product(side)
        rates = [2 * side**3 / seconds for seconds in times]
        limits["product"] = {"side": side, "flops_per_s": summary(rates, False)}
    except Exception as exc:  # no product in this dtype, or no room
        limits["product"] = {"side": side, "error": "%s: %s" % (type(exc).__name__, str(exc)[:200])}
    try:
        source = torch.randn(copied // 4, device=device)
        target = torch.empty_like(source)
        clock.batch(target.copy_, [[source]], 0, 1)
        times = [clock.batch(target.copy_, [[source]], 0, 3 if device == "cuda" else 1) for _ in range(7)]
        rates = [2 * copied / seconds for seconds in times]
        limits["copy"] = {"bytes": copied, "bytes_per_s": summary(rates, False)}
    except Exception as exc:
        limits["copy"] = {"bytes": copied, "error": "%s: %s" % (type(exc).__name__, str(exc)[:200])}
    return limits
