"""What a fake index publishes: releases of torch, the packages that it needs, whole histories."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from packaging.version import Version

from .behaviour import Behaviour, as_behaviour
from .wheels import Wheel, build, git_version, platform_tag, python_tag, torch_files, when

STABLE = "simple"
NIGHTLY = "nightly/cpu"

DATES: Mapping[str, str] = {
    "2.0.0": "2023-03-15",
    "2.0.1": "2023-05-08",
    "2.1.0": "2023-10-04",
    "2.1.1": "2023-11-15",
    "2.1.2": "2023-12-14",
    "2.2.0": "2024-01-30",
    "2.2.1": "2024-02-22",
    "2.2.2": "2024-03-27",
    "2.3.0": "2024-04-24",
    "2.3.1": "2024-06-05",
    "2.4.0": "2024-07-24",
    "2.4.1": "2024-09-04",
    "2.5.0": "2024-10-17",
    "2.5.1": "2024-10-29",
    "2.6.0": "2025-01-29",
    "2.7.0": "2025-04-23",
    "2.7.1": "2025-06-04",
    "2.8.0": "2025-08-06",
    "2.9.0": "2025-10-15",
    "2.9.1": "2025-11-12",
    "2.10.0": "2026-01-21",
    "2.11.0": "2026-03-23",
    "2.12.0": "2026-05-13",
    "2.12.1": "2026-06-17",
    "2.13.0": "2026-07-08",
    "2.14.0": "2026-09-02",
    "2.14.1": "2026-09-30",
    "2.15.0": "2026-10-28",
}
"""The stable releases since torch.compile, with the days of their upload."""


@dataclass(frozen=True)
class Release:
    """One release of the fake torch."""

    version: str
    date: str = ""
    """Upload, `2024-10-17` or with a time; default: the real day, if the version is a real one."""
    behaviours: Mapping[str, str | Behaviour] = field(default_factory=dict)
    """What `torch.fake.maybe(name)` does; names that are not here do nothing."""
    pythons: Sequence[str] = ()
    """Python tags, a wheel each (default: the one that runs the tests)."""
    platforms: Sequence[str] = ()
    """Platform tags, a wheel each (default: this host's)."""
    yanked: str | bool = False
    requires_python: str | None = ">=3.8.0"
    requires: Sequence[str] = ("sympy",)
    cuda: str | None = None
    max_compile_python: tuple[int, int] | None = None
    """torch.compile refuses newer Pythons, as torch 2.0 does on 3.11."""
    compile_imports: Sequence[str] = ()
    """Modules that compiling needs and no requirement brings, e.g. `pkg_resources`."""
    missing_config: Sequence[str] = ()
    """Settings that this release lacks, e.g. `torch._inductor.config.triton.use_block_ptr`."""
    damage: str | None = None
    """See `Damage`."""
    core_metadata: bool = True
    size: int = 0
    """Bytes of padding: what an environment of it weighs on disk, besides some 40 kB."""
    channel: str = STABLE
    name: str = "torch"

    @property
    def uploaded(self) -> datetime:
        """When the index received it."""
        return when(self.date or DATES[Version(self.version).public])

    @property
    def git_version(self) -> str:
        """What `torch.version.git_version` will say."""
        return git_version(self.version)

    def wheels(self, state: str | None = None) -> list[Wheel]:
        """Its files; `state` is the folder where flaky behaviours count their attempts."""
        table = {
            "bugs": {name: as_behaviour(what) for name, what in self.behaviours.items()},
            "max_compile_python": self.max_compile_python,
            "compile_imports": self.compile_imports,
            "missing_config": self.missing_config,
            "state": state,
        }
        files = torch_files(self.version, table, self.cuda, self.size)
        return [
            build(
                self.name,
                self.version,
                files,
                uploaded=self.uploaded,
                tag=f"{python}-{python}-{host}",
                requires=self.requires,
                requires_python=self.requires_python,
                yanked=self.yanked,
                core_metadata=self.core_metadata,
                damage=self.damage,
            )
            for python in self.pythons or (python_tag(),)
            for host in self.platforms or (platform_tag(),)
        ]


@dataclass(frozen=True)
class Package:
    """One release of anything else: a single pure wheel."""

    name: str
    version: str
    date: str
    files: Mapping[str, str] = field(default_factory=dict)
    """Path in site-packages to source; default: a module of that name with `__version__`."""
    requires: Sequence[str] = ()
    requires_python: str | None = None
    yanked: str | bool = False
    damage: str | None = None
    channel: str = STABLE

    def wheels(self, state: str | None = None) -> list[Wheel]:
        """Its one file."""
        module = f"{self.name}/__init__.py"
        files = self.files or {module: f"__version__ = {self.version!r}\n"}
        return [
            build(
                self.name,
                self.version,
                {path: source.encode() for path, source in files.items()},
                uploaded=when(self.date),
                requires=self.requires,
                requires_python=self.requires_python,
                yanked=self.yanked,
                damage=self.damage,
            )
        ]


def setuptools(version: str, date: str, *, pkg_resources: bool) -> Package:
    """A setuptools of its time: `pkg_resources` left it in 2026, and old torch imports it."""
    files = {"setuptools/__init__.py": f"__version__ = {version!r}\n"}
    if pkg_resources:
        files["pkg_resources/__init__.py"] = ""
    return Package("setuptools", version, date, files)


SUPPORT: tuple[Package, ...] = (
    setuptools("65.6.3", "2022-11-23", pkg_resources=True),
    setuptools("69.5.1", "2024-04-13", pkg_resources=True),
    setuptools("80.9.0", "2025-05-27", pkg_resources=True),
    setuptools("82.0.0", "2026-02-08", pkg_resources=False),
    Package("numpy", "1.24.0", "2022-12-18"),
    Package("numpy", "1.26.4", "2024-02-05"),
    Package("numpy", "2.0.0", "2024-06-16"),
    Package("numpy", "2.3.0", "2025-06-07"),
    Package("sympy", "1.11.1", "2022-08-31"),
    Package("sympy", "1.13.1", "2024-07-19"),
)
"""What every environment has besides torch."""


@dataclass(frozen=True)
class Bug:
    """One window of one bug in a history: from `introduced` on, up to before `fixed`."""

    introduced: str
    fixed: str | None = None
    behaviour: str | Behaviour = "error"

    def covers(self, version: str) -> bool:
        """Whether this release has it."""
        release = Version(version)
        return Version(self.introduced) <= release and (self.fixed is None or release < Version(self.fixed))


def history(
    first: str = "2.0.0",
    last: str = "2.15.0",
    *,
    bug: tuple[str, str | None] | None = None,
    behaviour: str | Behaviour = "error",
    bugs: Mapping[str, Bug | Sequence[Bug]] | None = None,
    change: Mapping[str, Mapping[str, object]] | None = None,
) -> list[Release]:
    """The 28 real releases 2.0.0 to 2.15.0 (or a part), oldest first, with bug windows.

    `bug=("2.3.0", "2.6.0")` is the bug named `bug`, in 2.3.0 and on, no more in 2.6.0; `bugs` gives
    several by name, each of one or more windows (the last that covers a release counts). `change`
    gives other fields of single releases: `{"2.4.1": {"yanked": "broken"}}`.
    As in reality 2.0 refuses to compile on 3.11 and 2.1 compiles only with `pkg_resources`.
    """
    windows = dict(bugs or {})
    if bug:
        windows["bug"] = Bug(*bug, behaviour)
    releases = []
    for version in DATES:
        if not Version(first) <= Version(version) <= Version(last):
            continue
        table: dict[str, str | Behaviour] = {}
        for name, spans in windows.items():
            for span in [spans] if isinstance(spans, Bug) else spans:
                if span.covers(version):
                    table[name] = span.behaviour
        fields: dict[str, object] = {
            "max_compile_python": (3, 10) if version.startswith("2.0.") else None,
            "compile_imports": ("pkg_resources",) if version.startswith(("2.0.", "2.1.")) else (),
            "behaviours": table,
            **(change or {}).get(version, {}),
        }
        releases.append(Release(version, **fields))  # type: ignore[arg-type]
    return releases


def nightlies(
    first_day: str,
    count: int,
    *,
    base: str = "2.16.0",
    bug: tuple[str, str | None] | None = None,
    behaviour: str | Behaviour = "error",
    vanished: Iterable[str] = (),
    change: Mapping[str, Mapping[str, object]] | None = None,
    channel: str = NIGHTLY,
) -> list[Release]:
    """Dev builds, one a day, e.g. `2.16.0.dev20261101+cpu`, oldest first.

    Days are ISO dates: `bug` is [first day with it, first day without), `vanished` has no build,
    `change` gives other fields by day, e.g. `{"2026-11-05": {"damage": Damage.TRUNCATED}}`.
    """
    gone, start, releases = set(vanished), when(first_day), []
    for offset in range(count):
        day = (start + timedelta(days=offset)).astimezone(UTC).date().isoformat()
        if day in gone:
            continue
        has = bug is not None and bug[0] <= day and (bug[1] is None or day < bug[1])
        fields: dict[str, object] = {
            "behaviours": {"bug": behaviour} if has else {},
            **(change or {}).get(day, {}),
        }
        version = f"{base}.dev{day.replace('-', '')}+{channel.rsplit('/', 1)[-1]}"
        releases.append(Release(version, day, channel=channel, **fields))  # type: ignore[arg-type]
    return releases
