# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The diagrams of README.md and docs, drawn by Mermaid in Chromium: no error, no request, and every label is there."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from playwright.sync_api import Error, Page, sync_playwright

ROOT = Path(__file__).parents[2]
MERMAID = Path(os.environ["KUBEGPU_MERMAID"])
DIAGRAMS = {
    f"{path.relative_to(ROOT)}:{token.map[0] + 1}": token.content
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    for token in MarkdownIt().parse(path.read_text())
    if token.type == "fence" and token.info == "mermaid" and token.map
}
# Draws a diagram, and returns the texts of its labels, without white space: a label is broken into lines to fit.
DRAW = r"""
async text => {
    const {svg} = await mermaid.render("diagram", text);
    document.body.innerHTML = svg;
    const labels = document.querySelectorAll("svg#diagram :is(.nodeLabel, .edgeLabel, .cluster-label)");
    return [...labels].map(label => label.textContent.replace(/\s/g, ""));
}
"""
QUOTED = re.compile(r'"([^"]*)"')
TRANSITION = re.compile(r"^\s*(\S+) --> ([^\s:]+): (.*)$", re.MULTILINE)
EDGE = re.compile(r"-- ([^\"<>\n]+?) -->")
# A node without a label of its own has its name.
BARE = re.compile(r"(?<!subgraph )\b(?!end\b)(\w+)\b(?!\w*[\[{])")


def labels(text: str) -> set[str]:
    """Return the labels that a diagram has to have, by its text."""
    kind, _newline, body = text.partition("\n")
    if kind.startswith("stateDiagram"):
        found = {part for transition in TRANSITION.findall(body) for part in transition} - {"[*]"}
    else:
        named = set(re.findall(r"(\w+)[\[{]\"", body))
        nodes = set(BARE.findall(re.sub(r"-- .+? -->", "-->", QUOTED.sub('""', body)))) - {"subgraph"}
        found = {*QUOTED.findall(body), *EDGE.findall(body), *(nodes - named)}
    return {re.sub(r"\s|<br>", "", label) for label in found}


def wrong_with(page: Page, text: str) -> list[str]:
    """Draw a diagram, and return everything that is wrong with it."""
    try:
        drawn = page.evaluate(DRAW, text)
    except Error as exc:
        return [f"error: {exc.message}"]
    return [f"no label: {label}" for label in sorted(labels(text) - set(drawn))]


@pytest.fixture(scope="module", name="page")
def _page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(offline=True)
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.add_script_tag(path=MERMAID)
        page.evaluate("mermaid.initialize({startOnLoad: false})")
        yield page
        browser.close()
    assert requests == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_drawn_with_its_labels(page: Page, name: str) -> None:
    assert wrong_with(page, DIAGRAMS[name]) == []


def test_labels_are_read_from_a_diagram() -> None:
    flow = 'flowchart LR\n    subgraph h["The host"]\n        a["one<br>two"] -- goes to --> b{"three?"}\n    end\n    b --> c -- "no" --> a\n'
    assert labels(flow) == {"Thehost", "onetwo", "goesto", "three?", "c", "no"}
    assert labels("stateDiagram-v2\n    [*] --> on: start it\n    on --> off: end\n") == {"on", "off", "startit", "end"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('flowchart LR\n    a["one" --> b\n', "error: .*Parse error"),
        ("flowchard LR\n    a --> b\n", "error: .*No diagram type detected"),
        ('flowchart LR\n    a --> b\n    %% c["hidden"]\n', "no label: hidden"),
    ],
)
def test_what_is_wrong_with_a_diagram_is_found(page: Page, text: str, complaint: str) -> None:
    assert any(re.match(complaint, one, re.DOTALL) for one in wrong_with(page, text))
