# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.facts import STOP_WHEN
from ansible_collections.kubegpu.tenancy.plugins.module_utils._rollout.validation import rollout
from ansible_collections.kubegpu.tenancy.tests.unit.problems import refuses

CLUSTERS = [f"gpu{number:02}" for number in range(1, 13)]
GROUPS = {
    "all": [*CLUSTERS, "bastion"],
    "kubegpu_clusters": CLUSTERS,
    "canary": ["gpu07"],
    "north": ["gpu03", "gpu01", "gpu02"],
    "offices": ["bastion"],
}
GIVEN = {"name": "kai-0.16.8", "waves": [{"hosts": "canary"}, {"hosts": "north,gpu12", "at_once": 2}, {"percent": 100}]}


def read(given, clusters=CLUSTERS):
    return rollout([given] * len(clusters), clusters, GROUPS)


def waves(given, clusters=CLUSTERS):
    return [(list(wave.clusters), wave.at_once) for wave in read(given, clusters).waves]


def test_waves_hold_the_clusters_of_their_groups_and_a_part_of_the_others():
    others = ["gpu04", "gpu05", "gpu06", "gpu08", "gpu09", "gpu10", "gpu11"]
    assert waves(GIVEN) == [(["gpu07"], 1), (["gpu01", "gpu02", "gpu03", "gpu12"], 2), (others, 7)]
    # Of 12 clusters, half are six: the canary, and five more. A wave of groups keeps its clusters for itself.
    halves = [{"hosts": "canary"}, {"percent": 50}, {"hosts": "north"}, {"percent": 100}]
    assert [names for names, _at_once in waves(GIVEN | {"waves": halves})] == [
        ["gpu07"],
        ["gpu04", "gpu05", "gpu06", "gpu08", "gpu09"],
        ["gpu01", "gpu02", "gpu03"],
        ["gpu10", "gpu11", "gpu12"],
    ]


def test_waves_that_a_limit_leaves_empty_are_left_out():
    assert waves(GIVEN, ["gpu01", "gpu02"]) == [(["gpu01", "gpu02"], 2)]
    assert waves(GIVEN | {"waves": [{"percent": 10}, {"percent": 100}]}, ["gpu01"]) == [(["gpu01"], 1)]


def test_what_is_not_given_has_a_default():
    found = read(GIVEN)
    assert (found.soak, found.back_to, found.folder) == (datetime.timedelta(minutes=30), "", "~/kubegpu-rollouts")
    assert read(GIVEN | {"soak": ""}).soak == datetime.timedelta(0)
    assert read(GIVEN | {"soak": "2h"}).soak == datetime.timedelta(hours=2)


def test_alerts_that_are_named_need_a_server_for_each_cluster():
    servers = dict.fromkeys(CLUSTERS, "https://p.example")
    given = [GIVEN | {"stop_when": ["Watchdog"]}] * len(CLUSTERS)
    assert rollout(given, CLUSTERS, GROUPS, servers).stop_when == ("Watchdog",)
    with refuses("no-server") as refused:
        rollout(given, CLUSTERS, GROUPS, servers | {"gpu03": ""})
    assert "kubegpu_usage of gpu03 has no url" in str(refused.value)
    # Those of schedulers count where they are read, and [] stands for none.
    assert (read(GIVEN).stop_when, read(GIVEN | {"stop_when": []}).stop_when) == (STOP_WHEN, ())


def test_a_digest_stands_for_what_the_inventory_says_and_not_for_who_is_in_a_group():
    assert read(GIVEN).digest == read(GIVEN, CLUSTERS[:9]).digest != read(GIVEN | {"soak": "2h"}).digest


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({}, ["missing"]),
        ({"waves": [{"percent": 100}]}, ["missing"]),
        (GIVEN | {"name": "../kai"}, ["not-a-name"]),
        (GIVEN | {"soak": "30"}, ["not-an-age"]),
        (GIVEN | {"soaks": "30m"}, ["unknown-key"]),
        (GIVEN | {"stop_when": "Watchdog"}, ["wrong-type"]),
        (GIVEN | {"stop_when": [1]}, ["wrong-type"]),
        (GIVEN | {"stop_when": ["Watchdog"]}, ["no-server"]),
        (GIVEN | {"stop_when": ["KubegpuShedulerSlow"]}, ["unknown-alert", "no-server"]),
        (GIVEN | {"stop_when": ["", "A "]}, ["not-a-name", "no-server"]),
        (GIVEN | {"waves": []}, ["in-no-wave"]),
        (GIVEN | {"waves": "canary"}, ["wrong-type"]),
        (GIVEN | {"waves": [{"hosts": "canary"}]}, ["in-no-wave"]),
        (GIVEN | {"waves": [{"hosts": "kanary"}, {"percent": 100}]}, ["unknown-hosts"]),
        (GIVEN | {"waves": [{"hosts": "offices"}, {"percent": 100}]}, ["no-clusters"]),
        (GIVEN | {"waves": [{"hosts": " , "}, {"percent": 100}]}, ["no-clusters"]),
        (GIVEN | {"waves": [{"hosts": "north"}, {"hosts": "gpu01"}, {"percent": 100}]}, ["in-several-waves"]),
        (GIVEN | {"waves": [{"hosts": "canary", "percent": 5}, {"percent": 100}]}, ["not-one-of"]),
        (GIVEN | {"waves": [{}, {"percent": 100}]}, ["not-one-of"]),
        (GIVEN | {"waves": [{"percent": 0}]}, ["out-of-range"]),
        (GIVEN | {"waves": [{"percent": 101}]}, ["out-of-range"]),
        (GIVEN | {"waves": [{"percent": 100, "at_once": -1}]}, ["out-of-range"]),
    ],
)
def test_what_cannot_be_is_refused(given, codes):
    with refuses(*codes):
        read(given)


def test_a_rollout_is_the_same_for_all_clusters():
    with refuses("different-rollouts") as caught:
        rollout([GIVEN, GIVEN, {}], ["gpu01", "gpu07", "gpu02"], GROUPS)
    assert "is another one on gpu02 than on gpu01" in caught.value.message
