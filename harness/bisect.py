"""Which release brought the bug, which took it away, how sure is that.

The search itself is ``harness.search``, which knows nothing of torch. Here it meets candidates:
what is on record is evidence before anything is run, each answer is one attempt in the candidate's
environment, and while one runs the environments of the possible next ones are made.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from packaging.version import InvalidVersion, Version

from harness.cell import Cell
from harness.due import Options, run_attempt
from harness.env import Environments
from harness.errors import SetupError, UsageError
from harness.outcome import Kind, Outcome, Phase, Verdict, repro_verdict
from harness.question import Answer, Ask, Confirm, Done, Find, Question, Result
from harness.run import Server
from harness.store import Document, Store, target_facts
from harness.subject import Subject
from harness.target import Source, Target

_NOT_EVIDENCE = {Kind.SETUP, Kind.SKIPPED}


@dataclass(frozen=True)
class Plan:
    """What is asked, over which candidates (oldest first), and how surely."""

    subject: Subject
    sources: list[Source]
    device: str
    find: Find
    good: str | None = None
    bad: str | None = None
    confidence: float = 0.95
    budget: int | None = None
    scan: bool = False
    confirm: int = 2
    recorded: bool = False  # answer from what is on record, run nothing

    def index_of(self, version: str | None) -> int | None:
        """Place of a version among the candidates.

        Raises:
            UsageError: it is none of them.
        """
        if version is None:
            return None
        for index, source in enumerate(self.sources):
            if Version(source.torch) == Version(version):
                return index
        raise UsageError(
            f"torch {version} is not among the candidates",
            f"they run from {self.sources[0].torch} to {self.sources[-1].torch}",
        )

    def question(self, installed: list[bool]) -> Question:
        """The question for the search; what is installed is cheap to run again.

        Raises:
            UsageError: the stated ends are the wrong way round.
        """
        minors: dict[tuple[int, int], int] = {}
        for index, source in enumerate(self.sources):
            version = Version(source.torch)
            minors[(version.major, version.minor)] = index
        try:
            return Question(
                n=len(self.sources),
                find=self.find,
                good=self.index_of(self.good),
                bad=self.index_of(self.bad),
                grid=tuple(sorted(minors.values())),
                confidence=self.confidence,
                budget=self.budget,
                confirm=Confirm(self.confirm, self.confirm, until_sure=not self.recorded),
                scan=self.scan,
                cost=tuple(0.1 if there else 1.0 for there in installed),
            )
        except ValueError as exc:
            raise UsageError(str(exc)) from exc


@dataclass
class Trial:
    """One answer: an attempt, or why there is none."""

    index: int
    answer: Answer
    outcome: Outcome
    why: str = ""
    recorded: bool = False


class Listener(Protocol):
    """Told of what happens."""

    def asked(self, ask: Ask, source: Source, low: Source | None, high: Source | None) -> None: ...
    def answered(self, source: Source, trial: Trial) -> None: ...


@dataclass
class Finding:
    """The answer with all that it rests on. ``facts`` are of the targets, by candidate."""

    plan: Plan
    result: Result
    trials: list[Trial]
    facts: dict[int, dict[str, Any]]
    installed: int = 0
    ran: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)


class Bisection:
    """One search over the candidates of a plan."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        environments: Environments,
        options: Options,
        listener: Listener,
    ) -> None:
        self.plan, self.store, self.environments = plan, store, environments
        self.options, self.listener = options, listener
        self.trials: list[Trial] = []
        self.facts: dict[int, dict[str, Any]] = {}
        self.installed: set[int] = set()
        self.ran = 0
        self._unrunnable: dict[int, str] = {}
        self._ahead: threading.Thread | None = None
        self._server: tuple[int, Server, contextlib.ExitStack] | None = None

    def run(self) -> Finding:
        """Ask until there is an answer.

        Raises:
            KeyboardInterrupt: all that ran is on record; the same call goes on from there.
        """
        # numpy takes a quarter of a second to import; other commands do without.
        from harness.search import step

        began = time.monotonic()
        for index in range(len(self.plan.sources)):
            self._recall(index)
        try:
            while True:
                there = [self._ready(i) for i in range(len(self.plan.sources))]
                question = self.plan.question(there)
                evidence = [(t.index, t.answer) for t in self.trials]
                move = step(question, evidence)
                if isinstance(move, Done):
                    break
                if self.plan.recorded:
                    move = self._from_records(question, evidence)
                    break
                self.listener.asked(
                    move, self.plan.sources[move.index], self._source(move.low), self._source(move.high)
                )
                self._prefetch(question, evidence, move)
                self._try(move.index)
        finally:
            self._close_server()
            if self._ahead is not None:
                self.environments.uv.stop()
                self._ahead.join()
                self.environments.uv.resume()
        return Finding(
            self.plan, move.result, self.trials, self.facts, len(self.installed), self.ran,
            time.monotonic() - began,
        )  # fmt: skip

    def _from_records(self, question: Question, evidence: list[tuple[int, Answer]]) -> Done:
        """The narrowest answer that the records support: what has none is taken as unknown."""
        from harness.search import step

        move: Ask | Done = step(question, evidence)
        while isinstance(move, Ask):
            evidence = [*evidence, (move.index, Answer.UNKNOWN)]
            move = step(question, evidence)
        return move

    def _source(self, index: int | None) -> Source | None:
        return None if index is None else self.plan.sources[index]

    # What is on record ------------------------------------------------------------------------

    def _identity(self, index: int) -> dict[str, Any] | None:
        """Facts that name the record of a candidate, known without its environment."""
        source = self.plan.sources[index]
        try:
            _, python = self.environments.identify(source)
        except SetupError as exc:
            self._unrunnable[index] = exc.message
            return None
        facts = {"python": self.environments.uv.python_version(python)}
        return target_facts(Target(source, self.plan.device), facts)

    def _ready(self, index: int) -> bool:
        return self.environments.ready(self.plan.sources[index])

    def _recall(self, index: int) -> None:
        """Turn what is on record into evidence."""
        if self.plan.recorded:
            documents = self._recorded.get(Version(self.plan.sources[index].torch).public, [])
        else:
            facts = self._identity(index)
            case = self.plan.subject.cell.case.id
            document = self.store.load(facts, case) if facts is not None else None
            documents = [document] if document is not None else []
        for document in documents:
            self._recall_from(document, index)

    @cached_property
    def _recorded(self) -> dict[str, list[Document]]:
        """Records of the case on the device by release: this machine's where it has one, else all.

        An answer from the records runs nothing, so it may rest on machines and channels that are
        out of reach here: a GPU host, a wheel folder, an interpreter that somebody brought.
        """
        found: dict[str, list[Document]] = {}
        case = self.plan.subject.cell.case.id
        for document in self.store.documents():
            if (document.case, document.target.get("device")) == (case, self.plan.device):
                with contextlib.suppress(InvalidVersion):
                    torch = Version(str(document.target.get("torch"))).public
                    found.setdefault(torch, []).append(document)
        own = self.store.machine_id
        return {
            version: [d for d in documents if d.machine_id == own] or documents
            for version, documents in found.items()
        }

    def _recall_from(self, document: Document, index: int) -> None:
        cell = self.plan.subject.cell
        record = document.find(cell.repro, cell.workaround, cell.digest)
        if record is None:
            return
        self.facts.setdefault(index, document.target)
        for outcome in record.outcomes:
            if outcome.kind not in _NOT_EVIDENCE:
                answer, why = self._answer(document, outcome)
                if answer is None:
                    return  # a control or the baseline is missing: it is run with the next attempt
                self.trials.append(Trial(index, answer, outcome, why, recorded=True))

    def _answer(self, document: Document | None, outcome: Outcome) -> tuple[Answer | None, str]:
        """Answer of an outcome with controls and baseline considered; None where one is missing."""
        subject = self.plan.subject
        if subject.baseline is not None:
            baseline = self._verdict(document, subject.baseline)
            if baseline is None:
                return None, ""
            if baseline is not Verdict.BUG:
                return Answer.UNKNOWN, f"moot: without the workaround the verdict is {baseline}"
        answer = subject.answer(outcome)
        if answer is Answer.CLEAN:
            return answer, ""
        for control in subject.controls:
            verdict = self._verdict(document, control)
            if verdict is None:
                return None, ""
            if verdict is not Verdict.CLEAN:
                return Answer.UNKNOWN, f"control {control.repro} is {verdict}: nothing is concluded"
        if answer is Answer.UNKNOWN:
            return answer, f"{outcome.kind} that does not match the signature"
        return answer, ""

    def _verdict(self, document: Document | None, cell: Cell) -> Verdict | None:
        record = document.find(cell.repro, cell.workaround, cell.digest) if document else None
        if record is None or not record.outcomes:
            return None
        case = cell.case
        return repro_verdict(record.outcomes, case.signatures(cell.repro), case.unsupported)

    # Running ----------------------------------------------------------------------------------

    def _try(self, index: int) -> None:
        source = self.plan.sources[index]
        try:
            server, facts = self._serve(index)
        except SetupError as exc:
            outcome = Outcome(kind=Kind.SETUP, phase=Phase.INSTALL, reason=exc.message)
            identity = self._identity(index)
            if identity is not None:
                self.store.add(identity, self.plan.subject.cell, outcome)
            self._say(Trial(index, Answer.UNKNOWN, outcome, exc.message), source)
            return
        subject = self.plan.subject
        if subject.baseline is not None:
            self._once(server, facts, subject.baseline)
        done = sum(1 for t in self.trials if t.index == index)
        outcome = self._attempt(server, facts, subject.cell, done)
        if subject.answer(outcome) is not Answer.CLEAN:
            for control in subject.controls:
                self._once(server, facts, control)
        document = self.store.load(facts, subject.cell.case.id)
        answer, why = self._answer(document, outcome)
        self._say(Trial(index, answer or Answer.UNKNOWN, outcome, why), source)

    def _say(self, trial: Trial, source: Source) -> None:
        self.trials.append(trial)
        self.listener.answered(source, trial)

    def _once(self, server: Server, facts: dict[str, Any], cell: Cell) -> None:
        """Run a control or baseline that has no record on this target."""
        document = self.store.load(facts, cell.case.id)
        if self._verdict(document, cell) is None:
            self._attempt(server, facts, cell, 0)

    def _attempt(self, server: Server, facts: dict[str, Any], cell: Cell, number: int) -> Outcome:
        outcome = run_attempt(server, cell, self.plan.device, number, self.options)
        self.store.add(facts, cell, outcome, fresh=not (server.warm and cell.forkable and number == 0))
        self.ran += 1
        return outcome

    def _serve(self, index: int) -> tuple[Server, dict[str, Any]]:
        """The server of a candidate; one is open at a time."""
        if self._server is not None and self._server[0] == index:
            return self._server[1], self.facts[index]
        self._close_server()
        source = self.plan.sources[index]
        stack = contextlib.ExitStack()
        if not self._ready(index):
            self.installed.add(index)
        try:
            env = stack.enter_context(self.environments.use(source))
            # Only the first attempt of a cell may be forked, and a script never is.
            warm = self.options.fork and self.plan.subject.cell.forkable
            server = Server(env.python, self.environments.home.path, warm=warm)
        except BaseException:
            stack.close()
            raise
        self._server = (index, server, stack)
        self.facts[index] = target_facts(Target(source, self.plan.device), env.facts)
        return server, self.facts[index]

    def _close_server(self) -> None:
        if self._server is not None:
            _, server, stack = self._server
            self._server = None
            server.close()
            stack.close()

    def _prefetch(self, question: Question, evidence: list[tuple[int, Answer]], ask: Ask) -> None:
        """Make the environments of the possible next candidates while this one runs."""
        if self._ahead is not None and self._ahead.is_alive():
            return

        from harness.search import upcoming

        def work() -> None:
            for index in upcoming(question, evidence, ask):
                with contextlib.suppress(SetupError):
                    if not self._ready(index):
                        self.installed.add(index)
                        with self.environments.use(self.plan.sources[index]):
                            pass

        self._ahead = threading.Thread(target=work, name="ahead", daemon=True)
        self._ahead.start()


def by_candidate(finding: Finding) -> Iterator[tuple[Source, list[Trial]]]:
    """Candidates that were tried, oldest first, with their trials."""
    for index, source in enumerate(finding.plan.sources):
        trials = [t for t in finding.trials if t.index == index]
        if trials:
            yield source, trials
