# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Charts: what is read from rounds, and where things are drawn."""

from __future__ import annotations

import re

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._charts import Axis, band, over, strip
from ansible_collections.kubegpu.tenancy.tests.unit.pages import Page

NAMES = ("v1", "v2")
SLOW = [[(0.0, 0.0), (10.0, 2.0), (20.0, 4.0)], [(0.0, 0.0), (10.0, 6.0)], [(0.0, 0.0), (10.0, 3.0), (20.0, 3.0)]]


def test_a_band_has_the_lowest_the_middle_and_the_highest_round():
    found = band(SLOW)
    (middle,) = [number for number, place in enumerate(found.places) if place == 10.0]
    assert (found.least[middle], found.middle[middle], found.most[middle]) == (2.0, 3.0, 6.0)
    # The second round is over.
    assert (found.least[-1], found.middle[-1], found.most[-1]) == (3.0, 3.5, 4.0)
    assert (found.at(0.0), found.at(10.05), found.at(99.0)) == (0.0, 3.0, 3.5)


def test_without_points_there_is_no_band():
    assert band([]) is None
    assert band([[]]) is None


@pytest.mark.parametrize(
    ("most", "texts"),
    [
        (86.0, ["0", "20", "40", "60", "80 s"]),
        (16.0, ["0", "5", "10", "15 s"]),
        (1.0, ["0", "0.2", "0.4", "0.6", "0.8", "1 s"]),
        (0.0, ["0", "0.2", "0.4", "0.6", "0.8", "1 s"]),
        (4300.0, ["0", "1000", "2000", "3000", "4000 s"]),
    ],
)
def test_an_axis_has_round_ticks_and_a_unit(most, texts):
    assert [text for _value, text in Axis.to(most, " s").ticks] == texts


def drawn(*bands):
    return over("GPUs in use.", "Few.", NAMES, [band(one) for one in bands], (Axis.to(20.0), Axis.to(10.0)), (8.0, "all 8")).text


def test_a_chart_has_lines_bands_ticks_and_the_names_beside_the_lines():
    shown = Page(drawn(SLOW, [[(0.0, 1.0), (20.0, 8.0)]]))
    assert shown.open == []
    assert [len(shown.of(tag)) for tag in ("polyline", "polygon", "svg")] == [2, 2, 1]
    assert shown.of("svg")[0]["aria-label"] == "GPUs in use."
    assert {"v1", "v2", "all 8", "0", "20", "10"} <= {said for tag, said in shown.texts if tag == "span"}


@pytest.mark.parametrize("second", [SLOW, [[(0.0, 0.0), (20.0, 0.0)]], [[(0.0, 8.0), (20.0, 8.0)]]])
def test_names_do_not_cover_each_other(second):
    places = re.findall(r'class="beside[^"]*" style="left:([\d.]+)%;bottom:([\d.]+)%"', drawn(SLOW, second))
    (one, other) = [(float(left), float(bottom)) for left, bottom in places]
    assert abs(one[1] - other[1]) >= 10 or abs(one[0] - other[0]) >= 30


def test_a_strip_shows_both_sides_on_one_scale_and_is_not_read_out():
    shown = Page(strip((1.0, 3.0), (2.0,), 4.6).text)
    assert shown.of("span") == [{"class": "strip", "aria-hidden": "true"}]
    styles = {attributes["class"]: attributes["style"] for attributes in shown.of("i")}
    assert styles["first range"] == "left:18.9%;width:37.8%"
    assert styles["second middle"] == "left:37.8%"
    assert styles["over"] == "left:87.0%"
    assert "left:0.0%" in strip((0.0,), (0.0,), 0.0).text
