"""uv as a program: find Pythons, make virtualenvs, install; tell the network's faults from others."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

INSTALL_LIMIT_S = 3600.0
BACK_OFF_S = (1.0, 4.0, 12.0)
FETCH_MEMORY_S = 24 * 3600.0

_NETWORK = re.compile(
    r"error sending request|dns error|connection (refused|reset|closed|error)|timed? ?out|"
    r"HTTP status (server error|client error \((408|429))|status code: 5\d\d|"
    r"unexpected end of file|end of file before|error decoding response|incomplete message|"
    r"Failed to (download|fetch|extract|read from the distribution)|stream error|network is unreachable|"
    r"No connection|error reading a body|unexpected EOF|unexpected JSON",
    re.IGNORECASE,
)
_FINAL = re.compile(r"hash mismatch|\(4(0[0-79]|1\d)\b|No space left", re.IGNORECASE)


class UvFailure(Exception):
    """uv gave up. ``network`` where trying again may help; ``output`` is all it wrote."""

    def __init__(self, reason: str, output: str = "", network: bool = False) -> None:
        super().__init__(reason)
        self.output = output
        self.network = network


class Uv:
    """One uv with a cache of our own."""

    def __init__(self, home: Path, cache: Path, offline: bool = False) -> None:
        self.home, self.cache, self.offline = home, cache, offline
        beside = Path(sys.executable).parent / "uv"
        self.program = str(beside) if beside.exists() else (shutil.which("uv") or "uv")
        self._found: dict[str, Path | None] = {}
        self._versions: dict[Path, str] = {}
        self._lock = threading.Lock()
        self._live: set[subprocess.Popen[str]] = set()
        self._stopping = threading.Event()

    def environ(self) -> dict[str, str]:
        """What uv runs with: everything but what would point it at another environment."""
        drop = {"VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_EXCLUDE_NEWER"}
        environ = {k: v for k, v in os.environ.items() if k not in drop}
        environ.update(
            UV_CACHE_DIR=str(self.cache),
            UV_PYTHON_INSTALL_DIR=str(self.home / "pythons"),
            UV_NO_PROGRESS="1",
            NO_COLOR="1",
        )
        if self.offline:
            environ["UV_OFFLINE"] = "1"
        return environ

    def _call(self, *args: str, limit_s: float = INSTALL_LIMIT_S) -> str:
        """Run uv; returns stdout. Raises UvFailure with one sentence."""
        if self.stopping:
            raise UvFailure("the run is being stopped")
        try:
            process = subprocess.Popen(
                [self.program, *args],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd=self.home,
                env=self.environ(),
                start_new_session=True,
            )
        except OSError as exc:
            raise UvFailure(f"uv cannot be run: {exc.strerror}") from exc
        with self._lock:
            self._live.add(process)
        try:
            out, err = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as exc:
            _kill(process)
            process.communicate()
            raise UvFailure(f"uv ran longer than {limit_s:.0f} s", network=True) from exc
        finally:
            with self._lock:
                self._live.discard(process)
        if process.returncode:
            if self.stopping:
                raise UvFailure("the run is being stopped", err)
            network = bool(_NETWORK.search(err)) and not _FINAL.search(err)
            raise UvFailure(explain(err), err, network)
        return out

    @property
    def stopping(self) -> bool:
        """Whether :meth:`stop` was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End every uv that runs now; nothing is tried again."""
        self._stopping.set()
        with self._lock:
            for process in self._live:
                _kill(process)

    def resume(self) -> None:
        """After :meth:`stop`: failures are tried again as before."""
        self._stopping.clear()

    def version(self) -> str:
        """``uv 0.13.9``.

        Raises:
            UvFailure: uv cannot be run.
        """
        return self._call("--version", limit_s=30).strip()

    def installed_python(self, text: str) -> Path | None:
        """Path of an interpreter that is here already, or None."""
        try:
            out = self._call("python", "find", "--no-project", "--no-python-downloads", text, limit_s=120)
            return Path(out.strip().splitlines()[-1])
        except (UvFailure, IndexError):
            return None

    def find_python(self, text: str) -> Path | None:
        """Path of the interpreter ``text`` names: installed, or fetched by uv; None if neither."""
        with self._lock:
            if text in self._found:
                return self._found[text]
        found = self.installed_python(text)
        if found is None and re.fullmatch(r"3\.\d+(\.\d+)?", text):
            found = self._fetch_python(text)
        with self._lock:
            self._found[text] = found
        return found

    def _fetch_python(self, text: str) -> Path | None:
        """Let uv fetch a Python; a failure is remembered for a day, as each try costs seconds."""
        memory = self.home / "releases" / "pythons-not-fetched.json"
        try:
            failed: dict[str, float] = json.loads(memory.read_text())
        except (OSError, ValueError):
            failed = {}
        forbidden = os.environ.get("UV_PYTHON_DOWNLOADS") in ("never", "manual")
        if forbidden or self.offline or time.time() - failed.get(text, 0) < FETCH_MEMORY_S:
            return None
        try:
            self._call("python", "install", "--no-bin", text, limit_s=600)
            return self.installed_python(text)
        except UvFailure:
            failed[text] = time.time()
            memory.parent.mkdir(parents=True, exist_ok=True)
            part = memory.with_suffix(f".{os.getpid()}.part")
            part.write_text(json.dumps(failed))
            part.replace(memory)
            return None

    def python_version(self, python: Path) -> str:
        """``3.11`` for an interpreter."""
        if python not in self._versions:
            code = "import sys; print('%d.%d' % sys.version_info[:2])"
            done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=False)
            self._versions[python] = done.stdout.strip() or "unknown"
        return self._versions[python]

    def venv(self, folder: Path, python: Path) -> None:
        """Make an empty virtualenv."""
        self._call("venv", "--no-project", "--python", str(python), str(folder), limit_s=300)

    def install(self, python: Path, args: Sequence[str]) -> None:
        """Install into the environment of ``python``, again where the network is at fault."""
        for pause in (*BACK_OFF_S, None):
            try:
                self._call("pip", "install", "--python", str(python), *args)
                return
            except UvFailure as exc:
                if pause is None or not exc.network or self.offline:
                    raise
                if self._stopping.wait(pause):
                    raise

    def freeze(self, python: Path) -> list[str]:
        """Installed distributions as ``name==version``."""
        try:
            return self._call("pip", "freeze", "--python", str(python), limit_s=120).split("\n")[:-1]
        except UvFailure:
            return []


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()


def explain(err: str) -> str:
    """uv's complaint as one sentence, without addresses or hosts."""
    lines = [line.strip(" \t│╰╴─▶├×╭hint:") for line in err.splitlines()]
    lines = [line for line in lines if line and not line.lower().startswith(("warning", "resolved", "using"))]
    text = "; ".join(dict.fromkeys(lines[:6])) or "uv failed without a word"
    text = re.sub(r"https?://\S+", "<index>", text)
    return text if len(text) <= 600 else text[:600] + "..."
