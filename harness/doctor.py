"""What this host can run, each line with what to do where it cannot."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from harness.env import Environments
from harness.errors import HarnessError
from harness.machine import describe_machine, machine_id
from harness.release import list_releases
from harness.uv import UvFailure


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``ok`` is None where it is a fact and no demand."""

    name: str
    ok: bool | None
    found: str
    next_step: str = ""


def examine(environments: Environments, channel: str = "pypi") -> list[Check]:
    """Look at everything a run needs."""
    machine = describe_machine()
    checks = [
        Check("machine", None, f"{machine_id(machine)}; {machine['cores']} cores, "
              f"{machine['memory_bytes'] / 1e9:.0f} GB memory"),
    ]  # fmt: skip
    try:
        checks.append(Check("uv", True, environments.uv.version()))
    except UvFailure as exc:
        checks.append(Check("uv", False, str(exc), "install uv, or run make setup"))
    pythons = [p for p in ("3.10", "3.11", "3.12", "3.13", "3.14") if environments.uv.installed_python(p)]
    checks.append(
        Check("Pythons", bool(pythons), ", ".join(pythons) or "none",
              "" if pythons else "install a Python that uv can find")
    )  # fmt: skip
    compiler = machine["compiler"]
    checks.append(
        Check("C++ compiler", bool(compiler), compiler or "none",
              "" if compiler else "install g++: inductor compiles C++ on the CPU")
    )  # fmt: skip
    gpus = machine["gpus"]
    names = ", ".join(f"{g['name']} ({(g['memory_bytes'] or 0) / 2**30:.0f} GiB)" for g in gpus)
    checks.append(
        Check(
            "GPUs",
            None,
            f"{names}, driver {machine['driver']}" if gpus else "none: cells on cuda are skipped",
        )
    )
    home = environments.home.path
    free = shutil.disk_usage(home).free
    need = 8e9
    checks.append(
        Check("disk", free > need,
              f"{free / 1e9:.1f} GB free; {environments.usage() / 1e9:.1f} of a budget of "
              f"{environments.budget / 1e9:.0f} GB used",
              "" if free > need else "make room, or set HARNESS_HOME to a larger disk")
    )  # fmt: skip
    checks.append(_same_disk(environments))
    try:
        listing = list_releases(channel, home)
        stale = f" (old listing of {listing.fetched}: {listing.stale})" if listing.stale else ""
        checks.append(
            Check(f"channel {channel}", not listing.stale,
                  f"{len(listing.releases)} releases, newest {listing.releases[-1].version}{stale}",
                  "check the network" if listing.stale else "")
        )  # fmt: skip
    except HarnessError as exc:
        checks.append(Check(f"channel {channel}", False, exc.message, exc.hint or ""))
    children = os.path.exists("/proc/self/task/%d/children" % os.getpid())  # noqa: PTH110, UP031
    checks.append(
        Check("process tree", children, "/proc shows children" if children else "/proc shows no children",
              "" if children else "the harness needs Linux with /proc and CONFIG_PROC_CHILDREN")
    )  # fmt: skip
    return checks


def _same_disk(environments: Environments) -> Check:
    home = environments.home
    home.cache.mkdir(parents=True, exist_ok=True)
    same = home.cache.stat().st_dev == home.envs.stat().st_dev
    return Check(
        "hard links", same,
        "environments share files with uv's cache" if same else "cache and environments are on two disks",
        "" if same else "environments take their full size; keep HARNESS_HOME on one file system",
    )  # fmt: skip
