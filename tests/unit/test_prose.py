# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the manual is written: sentences that are read once, words that everybody knows, claims that tests show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from statistics import mean

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.words import DIALECT
from ansible_collections.kubegpu.tenancy.tools import tested_page
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
# Pages for users; contributing is for people who know the code.
PAGES = [
    ROOT / "README.md",
    ROOT / "docs/tutorial.md",
    *sorted(page for folder in ("how-to", "reference", "explanation") for page in (ROOT / "docs").glob(f"{folder}/*.md")),
]
MOST_WORDS, MOST_WORDS_ON_AVERAGE, MOST_WORDS_IN_A_CELL = 30, 20, 15
ACCIDENTS = "accidents"
# What is written between these lines comes from elsewhere.
GENERATED = re.compile(r"<!-- begin: .*?<!-- end -->", re.DOTALL)
TEST_PATH = re.compile(r"\b(?:tests|faults|molecule|contract)/\w+|^Tests?: ", re.MULTILINE)

in_every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def texts(page: Path) -> Iterator[tuple[str, str]]:
    """Yield a page's texts, each with what it is in: p, li, h, td; code counts as one word, a mark as none."""
    parser = MarkdownIt("commonmark").enable("table")
    kinds: list[str] = []
    for token in parser.parse(GENERATED.sub("", tested_page.MARK.sub("", page.read_text()))):
        if token.nesting > 0:
            kinds.append(token.tag)
        elif token.nesting < 0:
            kinds.pop()
        elif token.type == "inline":
            words = "".join("CODE" if child.type == "code_inline" else child.content or " " for child in token.children or ())
            yield ("td" if {"td", "th"} & set(kinds) else "h" if kinds[-1][0] == "h" else "p"), words


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?:;])\s+", text) if re.search(r"\w", part)]


def count(text: str) -> int:
    return len(re.findall(r"[\w'./%-]*\w[\w'./%-]*", text))


@in_every_page
def test_sentences_are_short(page):
    found = [sentence for kind, text in texts(page) if kind == "p" for sentence in sentences(text)]
    assert [sentence for sentence in found if count(sentence) > MOST_WORDS] == []
    assert mean(map(count, found)) <= MOST_WORDS_ON_AVERAGE


@in_every_page
def test_cells_are_short(page):
    assert [text for kind, text in texts(page) if kind == "td" and count(text) > MOST_WORDS_IN_A_CELL] == []


@in_every_page
def test_words_are_those_of_the_field(page):
    assert [found[0] for found in DIALECT.finditer(page.read_text())] == []


@in_every_page
def test_no_test_is_named_on_a_page_for_users(page):
    assert TEST_PATH.findall(page.read_text()) == []


def test_the_page_of_claims_is_current():
    assert tested_page.page() == tested_page.PAGE.read_text(), "make docs writes it"


def test_every_claim_stands_on_a_page_and_every_mark_leads_to_a_claim():
    """Accidents are many, and the manual makes one claim of them."""
    marks = {name for page in PAGES for name in tested_page.MARK.findall(page.read_text())}
    claims = {claim.name for claim in tested_page.claims()}
    assert marks - claims == set()
    assert {claim.name for claim in tested_page.claims() if claim.page != ACCIDENTS} - marks == set()


@pytest.mark.parametrize("claim", list(tested_page.claims()), ids=lambda claim: claim.name)
def test_the_tests_of_a_claim_exist(claim):
    assert count(claim.sentence) <= MOST_WORDS
    for test in claim.tests:
        file, _separator, function = test.partition("::")
        assert (ROOT / file).exists(), file
        assert not function or f"def {function}(" in (ROOT / file).read_text(), test
