"""The main job: run what no record covers, newest release first.

Pure planning (:func:`plan`) and a small engine: worker threads take the next cell of the oldest
unfinished target in order, one thread makes the environments ahead of them. What a cell did is on
disk before anything else happens, so a run can be stopped at any moment.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.case import Case
from harness.cell import Cell, workaround_cells
from harness.due import NOT_EVIDENCE, Options, cells_of, forks, is_covered, run_attempt, wanted_trials
from harness.env import Environment, Environments
from harness.errors import HarnessError, SetupError
from harness.judge import judge, verdict_of
from harness.log import LOG
from harness.outcome import Kind, Outcome, Phase, Verdict
from harness.run import Interrupted, Server
from harness.store import Document, Store, target_facts
from harness.target import Source, Target

AHEAD = 1  # environments made ahead of the one in use; each may be 7 GB


class Watcher(Protocol):
    """Told of everything that happens; the live table and the plain lines are two of these."""

    def preparing(self, source: Source) -> None: ...
    def prepared(self, source: Source, env: Environment | None, why: str | None) -> None: ...
    def planned(self, cells: int) -> None: ...
    def started(self, target: Target, cell: Cell) -> None: ...
    def finished(self, target: Target, cell: Cell, outcome: Outcome, verdict: str) -> None: ...
    def covered(self, cells: int) -> None: ...


@dataclass
class Summary:
    """What a run did. ``failures`` are environments that could not be made, with reasons."""

    ran: int = 0
    covered: int = 0
    interrupted: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class _Job:
    """A target in progress."""

    target: Target
    order: int
    lane: _Lane
    facts: dict[str, Any]
    left: int = 0
    pending: dict[str, int] = field(default_factory=dict)  # repros a case still waits for


@dataclass
class _Lane:
    """One environment with its server; open while any of its targets has cells."""

    source: Source
    stack: contextlib.ExitStack
    env: Environment | None = None
    server: Server | None = None
    open_targets: int = 0


class Matrix:
    """Runs cells over targets. One instance a run."""

    def __init__(
        self,
        cases: list[tuple[Case, Path]],
        store: Store,
        environments: Environments,
        options: Options,
        watcher: Watcher,
        cells: Callable[[str], list[Cell]] | None = None,
    ) -> None:
        self.cases, self.store, self.environments = cases, store, environments
        self.options, self.watcher = options, watcher
        self._cells = cells or (lambda device: cells_of(cases, device))
        self._folders = {case.id: folder for case, folder in cases}
        self._condition = threading.Condition()  # reentrant: its lock is an RLock
        self._queue: list[tuple[int, int, int, _Job, Cell]] = []
        self._count = itertools.count()
        self._lanes_open = 0
        self._preparing = True
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._alive = 0
        self._running = 0
        self._lanes: list[_Lane] = []
        self._error: BaseException | None = None
        self.summary = Summary()

    def run(self, sources: list[Source], devices: list[str]) -> Summary:
        """Run all that is not recorded on ``sources`` × ``devices``; returns what was done.

        Raises:
            StoreError: a record could not be written; everything before it is kept.
        """
        began = time.monotonic()
        threads = [
            threading.Thread(target=self._guard, args=(self._prepare, sources, devices), name="prepare")
        ]
        threads += [
            threading.Thread(target=self._guard, args=(self._work,), name=f"cell-{i}")
            for i in range(self.options.jobs)
        ]
        self._alive = len(threads)
        for thread in threads:
            thread.start()
        try:
            # An event, not join(timeout): in Python 3.11 a join that Ctrl-C interrupts can take a
            # running thread for an ended one.
            while not self._ended.wait(0.2):
                pass
        except KeyboardInterrupt:
            self.stop()
        finally:
            self.stop(quiet=self._ended.is_set())
            while not self._ended.is_set():
                with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C hurries nothing
                    self._ended.wait(0.2)
            for lane in self._lanes:
                self._close(lane)
        self.summary.seconds = time.monotonic() - began
        if self._error is not None:
            raise self._error
        return self.summary

    def stop(self, quiet: bool = False) -> None:
        """End what runs; nothing recorded is touched."""
        with self._condition:
            if not quiet and not self._stop.is_set():
                self.summary.interrupted = True
            self._stop.set()
            lanes = list(self._lanes)
            self._condition.notify_all()
        self.environments.uv.stop()
        for lane in lanes:
            if lane.server is not None:
                lane.server.close()

    def _guard(self, work: Callable[..., None], *args: Any) -> None:
        try:
            work(*args)
        except Interrupted:
            pass
        except BaseException as exc:
            with self._condition:
                self._error = self._error or exc
            self.stop(quiet=True)
        finally:
            with self._condition:
                self._alive -= 1
                if not self._alive:
                    self._ended.set()

    # Environments, one thread -----------------------------------------------------------------

    def _prepare(self, sources: list[Source], devices: list[str]) -> None:
        for order, source in enumerate(sources):
            with self._condition:
                self._condition.wait_for(lambda: self._stop.is_set() or self._lanes_open <= AHEAD)
                if self._stop.is_set():
                    return
            if self._all_covered(source, devices):
                continue
            self._open_lane(order, source, devices)
        with self._condition:
            self._preparing = False
            self._condition.notify_all()

    def _all_covered(self, source: Source, devices: list[str]) -> bool:
        """Whether the records answer everything, judged without making the environment."""
        if self.options.rerun or source.release is None:
            return False
        try:
            _, python = self.environments.identify(source)
        except SetupError:
            return False
        facts = {"python": self.environments.uv.python_version(python)}
        found = 0
        for device in devices:
            target = target_facts(Target(source, device), facts)
            documents: dict[str, Document | None] = {}
            for cell in self._cells(device):
                if cell.case.id not in documents:
                    documents[cell.case.id] = self.store.load(target, cell.case.id)
                document = documents[cell.case.id]
                if document is None:
                    return False
                for each in [cell, *self._workarounds(document, cell)]:
                    record = document.find(each.repro, each.workaround, each.digest)
                    if not is_covered(record, wanted_trials(each, self.options)):
                        return False
                    found += 1
        with self._condition:
            self.summary.covered += found
        self.watcher.covered(found)
        return True

    def _workarounds(self, document: Document | None, cell: Cell) -> list[Cell]:
        """Workaround cells of ``cell``, where its verdict is ``bug``; elsewhere they are moot."""
        if not self.options.workarounds or cell.model.role == "control" or cell.workaround is not None:
            return []
        if document is None or verdict_of(document, cell.case, cell.repro) is not Verdict.BUG:
            return []
        return workaround_cells(cell.case, self._folders[cell.case.id], cell.repro)

    def _open_lane(self, order: int, source: Source, devices: list[str]) -> None:
        lane = _Lane(source, contextlib.ExitStack())
        with self._condition:
            self._lanes_open += 1
            self._lanes.append(lane)
        self.watcher.preparing(source)
        try:
            lane.env = lane.stack.enter_context(self.environments.use(source))
            if self._stop.is_set():
                return
            lane.server = Server(lane.env.python, self.environments.home.path, warm=self.options.fork)
            LOG.info("torch %s: ready, %s; %s", source.label, "forking" if lane.server.warm else "fresh",
                     lane.server.why)  # fmt: skip
            self.watcher.prepared(source, lane.env, None)
        except SetupError as exc:
            if self._stop.is_set():
                return
            LOG.warning("torch %s: no environment: %s", source.label, exc.message)
            self.watcher.prepared(source, None, exc.message)
            self.summary.failures[source.label] = exc.message
            self._record_failure(source, devices, exc)
            self._finish_lane(lane)
            return
        jobs = []
        for device in devices:
            target = Target(source, device)
            job = _Job(target, order, lane, target_facts(target, lane.env.facts))
            cells = self._cells(device)
            for cell in cells:
                job.pending[cell.case.id] = job.pending.get(cell.case.id, 0) + 1
            job.left = len(cells)
            jobs.append((job, cells))
        with self._condition:
            lane.open_targets = sum(1 for job, _ in jobs if job.left)
            for job, cells in jobs:
                self.watcher.planned(len(cells))
                for cell in cells:
                    self._push(job, 0, cell)
            self._condition.notify_all()
        if not any(job.left for job, _ in jobs):
            self._finish_lane(lane)

    def _record_failure(self, source: Source, devices: list[str], exc: HarnessError) -> None:
        outcome = Outcome(kind=Kind.SETUP, phase=Phase.INSTALL, reason=exc.message)
        facts: dict[str, Any] = {}
        with contextlib.suppress(SetupError):
            _, python = self.environments.identify(source)
            facts["python"] = self.environments.uv.python_version(python)
        for device in devices:
            target = Target(source, device)
            for cell in self._cells(device):
                self.store.add(target_facts(target, facts), cell, outcome)

    # Cells, ``jobs`` threads --------------------------------------------------------------------

    def _push(self, job: _Job, phase: int, cell: Cell) -> None:
        heapq.heappush(self._queue, (job.order, phase, next(self._count), job, cell))

    def _work(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(
                    lambda: (
                        self._stop.is_set()
                        or self._queue
                        or (not self._preparing and not self._running and not self._lanes_open)
                    )
                )
                if self._stop.is_set() or not self._queue:
                    self._condition.notify_all()
                    return
                *_, job, cell = heapq.heappop(self._queue)
                self._running += 1
            try:
                self._run_cell(job, cell)
            finally:
                with self._condition:
                    self._running -= 1
                    self._condition.notify_all()

    def _run_cell(self, job: _Job, cell: Cell) -> None:
        document = self.store.load(job.facts, cell.case.id)
        record = document.find(cell.repro, cell.workaround, cell.digest) if document else None
        trials = wanted_trials(cell, self.options)
        if is_covered(record, trials) and not self.options.rerun:
            with self._condition:
                self.summary.covered += 1
            self.watcher.covered(1)
        else:
            self.watcher.started(job.target, cell)
            have = (
                0
                if record is None or self.options.rerun
                else len([o for o in record.outcomes if o.kind not in NOT_EVIDENCE])
            )
            outcome = self._attempts(job, cell, have, trials)
            document = self.store.load(job.facts, cell.case.id)
            verdict = self._verdict(document, cell)
            LOG.info(
                "%s %s: %s in %s, %.1f s, verdict %s; %s",
                job.target.label, cell.label, outcome.kind, outcome.phase, outcome.duration_s, verdict,
                outcome.message,
            )  # fmt: skip
            with self._condition:
                self.summary.ran += 1
            self.watcher.finished(job.target, cell, outcome, verdict)
        self._after(job, cell)

    def _attempts(self, job: _Job, cell: Cell, have: int, trials: int) -> Outcome:
        outcome = None
        for number in range(have, trials):
            try:
                outcome = run_attempt(job.lane.server, cell, job.target.device, number, self.options)
            except SetupError as exc:  # the environment was there and its worker no longer starts
                outcome = Outcome(kind=Kind.SETUP, phase=Phase.INSTALL, reason=exc.message)
            fresh = not forks(job.lane.server, cell, number)
            again = self.options.rerun and number == 0
            self.store.add(job.facts, cell, outcome, fresh, again)
            if outcome.kind in (Kind.UNSUPPORTED, Kind.SETUP, Kind.SKIPPED):
                break
        assert outcome is not None
        return outcome

    def _verdict(self, document: Document | None, cell: Cell) -> str:
        if document is None:
            return "unknown"
        rows = judge(document, cell.case)
        return next(
            (r.verdict for r in rows if (r.repro, r.workaround) == (cell.repro, cell.workaround)), "unknown"
        )

    def _after(self, job: _Job, cell: Cell) -> None:
        """Queue the workarounds once all repros of the case are judged; close what is finished."""
        with self._condition:
            more: list[Cell] = []
            if cell.workaround is None and cell.case.id in job.pending:
                job.pending[cell.case.id] -= 1
                if job.pending[cell.case.id] == 0:
                    more = self._next_phase(job, cell.case)
            for each in more:
                self._push(job, 1, each)
            if more:
                self.watcher.planned(len(more))
            job.left += len(more) - 1
            if job.left == 0:
                job.lane.open_targets -= 1
            finished = job.lane.open_targets == 0
            self._condition.notify_all()
        if finished:
            self._finish_lane(job.lane)

    def _next_phase(self, job: _Job, case: Case) -> list[Cell]:
        document = self.store.load(job.facts, case.id)
        found = []
        for cell in self._cells(job.target.device):
            if cell.case.id == case.id:
                found += self._workarounds(document, cell)
        return found

    def _finish_lane(self, lane: _Lane) -> None:
        """Close a lane, then let the next environment be made: its room may be needed."""
        self._close(lane)
        with self._condition:
            if lane in self._lanes:
                self._lanes.remove(lane)
                self._lanes_open -= 1
            self._condition.notify_all()

    def _close(self, lane: _Lane) -> None:
        if lane.server is not None:
            lane.server.close()
        lane.stack.close()
