"""Processes seen through /proc and ended for good. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, value: int) -> None:
    """prctl(2); a refusal is not fatal, the harness looks for leftovers too."""
    ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def children(pid: int) -> list[int]:
    """Direct children of ``pid``, of every thread of it."""
    found: list[int] = []
    try:
        tasks = os.listdir("/proc/%d/task" % pid)
    except OSError:
        return found
    for task in tasks:
        try:
            with open("/proc/%d/task/%s/children" % (pid, task)) as stream:
                found += [int(word) for word in stream.read().split()]
        except (OSError, ValueError):
            continue
    return found


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, parents first."""
    found: list[int] = []
    queue = children(pid)
    seen: set[int] = set()
    while queue:
        child = queue.pop()
        if child in seen:
            continue
        seen.add(child)
        found.append(child)
        queue += children(child)
    return found


def end_all(pid: int, keep: set[int] | None = None, patience_s: float = 10.0) -> int:
    """Kill everything below ``pid`` but the children ``keep`` and what is below those; reap.

    Orphans come to ``pid`` as its own children, so it is enough to look at those: a list of all
    descendants, less those of ``keep``, would hold what a kept one has started in between.
    Returns how many were killed.
    """
    keep = keep or set()
    killed: set[int] = set()
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        alive = [child for child in children(pid) if child not in keep]
        for child in alive:
            for each in (child, *descendants(child)):
                try:
                    os.kill(each, signal.SIGKILL)
                    killed.add(each)
                except OSError:
                    pass
        for child in children(pid):
            if child not in keep:
                try:
                    os.waitpid(child, os.WNOHANG)
                except OSError:
                    pass
        if not alive:
            break
        time.sleep(0.005)
    return len(killed)


def resident_bytes(pids: list[int]) -> int:
    """Sum of what the processes hold in memory, files that are mapped left out, in bytes."""
    total = 0
    for pid in pids:
        status = status_of(pid)
        for name in ("RssAnon", "RssShmem"):
            total += int(status.get(name, "0").split()[0]) * 1024
    return total


def status_of(pid: int) -> dict[str, str]:
    """/proc/PID/status by field; empty where the process is gone."""
    try:
        with open("/proc/%d/status" % pid) as stream:
            pairs = [line.split(":", 1) for line in stream if ":" in line]
    except OSError:
        return {}
    return {name: value.strip() for name, value in pairs}


def catches(pid: int, number: int) -> bool:
    """Whether the process handles a signal that would end it otherwise."""
    return bool(int(status_of(pid).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def signal_name(number: int) -> str:
    """``SIGSEGV``; a number for the realtime signals, which have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "SIG%d" % number


def quiet_kill(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except OSError:
        pass
