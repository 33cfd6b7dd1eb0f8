# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import TENANTS
from ansible_collections.kubegpu.tenancy.tests.unit.desired import KAI, ML, WEB, WORKERS, plan, problems, read, sharing
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses, sentences


def test_more_nodes_than_there_are():
    tenants = [ML, WEB | {"gpu_nodes": {"names": ["a"]}}, {"name": "c", "trust": "zero", "gpu_nodes": {"labels": {"x": "y"}}}]
    assert sentences(problems(tenants, WORKERS)) == [
        f"{TENANTS}: the tenants ask for 3 nodes with GPUs (ml 1, web 1, c 1), the cluster has 2."
    ]
    assert len(plan(tenants)) == 3


def test_nodes_are_shared_when_both_say_so():
    assert plan([sharing("a", 2), sharing("b", 2)], WORKERS)
    alone = sharing("b", 2) | {"gpu_nodes": {"names": ["n1"]}}
    assert placed(problems([sharing("a", 2), alone])) == [f"{TENANTS}[1].gpu_nodes.names: nodes-claimed-twice"]
    assert placed(problems([sharing("a", 2, queues=[{"name": "q", "gpu": {"quota": 3}}])], WORKERS)) == [
        f"{TENANTS}[0].queues: quota-above-gpus"
    ]


@pytest.mark.parametrize(("gpu_nodes", "have"), [({"count": 1}, 4), ({"names": ["a"]}, 4), (None, 0)])
def test_more_gpus_than_there_are(gpu_nodes, have):
    tenant = (
        WEB | {"scheduler": KAI, "queues": [{"name": "q", "gpu": {"quota": 5}}]} | ({"gpu_nodes": gpu_nodes} if gpu_nodes else {})
    )
    assert sentences(problems([tenant], WORKERS)) == [
        f"{TENANTS}[0].queues: queue q is promised 5 GPUs, the tenant has {have} at most."
    ]


def test_the_layout_is_checked_too():
    with refuses("too-few-gpus"):
        plan([WEB], [{"gpus": [0, 1, 2]}, {"count": 4}, {}], gpus=6)


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ([4], ["[0]: wrong-type"]),
        ([{"gpus": "all"}], ["[0].gpus: wrong-type"]),
        # By the role, it would be the one GPU of that index.
        (
            [{"gpus": 8}],
            ["[0].gpus: wrong-type", "[0].gpus: gpus-as-a-count"],
        ),
        ([{"gpu": [0, 1]}], ["[0].gpu: unknown-key"]),
        ([{"count": -4}, {"count": 12}], ["[0].count: out-of-range"]),
        ([{"count": "4"}], ["[0].count: wrong-type"]),
        ([{"gpus": [0, 0]}], ["[0].gpus[1]: gpu-given-twice"]),
        ([{"gpus": [0]}, {"gpus": ["0"]}], ["[1].gpus[0]: gpu-given-twice"]),
        ([{"gpus": [0]}, {"gpus": ["00"]}], ["[1].gpus[0]: gpu-given-twice"]),
        ([{"gpus": ["GPU-1b7d"]}, {"gpus": ["GPU-1B7D"]}], ["[1].gpus[0]: gpu-given-twice"]),
        ([{"gpus": [True]}], ["[0].gpus[0]: not-a-gpu"]),
        ([{"gpus": [-1]}], ["[0].gpus[0]: not-a-gpu"]),
        ([{"gpus": ["", None]}], ["[0].gpus[0]: not-a-gpu", "[0].gpus[1]: not-a-gpu"]),
        ([{"gpus": [0], "count": 1}], ["[0]: not-exactly-one"]),
        ([{"labels": {"a b": 1}}], ["[0].labels.a b: not-a-label"]),
    ],
)
def test_what_is_no_layout(workers, expected):
    assert placed(problems([WEB], workers)) == [f"nvkind_workers{problem}" for problem in expected]


def test_the_layouts_that_the_role_takes():
    uuid = "GPU-1b7d3f2a-0c55-5d0e-9c1f-2f8f3c1f6a10"
    workers = [
        {"gpus": [0, "1"], "labels": {"pool": "a", "size": 2}},
        {"gpus": [uuid]},
        {"count": 3},
        {"count": 0},
        {"gpus": []},
        {},
    ]
    assert read([WEB], workers, gpus="6").workers == (2, 1, 3, 0, 0, 0)
