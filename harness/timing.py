"""``harness time``: what a case's timings ask for, run with the machine to itself, and recorded.

One process measures one size and dtype with all variants (``harness/worker/timing.py``); processes
run one after another, never beside each other. What is on record is not run again unless asked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from harness.case import Case
from harness.env import Environment, Environments
from harness.errors import SetupError, UsageError
from harness.machine import describe_machine
from harness.outcome import Outcome
from harness.run import Interrupted, Request, Server, shorten
from harness.store import target_facts
from harness.target import Source, Target
from harness.timingplan import TimingCell, plan
from harness.timingstore import Json, TimingStore
from harness.worker.timing import MARK

RESTARTS = 3  # how many variants of one cell may end the process before the cell is given up
QUICK_DEADLINE_S = 75.0


@dataclass(frozen=True)
class TimingOptions:
    """How to time. Seconds throughout.

    ``budget_s`` is for the steady rounds of one variant; ``deadline_s`` for a whole release: no cell
    is begun that, by the longest so far, would end after it. ``only`` are patterns of
    ``timing/size/dtype``. ``cold`` gives each variant caches of its own, so that its first call is
    a whole compilation; without it variants share what is on disk. ``fork`` spares each process the
    import of torch, which is done once and touches no device.
    """

    budget_s: float = 0.5
    batch_s: float = 0.005
    rounds_min: int = 7
    rounds_max: int = 25
    deadline_s: float | None = None
    timeout_s: float = 1800.0
    only: tuple[str, ...] = ()
    cold: bool = True
    fork: bool = True
    rerun: bool = False

    def quick(self) -> TimingOptions:
        """Fewer rounds, and :data:`QUICK_DEADLINE_S` a release unless a deadline is set."""
        return replace(self, budget_s=0.2, rounds_max=15, deadline_s=self.deadline_s or QUICK_DEADLINE_S)

    @property
    def bounds(self) -> Json:
        """What the worker keeps to."""
        return {key: getattr(self, key) for key in ("budget_s", "batch_s", "rounds_min", "rounds_max")}


class TimingWatcher(Protocol):
    """Told of everything that happens."""

    def preparing(self, source: Source) -> None: ...
    def prepared(self, source: Source, env: Environment | None, why: str | None) -> None: ...
    def started(self, target: Target, cell: TimingCell, number: int, total: int) -> None: ...
    def finished(self, target: Target, cell: TimingCell, record: Json) -> None: ...
    def noted(self, text: str) -> None: ...


@dataclass
class Summary:
    """What a run did: cells. ``failures`` are environments not made, ``skipped`` what was left out,
    both with reasons."""

    ran: int = 0
    covered: int = 0
    interrupted: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, other: Summary) -> None:
        """Take in what another run did."""
        self.ran += other.ran
        self.covered += other.covered
        self.interrupted |= other.interrupted
        self.failures.update(other.failures)
        self.skipped.update(other.skipped)
        self.seconds += other.seconds


def run_timings(
    cases: Sequence[Case],
    sources: Sequence[Source],
    device: str,
    store_root: Path,
    environments: Environments,
    options: TimingOptions,
    watcher: TimingWatcher,
) -> Summary:
    """Time what is not recorded below ``store_root`` (``results/timings``) on ``sources`` × ``device``.

    Raises:
        UsageError: nothing to time, or a timing that makes no sense.
        StoreError: a record could not be written; everything before it is kept.
    """
    cells = [cell for case in cases if device in case.devices for cell in plan(case, options.only, device)]
    if not cells:
        known = [cell.name for case in cases if device in case.devices for cell in plan(case, (), device)]
        what = f"no timing matches {' '.join(options.only)}" if options.only else "no case has timings"
        raise UsageError(f"{what} on {device}", "known: " + ", ".join(known) if known else None)
    run = _Run(cells, device, TimingStore(store_root), environments, options, watcher)
    began = time.monotonic()
    if device == "cuda" and not describe_machine()["gpus"]:
        run.summary.skipped = {f"torch {s.label}": "this host has no CUDA device" for s in sources}
        return run.summary
    run.to_the_end(sources)
    run.summary.seconds = time.monotonic() - began
    return run.summary


class _Run:
    """A run in progress."""

    def __init__(
        self, cells: list[TimingCell], device: str, store: TimingStore, environments: Environments,
        options: TimingOptions, watcher: TimingWatcher,
    ) -> None:  # fmt: skip
        self.cells, self.device, self.store, self.environments = cells, device, store, environments
        self.options, self.watcher = options, watcher
        self.summary = Summary()
        self._stop, self._done = threading.Event(), threading.Event()
        self._server: Server | None = None
        self._error: BaseException | None = None

    def to_the_end(self, sources: Sequence[Source]) -> None:
        """Work in a thread of its own: an interruption then ends whatever has been started, and
        never comes between starting a process and knowing of it."""
        threading.Thread(target=self._guard, args=(sources,), name="timing").start()
        try:
            # Not Thread.join: interrupted, it takes a running thread for one that ended
            # (CPython 3.11).
            while not self._done.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.summary.interrupted = True
            self._end()
        if self._error is not None:
            raise self._error

    def _end(self) -> None:
        """End what runs and wait until it has ended."""
        self._stop.set()
        self.environments.uv.stop()
        while not self._done.wait(0.2):
            if self._server is not None:
                self._server.close()

    def _guard(self, sources: Sequence[Source]) -> None:
        try:
            lock = self.environments.home.lock("timing")  # two runs at once would time each other
            self._wait_for(lock)
            try:
                for source in sources:
                    if not self._stop.is_set():
                        self.time_source(source)
            finally:
                lock.release()
        except Interrupted:
            pass
        except BaseException as exc:
            self._error = exc
        finally:
            self._done.set()

    def _wait_for(self, lock: FileLock) -> None:
        said = False
        while not self._stop.is_set():
            try:
                lock.acquire(timeout=0.5)
                return
            except Timeout:
                if not said:
                    self.watcher.noted("another run is timing; waiting for its end")
                said = True
        raise Interrupted

    def time_source(self, source: Source) -> None:
        """All cells on one source."""
        self.watcher.preparing(source)
        try:
            with self.environments.use(source) as env:
                self.watcher.prepared(source, env, None)
                self._time_environment(Target(source, self.device), env)
        except SetupError as exc:
            if self._stop.is_set():
                return
            self.watcher.prepared(source, None, exc.message)
            self.summary.failures[source.label] = exc.message

    def _time_environment(self, target: Target, env: Environment) -> None:
        facts = target_facts(target, env.facts)
        wanted = [cell for cell in self.cells if self.options.rerun or not self._recorded(facts, cell)]
        self.summary.covered += len(self.cells) - len(wanted)
        if not wanted or self._stop.is_set():
            return
        began = time.monotonic()
        longest = 0.0
        server = self._server = Server(env.python, self.environments.home.path, warm=self.options.fork)
        try:
            for number, cell in enumerate(wanted):
                limit = self.options.deadline_s
                if limit is not None and number and time.monotonic() - began + longest > limit:
                    left = [c.name for c in wanted[number:]]
                    self.summary.skipped[target.label] = f"{limit:g} s are over; not timed: {', '.join(left)}"
                    break
                self._say_busy()
                self.watcher.started(target, cell, number + 1, len(wanted))
                start = time.monotonic()
                record = measure(server, cell, self.device, self.options)
                record = _shortened(
                    record, lambda text: shorten(text, env.python, self.environments.home.path)
                )
                self.store.put(facts, cell.case, record)
                longest = max(longest, time.monotonic() - start)
                self.summary.ran += 1
                self.watcher.finished(target, cell, record)
        finally:
            self._server = None
            server.close()

    def _recorded(self, facts: Json, cell: TimingCell) -> bool:
        document = self.store.load(facts, cell.case)
        return (
            document is not None
            and document.find(cell.timing, cell.size, cell.dtype, cell.digest) is not None
        )

    def _say_busy(self) -> None:
        cores = os.cpu_count() or 1
        load = os.getloadavg()[0]
        if load > 0.5 * cores:
            self.watcher.noted(
                f"this machine is busy (load {load:.1f} on {cores} cores): times will be noisy"
            )


def measure(server: Server, cell: TimingCell, device: str, options: TimingOptions) -> Json:
    """Time one cell; its record. A variant that ends the process is told as such, and the others
    are timed in another process."""
    ended: dict[str, Json] = {}
    while True:
        left = [item for item in cell.spec["variants"] if item["name"] not in ended]
        if not left:
            return _record(cell, options, {"kind": "ok", "phase": "run"}, {}, ended)
        spec = {
            **cell.spec,
            "variants": left,
            "device": device,
            "bounds": options.bounds,
            "cold": options.cold,
        }
        outcome = server.attempt(Request(spec, fresh=not server.warm, timeout_s=options.timeout_s))
        detail = outcome.detail
        said = _said(outcome)
        if "poisoned" in detail:
            seen = next(item for item in detail["variants"] if item["name"] == detail["poisoned"])
            ended[detail["poisoned"]] = seen
        elif "variants" in detail:
            return _record(cell, options, {"kind": "ok", "phase": "run"}, detail, ended)
        else:
            name = _last_marked(outcome)
            if name is None or name not in {item["name"] for item in left} or len(ended) >= RESTARTS:
                return _record(cell, options, said, {}, ended)
            ended[name] = {"name": name, **said}


def _last_marked(outcome: Outcome) -> str | None:
    """The variant that was being prepared when the process ended."""
    lines = [line for line in outcome.stdout_tail.splitlines() if line.startswith(MARK)]
    return lines[-1].removeprefix(MARK) if lines else None


def _said(outcome: Outcome) -> Json:
    chain = [link.model_dump() for link in outcome.exceptions]
    return {
        "kind": str(outcome.kind), "phase": str(outcome.phase), "reason": outcome.reason, "exceptions": chain
    }  # fmt: skip


def _record(
    cell: TimingCell, options: TimingOptions, said: Json, detail: Json, ended: dict[str, Json]
) -> Json:
    seen = {**{item["name"]: item for item in detail.get("variants", [])}, **ended}
    names = [item["name"] for item in cell.spec["variants"]]
    spec = {key: value for key, value in cell.spec.items() if key != "timing"}
    return {
        "timing": cell.timing, "size": cell.size, "dims": cell.dims, "dtype": cell.dtype,
        "digest": cell.digest, "spec": spec, "flops": cell.flops, "bytes": cell.bytes,
        "bounds": options.bounds, "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
        **said,
        "conditions": detail.get("conditions", {}), "limits": detail.get("limits", []),
        "reference": detail.get("reference"), "again": detail.get("again", {}),
        "seconds": detail.get("seconds"), "variants": [seen[name] for name in names if name in seen],
    }  # fmt: skip


def _shortened(value: Any, short: Callable[[str], str]) -> Any:
    """``value`` with every text without this machine's paths."""
    if isinstance(value, str):
        return short(value)
    if isinstance(value, list):
        return [_shortened(item, short) for item in value]
    if isinstance(value, dict):
        return {key: _shortened(item, short) for key, item in value.items()}
    return value


__all__ = ["Summary", "TimingOptions", "TimingWatcher", "measure", "plan", "run_timings"]
