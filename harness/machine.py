"""What the host is: hardware and compiler, never its name."""

from __future__ import annotations

import functools
import platform
import re
import shutil
import subprocess
from typing import Any

import psutil


@functools.cache
def describe_machine() -> dict[str, Any]:
    """System, CPU, cores, memory (bytes), GPUs, driver and C++ compiler of this host."""
    gpus, driver = _gpus()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "kernel": platform.release().split("-")[0],
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "cpu": _cpu(),
        "cores": psutil.cpu_count(logical=True),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
        "driver": driver,
        "compiler": _first_line(["g++", "--version"]) or _first_line(["c++", "--version"]),
    }


def machine_id(machine: dict[str, Any]) -> str:
    """Readable id of the hardware: two like machines share it, and so their records."""
    words = [str(machine["system"]), str(machine["cpu"])]
    gpus = machine.get("gpus") or []
    if gpus:
        count = f"{len(gpus)}x" if len(gpus) > 1 else ""
        words.append(count + str(gpus[0]["name"]))
    text = re.sub(r"\((R|TM)\)|CPU|Processor|@.*$|\d+-Core", " ", " ".join(words), flags=re.IGNORECASE)
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:80]


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo") as stream:
            for line in stream:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpus() -> tuple[list[dict[str, Any]], str | None]:
    query = "name,memory.total,driver_version,compute_cap"
    out = _run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader,nounits"])
    gpus, driver = [], None
    for line in out.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 4:
            memory = int(parts[1]) * 2**20 if parts[1].isdigit() else None
            gpus.append({"name": parts[0], "memory_bytes": memory, "capability": parts[3]})
            driver = parts[2]
    return gpus, driver


def _first_line(command: list[str]) -> str | None:
    lines = _run(command).splitlines()
    return lines[0].strip() if lines else None


def _run(command: list[str]) -> str:
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
