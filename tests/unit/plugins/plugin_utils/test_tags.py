# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools

import pytest
from ansible_collections.kubegpu.tenancy.plugins.plugin_utils._tags import parts_of, refused_tags

SITE = ["lab", "cluster", "tenants", "verify", "summary"]
HAS = "It has lab, cluster, tenants, verify, summary."


@pytest.mark.parametrize(
    ("run", "skip", "own", "expected"),
    [
        (["all"], [], [], SITE),
        (["tagged"], [], [], SITE),
        (["all"], ["verify"], [], ["lab", "cluster", "tenants", "summary"]),
        (["tenants", "summary"], ["summary"], [], ["tenants"]),
        # Of a playbook that imports this one.
        (["deploy"], ["lab"], ["deploy"], ["cluster", "tenants", "verify", "summary"]),
        (["all"], ["deploy"], ["deploy"], []),
        (["all"], ["tagged"], [], []),
        (["all"], ["all"], [], []),
        (["untagged"], [], [], []),
    ],
)
def test_which_parts_run(run, skip, own, expected):
    assert parts_of(SITE, run, skip, own) == expected


@pytest.mark.parametrize("count", range(1, len(SITE)))
def test_each_combination_of_parts_is_taken(count):
    for some in itertools.combinations(SITE, count):
        assert refused_tags(SITE, some, [], []) == ""
        assert refused_tags(SITE, ["all"], some, []) == ""


@pytest.mark.parametrize(
    ("run", "skip", "own", "expected"),
    [
        (["tenant"], [], [], f"tenant: no tag of this playbook. Did you mean tenants? {HAS}"),
        (["all"], ["verfy"], [], f"verfy: no tag of this playbook. Did you mean verify? {HAS}"),
        (["gpus"], [], [], f"gpus: no tag of this playbook. {HAS}"),
        (["all"], SITE, [], f"--tags and --skip-tags leave nothing of this playbook. {HAS}"),
        (["untagged"], [], [], f"--tags and --skip-tags leave nothing of this playbook. {HAS}"),
        # What is another play's is not refused.
        (["tenants", "monitoring"], ["dns"], [], ""),
        (["deploy"], [], ["deploy"], ""),
    ],
)
def test_tags_that_would_do_nothing_are_refused(run, skip, own, expected):
    assert refused_tags(SITE, run, skip, own) == expected


def test_a_playbook_without_parts_takes_no_tags():
    assert refused_tags([], ["images"], [], []) == (
        "images: no tag of this playbook. It has none: run it without --tags and --skip-tags."
    )
    assert refused_tags([], ["all"], ["images"], []) == ""
