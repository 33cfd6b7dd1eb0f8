# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every page of evidence keeps to: no network, no script, and within reach of everybody."""

from __future__ import annotations

import itertools
import re

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _evidence_page
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._page import element, fold, table
from ansible_collections.kubegpu.tenancy.tests.unit.pages import PAGES, Page

# Ratios of WCAG 2.2, level AA: of text, and of parts of a picture.
LEAST_TEXT, LEAST_DRAWN = 4.5, 3.0

of_every_page = pytest.mark.parametrize("text", PAGES.values(), ids=PAGES)


@of_every_page
def test_it_needs_no_network_and_no_script(text):
    shown = Page(text)
    assert shown.open == []
    names = {name for _tag, attributes in shown.found for name in attributes}
    assert not [name for name in names if name in ("src", "srcset", "href", "data", "action") or name.startswith("on")]
    assert {tag for tag, _attributes in shown.found}.isdisjoint({"script", "link", "img", "iframe", "object", "form"})
    style = "".join(said for tag, said in shown.texts if tag == "style")
    assert style
    assert re.findall(r"url\(|@import|//", style) == []


@of_every_page
def test_its_headings_are_in_order(text):
    levels = [int(tag[1]) for tag, _attributes in Page(text).found if re.fullmatch("h[1-6]", tag)]
    assert (levels[0], levels.count(1)) == (1, 1)
    assert all(later - former <= 1 for former, later in itertools.pairwise(levels))


@of_every_page
def test_its_tables_are_named_and_reached_by_the_keyboard(text):
    shown = Page(text)
    regions = [attributes for attributes in shown.of("div") if attributes.get("class") == "wide"]
    assert len(regions) == len(shown.of("table")) == len(shown.of("caption")) > 0
    assert all((region["tabindex"], region["role"]) == ("0", "region") for region in regions)
    labels = [region["aria-label"] for region in regions]
    assert all(labels)
    assert len(set(labels)) == len(labels)
    assert all(attributes.get("scope") == "col" for attributes in shown.of("th"))
    # None is empty.
    assert len([said for tag, said in shown.texts if tag == "th"]) == len(shown.of("th"))


@pytest.mark.parametrize(("text", "css"), [("x" * 41, " class=long"), ("x" * 40, "")])
def test_a_cell_is_as_wide_as_what_is_read_of_it(text, css):
    assert f"<td{css}>" in table(["what"], [[element("span", text, css="failed")]]).text


@pytest.mark.parametrize(("other", "cells"), [("", 2), ("-", 2), ("none", 0)])
def test_numbers_stand_to_the_right_where_some_are_missing(other, cells):
    assert str(table(["tenant", "held"], [["ml", 1], ["web", other]]).text).count("<td class=number>") == cells


@of_every_page
def test_its_pictures_are_named_or_said_in_text_beside_them(text):
    shown = Page(text)
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in shown.of("svg"))
    bars = [attributes for attributes in shown.of("span") if attributes.get("class") == "bar"]
    assert all(attributes["aria-hidden"] == "true" for attributes in bars)


@of_every_page
def test_what_is_folded_has_a_heading_and_is_open_on_paper(text):
    shown = Page(text)
    assert len(shown.of("details")) == len(shown.of("summary"))
    style = "".join(said for tag, said in shown.texts if tag == "style")
    assert "details::details-content { content-visibility: visible;" in style.partition("@media print")[2]


def test_a_part_that_is_folded():
    assert fold("a", "<b>", [element("p", "c")]).text == (
        '<details><summary><h3>a</h3><span class="soft">&lt;b&gt;</span></summary><p>c</p></details>'
    )
    assert fold("a", "", [], is_open=True).text.startswith("<details open>")


@of_every_page
def test_it_says_its_language_and_name(text):
    shown = Page(text)
    assert shown.of("html") == [{"lang": "en"}]
    assert next(said for tag, said in shown.texts if tag == "title")


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_contrast_is_measured_as_wcag_does():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_stand_out_by_day_and_by_night(scheme):
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w{6})", root)) for root in re.findall(r":root \{(.*?)\}", PAGES["evidence"], re.DOTALL)
    )
    colours = {"light": light, "dark": dark}[scheme]
    assert light.keys() == dark.keys()
    drawn = {name for name in colours if re.fullmatch(r"first|second|hue\d", name)}
    assert len(drawn) == 2 + _evidence_page.HUES
    seen = {name: colour for name, colour in colours.items() if name not in ("paper", "card", "line")}
    for ground in ("paper", "card"):
        ratios = {name: contrast(colour, colours[ground]) for name, colour in seen.items()}
        assert {name for name, ratio in ratios.items() if ratio < (LEAST_DRAWN if name in drawn else LEAST_TEXT)} == set()
