# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pages of evidence, and one of them as tests look at it."""

from __future__ import annotations

import copy
import html.parser
import json

from ansible_collections.kubegpu.tenancy.plugins.plugin_utils import _evidence_page, _fleet_page, _rehearsal_page, _usage_page
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._drift import drift
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._evidence import evidence
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._fleet import merged, summary
from ansible_collections.kubegpu.tenancy.tests.unit.hostvars import AT, drifted, two_clusters
from ansible_collections.kubegpu.tenancy.tests.unit.rehearsed import LOST, example
from ansible_collections.kubegpu.tenancy.tests.unit.used import reported

_DRIFTED = drifted()


def compared():
    """Return evidence of the two clusters with changes since the evidence of the day before."""
    before = two_clusters().reports()
    after = copy.deepcopy(before)
    after[0]["tenants"][0] |= {
        "scheduler": before[0]["tenants"][0]["scheduler"] | {"running": "v0.16.8"},
        "digest": "fedcba9876543210",
    }
    after[0]["tenants"][2]["name"] = "site"
    after[1]["nodes"][0] |= {"allocatable": 7}
    return evidence(after, AT, json.dumps(evidence(before, "2026-11-23T09:00:00Z")))


_COMPARED = compared()
_OF_DRIFT = evidence(_DRIFTED.reports(), AT, "", "drift", drift(_DRIFTED.hostvars, _DRIFTED.clusters))
# Every page that there is, with much of what there can be on it.
PAGES = {
    "evidence": _evidence_page.page(evidence(two_clusters().reports(), AT)),
    "changes": _evidence_page.page(_COMPARED),
    "drift": _evidence_page.page(_OF_DRIFT),
    "fleet": _fleet_page.page(
        merged([summary(_COMPARED, "monday"), summary(_OF_DRIFT, "tuesday")], AT, ["gpu1", "gpu2", "gpu9"]), {}
    ),
    "held": _rehearsal_page.page(example(cycle=6.0, slow=4.0)),
    "rejected": _rehearsal_page.page(example(violations=[LOST])),
    "usage": _usage_page.page(reported(dc2={})),
}


class Page(html.parser.HTMLParser):
    """A page.

    :ivar open: elements that were opened and not closed; ``found``, all of them with their attributes.
    :ivar texts: each piece of text with the element that it is in; ``said``, all that a reader sees.
    """

    VOID = ("meta", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.found, self.texts = [], [], []
        self.feed(text)

    @property
    def said(self):
        return "".join(text for tag, text in self.texts if tag != "style")

    def of(self, tag):
        """Return the attributes of every element with this name."""
        return [attributes for name, attributes in self.found if name == tag]

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))
