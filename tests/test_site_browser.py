"""The site in a real browser: every page, wide and narrow, light and dark, with and without JavaScript.

Needs Debian's chromium (or any on the PATH), playwright, and for the accessibility check axe-core,
which npm fetches once into a temporary folder; what is missing is skipped with its reason.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from syntheticstore import Plan, fill

from harness.case import Case
from harness.casefile import load_corpus
from harness.report import publish, seams
from harness.store import Store

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on the PATH (apt-get install chromium)")

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
LOOKS = ((390, "light"), (1440, "dark"))
REPOSITORY = Path(__file__).resolve().parent.parent
EVERY_EVIDENCE_PAGE = 12  # of many alike pages, this many are opened; links into all are checked


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS.split())
        yield opened
        opened.close()


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The folder on a port of this host, as a plain web server gives it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def real_corpus() -> list[tuple[Case, Path]]:
    folder = REPOSITORY / "cases"
    return [(case, folder) for case in load_corpus(folder, None)] if any(folder.glob("*.yaml")) else []


Made = tuple[str, Path]


@pytest.fixture(scope="module", params=["synthetic", "many issues", "real", "empty"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Address and folder of a published site."""
    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("site")
    if request.param != "real":
        patch.setattr(seams, "exporter", lambda: lambda cell, device: f"# {cell.label} {device}\n")
    if request.param == "real":
        records = REPOSITORY / "results" / "records"
        if not any(records.glob("*/*/*.json")):
            pytest.skip("no real records in results/records")
        store, corpus = Store(records), real_corpus()
    elif request.param == "empty":
        store, corpus = Store(folder / "records"), fill(folder / "unused", Plan(cases=1, releases=10))[1]
    else:
        cases = 2 if request.param == "synthetic" else 5
        store, corpus = fill(folder / "records", Plan(cases=cases, workarounds=7))
    publish(store, corpus, folder / "out", folder / "results")
    patch.undo()
    with served(folder / "out") as address:
        yield address, folder / "out"


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm to fetch axe-core with")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            [*command, "axe-core@4"], capture_output=True, text=True, timeout=180, check=False
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm could not fetch axe-core in three minutes")
    if done.returncode:
        pytest.skip(f"npm could not fetch axe-core: {done.stderr.strip().splitlines()[-1:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")


