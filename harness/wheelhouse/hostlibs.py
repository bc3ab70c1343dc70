"""Lending a fresh environment the CUDA libraries of a Python that has them.

A torch wheel looks for its libraries beside itself: its run path is ``$ORIGIN/../../nvidia/*/lib``
(read from the wheels of 2.12 to 2.15), and ``torch/__init__.py`` looks into ``nvidia`` along
``sys.path``. So the folders of the host's ``nvidia`` are linked into the environment's
site-packages, where both find them. ``LD_LIBRARY_PATH`` would do for the first but reaches every
child process; a ``.pth`` file would do for the second alone. What the environment has itself
stays: only what is absent is linked, folder by folder and, inside a folder of its own, file by
file. Nothing of the host is changed.
"""

from __future__ import annotations

import json
import subprocess
from email.parser import HeaderParser
from pathlib import Path

from harness.wheelhouse.manifest import WheelhouseError

RECORD = "HOST_LIBRARIES.json"
ASK_LIMIT_S = 60


def site_packages(python: Path) -> Path:
    """Where a Python keeps its packages. Raises WheelhouseError if it does not run."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    try:
        done = subprocess.run(
            [str(python), "-I", "-c", code],
            capture_output=True,
            text=True,
            timeout=ASK_LIMIT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WheelhouseError(f"{python} does not say where its packages are: {error}") from error
    return Path(done.stdout.strip())


def link_host_libraries(site: Path, host_site: Path) -> dict[str, str]:
    """Link the host's nvidia libraries into an environment; returns the host's versions.

    Args:
        site: the environment's site-packages, with all of its wheels installed.
        host_site: the site-packages that lends.

    The versions, by project, are also written to ``HOST_LIBRARIES.json`` in ``site``, last: an
    environment without it is not finished. Doing it twice does no harm.

    Raises WheelhouseError if the host has no nvidia libraries.
    """
    source = host_site / "nvidia"
    if not any(source.glob("*/lib/*.so*")):
        raise WheelhouseError(
            f"{host_site} has no nvidia libraries to lend",
            hint="name a Python that has a CUDA build of torch, or build without --reuse-host",
        )
    _link(source, site / "nvidia")
    versions = host_versions(host_site)
    record = site / RECORD
    fresh = record.with_name(RECORD + ".tmp")
    fresh.write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    fresh.replace(record)
    return versions


def _link(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for child in sorted(source.iterdir()):
        mine = target / child.name
        if mine.is_symlink() and not mine.exists():
            mine.unlink()  # the host that lent it has moved
        if child.name == "__pycache__" or mine.is_symlink():
            continue
        if not mine.exists():
            mine.symlink_to(child.absolute(), target_is_directory=child.is_dir())
        elif mine.is_dir() and child.is_dir():
            _link(child, mine)


def host_versions(host_site: Path) -> dict[str, str]:
    """The nvidia projects that are installed in a site-packages, and their versions."""
    versions = {}
    for file in host_site.glob("nvidia_*.dist-info/METADATA"):
        head = HeaderParser().parsestr(file.read_text(encoding="utf-8", errors="replace"))
        versions[str(head["Name"])] = str(head["Version"])
    return versions
