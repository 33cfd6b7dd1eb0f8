# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of evidence in Chromium: no error, no request, nothing out of sight, and within reach of everybody, by axe-core."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.pages import PAGES
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

SIZES = {"phone": {"width": 390, "height": 844}, "desk": {"width": 1440, "height": 900}}
SCHEMES = ("light", "dark")
PICTURES = Path(os.environ["KUBEGPU_PICTURES"])

# How much wider than the window the page is, in pixels.
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# Elements that scroll and that no keyboard reaches.
UNREACHED = """
[...document.querySelectorAll("body *")].filter(element => {
    const style = getComputedStyle(element);
    const scrolls = ["auto", "scroll"];
    const wide = element.scrollWidth > element.clientWidth && scrolls.includes(style.overflowX);
    const high = element.scrollHeight > element.clientHeight && scrolls.includes(style.overflowY);
    return (wide || high) && element.tabIndex < 0;
}).map(element => element.outerHTML.slice(0, 80))
"""

# Parts of the page that are folded; what stands in them is looked at as well.
UNFOLD = "document.querySelectorAll('details').forEach(part => { part.open = true; })"
FOLDED = """
[...document.querySelectorAll("details > :not(summary)")].filter(part => !part.checkVisibility({contentVisibilityAuto: true})).length
"""


@pytest.fixture(scope="module", name="browser")
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        yield browser
        browser.close()


def look(browser: Browser, file: Path, size: str, scheme: str, picture: Path | None = None) -> list[str]:
    """Open a page, and return everything that is wrong with it.

    :arg picture: where a picture of the whole page goes.
    """
    wrong: list[str] = []
    with browser.new_context(viewport=SIZES[size], color_scheme=scheme) as context:
        page = context.new_page()
        page.on("console", lambda message: wrong.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on("request", lambda request: wrong.append(f"request: {request.url}"))
        page.goto(file.as_uri())
        wrong.remove(f"request: {file.as_uri()}")
        if picture:
            page.screenshot(path=picture, full_page=True)
        wrong += laid_out(page)
        page.evaluate(UNFOLD)
        wrong += laid_out(page)
        for violation in Axe().run(page).response["violations"]:
            places = ", ".join(str(node["target"]) for node in violation["nodes"][:5])
            wrong.append(f"axe: {violation['id']}: {violation['help']} ({places})")
    return wrong


def laid_out(page: Page) -> list[str]:
    """Return what of a page, as it is folded now, is out of sight or out of reach."""
    wrong = [f"unreached: {element}" for element in page.evaluate(UNREACHED)]
    if (pixels := page.evaluate(OVERFLOW)) > 0:
        wrong.append(f"overflow: the page is {pixels} pixels wider than the window")
    return wrong


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_it_should_be(browser: Browser, tmp_path: Path, name: str, size: str, scheme: str) -> None:
    file = tmp_path / f"{name}.html"
    file.write_text(PAGES[name])
    assert look(browser, file, size, scheme, PICTURES / f"{name}-{size}-{scheme}.png") == []


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_everything_is_open(browser: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.html"
    file.write_text(PAGES[name])
    page = browser.new_page()
    page.goto(file.as_uri())
    assert "<details>" not in PAGES[name] or page.evaluate(FOLDED) > 0
    page.emulate_media(media="print")
    page.wait_for_function(f"{FOLDED.strip()} === 0")
    page.close()


def test_the_keyboard_unfolds(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "evidence.html"
    file.write_text(PAGES["evidence"])
    page = browser.new_page()
    page.goto(file.as_uri())
    folded = page.evaluate(FOLDED)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_function(f"{FOLDED.strip()} < {folded}")
    page.close()


@pytest.mark.parametrize(
    ("part", "complaint"),
    [
        ('<img src="http://192.0.2.1/a.png" alt="a">', "request: http://192.0.2.1/a.png"),
        ("<script>console.error('broken')</script>", "console: broken"),
        ("<script>throw new Error('thrown')</script>", "script: thrown"),
        ('<p style="width: 2000px">wide</p>', "overflow: "),
        ('<div style="overflow: auto; height: 20px"><p style="height: 90px">high</p></div>', "unreached: "),
        ('<p style="color: #777; background: #666">faint</p>', "axe: color-contrast: "),
    ],
)
def test_what_is_wrong_with_a_page_is_found(browser: Browser, tmp_path: Path, part: str, complaint: str) -> None:
    file = tmp_path / "wrong.html"
    file.write_text(PAGES["evidence"].replace("</main>", f"{part}</main>"))
    assert any(one.startswith(complaint) for one in look(browser, file, "phone", "light"))