def pages(folder: Path) -> list[str]:
    """Pages to open: all but the many evidence pages, of which some."""
    names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*.html"))
    evidence = [name for name in names if name.startswith("evidence/")]
    step = max(1, len(evidence) // EVERY_EVIDENCE_PAGE)
    return [name for name in names if name not in evidence] + evidence[::step]


class Watched:
    """A page that notes what goes wrong on it."""

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.errors: list[str] = []
        self._address = address
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("requestfailed", self._failed)
        self.page.on("response", self._response)
        self.page.on("request", self._request)

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _failed(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # an icon still loading when the next page is opened
            self.errors.append(f"{request.failure}: {request.url}")

    def _response(self, response: Any) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status} {response.url}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith(self._address):
            self.errors.append(f"another host: {request.url}")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_every_page_opens_without_error_and_without_horizontal_scroll(
    browser: Any, site: Made, width: int, scheme: str
) -> None:
    address, folder = site
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    watched = Watched(context, address)
    for name in pages(folder):
        watched.page.goto(address + name)
        watched.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        scroll, inner = watched.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert scroll <= inner, f"{name} is {scroll} px wide at {width}"
        assert watched.page.evaluate("window.broken") is None, f"{name}: hostile text ran"
        assert watched.page.evaluate("document.querySelectorAll('main').length") == 1, f"{name} broke apart"
        whole = "document.querySelector('footer.foot').parentElement === document.body"
        assert watched.page.evaluate(whole), f"{name}: text broke out of its element"
    assert watched.errors == []
    context.close()


def test_no_link_is_broken(browser: Any, site: Made) -> None:
    address, folder = site
    context = browser.new_context()
    page = context.new_page()
    anchors: dict[str, set[str]] = {}
    wanted: dict[str, str] = {}
    for file in sorted(folder.rglob("*.html")):
        name = str(file.relative_to(folder))
        page.goto(address + name, wait_until="domcontentloaded")
        anchors[name] = set(page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)"))
        collect = "e => e.getAttribute('href') || e.getAttribute('src')"
        for href in page.evaluate(f"[...document.querySelectorAll('[href],[src]')].map({collect})"):
            wanted.setdefault(urljoin(address + name, href), name)
    context.close()
    broken = []
    for url, source in wanted.items():
        if not url.startswith(address):
            assert urlsplit(url).scheme in ("http", "https"), f"{source}: {url}"
            continue
        plain, fragment = urldefrag(url)
        name = unquote(plain.removeprefix(address)) or "index.html"
        known = anchors.get(name)
        lost = bool(fragment) and known is not None and unquote(fragment) not in known
        if lost or not (folder / name).is_file():
            broken.append(f"{source}: {url}")
    assert broken == []


def test_the_form_sets_the_address_and_shows_the_answer(browser: Any, site: Made) -> None:
    address, folder = site
    if not (folder / "evidence").exists():
        pytest.skip("nothing was run, so there is nothing to ask")
    context = browser.new_context()
    watched = Watched(context, address)
    page = watched.page
    page.goto(address)
    assert page.locator(".answer:visible").count() == 1
    last = page.locator("#affected select[name=torch] option").last.text_content()
    page.select_option("#affected select[name=torch]", last)
    page.wait_for_url(lambda url: f"#torch={last}&device=" in url)
    assert page.locator(".answer:visible h2").inner_text().startswith(f"torch {last} on ")
    assert f"torch {last}" in page.locator("#affected-said").inner_text()
    page.select_option("#affected select[name=device]", "cuda")
    page.wait_for_url(lambda url: url.endswith(f"#torch={last}&device=cuda"))
    assert page.locator(".answer:visible h2").inner_text() == f"torch {last} on cuda"
    page.go_back()
    page.wait_for_url(lambda url: not url.endswith("device=cuda"))
    shared = page.url
    assert watched.errors == []
    context.close()
    again = browser.new_context().new_page()
    again.goto(shared)
    assert again.input_value("#affected select[name=torch]") == last
    again.context.close()


def test_an_address_may_be_typed_as_people_have_it(browser: Any, site: Made) -> None:
    address, folder = site
    if not (folder / "evidence").exists():
        pytest.skip("nothing was run, so there is nothing to ask")
    name = "affected.html" if (folder / "affected.html").exists() else "index.html"
    page = browser.new_context().new_page()
    page.goto(f"{address}{name}?torch=2.13.0%2Bcu130&device=cpu")
    assert page.locator(".answer:visible h2").inner_text() == "torch 2.13.0 on cpu"
    page.goto(f"{address}{name}#torch=2.13&device=cpu")
    assert page.locator(".answer:visible h2").inner_text() == "torch 2.13.0 on cpu"
    page.goto(f"{address}{name}#torch=9.9.9&device=cpu")
    page.get_by_text("No record of torch 9.9.9").wait_for()
    assert page.locator(".answer:visible").count() == 0
    page.context.close()


def test_without_javascript_the_table_leads_to_the_answer(browser: Any, site: Made) -> None:
    address, folder = site
    if not (folder / "evidence").exists():
        pytest.skip("nothing was run, so there is nothing to ask")
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 900})
    page = context.new_page()
    page.goto(address)
    assert page.locator("#affected").is_hidden()
    link = page.locator("#glance ~ figure tbody td a").first
    wanted = (link.get_attribute("href") or "").partition("#")[2]
    link.click()
    shown = page.locator(".answer:visible")
    assert shown.count() == 1
    assert shown.get_attribute("id") == wanted
    context.close()


def test_the_keyboard_reaches_the_form_and_the_tables(browser: Any, site: Made) -> None:
    address, folder = site
    page = browser.new_context().new_page()
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.name || document.activeElement.className"))
    if (folder / "evidence").exists():
        assert {"torch", "device"} <= seen
    page.context.close()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_axe_finds_no_violation(browser: Any, site: Made, axe: str, width: int, scheme: str) -> None:
    address, folder = site
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True
    )
    page = context.new_page()
    kinds: dict[str, str] = {}
    for name in pages(folder):
        kinds.setdefault(name.split("/")[0], name)
    found = []
    for name in kinds.values():
        page.goto(address + name)
        page.evaluate("document.querySelectorAll('.tries details').forEach(d => d.open = true)")
        page.evaluate(axe)
        result = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice'],"
            " resultTypes: ['violations']})"
        )
        for violation in result["violations"]:
            node = violation["nodes"][0]
            found.append(f"{name}: {violation['id']}: {node['html'][:200]}: {node['failureSummary'][:300]}")
    context.close()
    assert found == []


def test_the_front_page_is_light(site: Made) -> None:
    _, folder = site
    own = sum((folder / name).stat().st_size for name in ("index.html", "static/site.css", "static/site.js"))
    assert own < 300_000
