# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.validation import (
    overcommitted_quotas,
    parse,
    refuse_queues_in_use,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._queues.values import fields, written
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, sentences

TREE = [
    {
        "name": "ml",
        "gpu": {"quota": 4, "limit": 4},
        "children": [
            {"name": "training", "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2}},
            {"name": "notebooks", "gpu": {"quota": 1, "limit": 2}, "priority": 50},
        ],
    }
]
FLAT = [
    {"name": "training", "parent": "ml", "gpu": {"quota": 3, "limit": 4, "over_quota_weight": 2}},
    {"name": "notebooks", "parent": "ml", "gpu": {"quota": 1, "limit": 2}, "priority": 50},
    {"name": "ml", "gpu": {"quota": 4, "limit": 4}},
]


def problems(data, levels=None, version="v0.12.0"):
    with pytest.raises(TenancyError) as caught:
        parse(data, levels, version)
    return caught.value.problems


def test_tree_and_flat_list_say_the_same():
    assert parse(TREE) == parse(FLAT)
    assert list(parse(FLAT)) == ["ml", "training", "notebooks"]


@pytest.mark.parametrize(
    ("data", "where", "code"),
    [
        ({"name": "q"}, "queues", "wrong-type"),
        (["q"], "queues[0]", "wrong-type"),
        ([{"name": "Q"}], "queues.Q", "not-a-name"),
        ([{"name": "q" * 64}], f"queues.{'q' * 64}", "not-a-name"),
        ([{"name": "a", "children": [{"name": "a"}]}], "queues.a.a", "same-name"),
        ([{"name": "q", "gpus": 1}], "queues.q.gpus", "unknown-key"),
        ([{"name": "q", "gpu": 4}], "queues.q.gpu", "wrong-type"),
        ([{"name": "q", "gpu": {"max": 4}}], "queues.q.gpu.max", "unknown-key"),
        ([{"name": "q", "gpu": {"quota": True}}], "queues.q.gpu.quota", "not-an-amount"),
        ([{"name": "q", "gpu": {"limit": -1}}], "queues.q.gpu.limit", "not-an-amount"),
        ([{"name": "q", "gpu": {"over_quota_weight": "unlimited"}}], "queues.q.gpu.over_quota_weight", "not-an-amount"),
        ([{"name": "q", "gpu": {"quota": 4, "limit": 2}}], "queues.q.gpu.limit", "limit-below-quota"),
        ([{"name": "q", "gpu": {"quota": "unlimited", "limit": 2}}], "queues.q.gpu.limit", "limit-below-quota"),
        ([{"name": "q", "cpu": {"quota": "8 cores"}}], "queues.q.cpu.quota", "not-an-amount"),
        ([{"name": "q", "memory": {"quota": 64}}], "queues.q.memory.quota", "not-an-amount"),
        ([{"name": "q", "priority": "high"}], "queues.q.priority", "not-a-whole-number"),
        ([{"name": "q", "display_name": 5}], "queues.q.display_name", "wrong-type"),
        ([{"name": "q", "preempt_min_runtime": "5"}], "queues.q.preempt_min_runtime", "not-a-duration"),
        ([{"name": "q", "reclaim_min_runtime": "-5m"}], "queues.q.reclaim_min_runtime", "not-a-duration"),
        ([{"name": "q", "parent": "p"}], "queues.q.parent", "unknown-parent"),
        ([{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}], "queues.a.parent", "parents-in-a-circle"),
        ([{"name": "a", "children": [{"name": "b", "parent": "a"}]}], "queues.a.b.parent", "not-a-parent"),
        ([{"name": "q", "cpu": {"limit": 10**30}}], "queues.q.cpu.limit", "not-an-amount"),
        ([{"name": "q", "cpu": {"limit": 2**63}}], "queues.q.cpu.limit", "not-an-amount"),
        ([{"name": "q", "memory": {"limit": f"{2**62}P"}}], "queues.q.memory.limit", "not-an-amount"),
        ([{"name": "q", "gpu": {"limit": "1e999990"}}], "queues.q.gpu.limit", "not-an-amount"),
        ([{"name": "q", "gpu": {"quota": "NaN"}}], "queues.q.gpu.quota", "not-an-amount"),
        ([{"name": "q", "gpu": {"quota": float("nan")}}], "queues.q.gpu.quota", "not-an-amount"),
        ([{"name": "q", "gpu": {"quota": "1" * 5000}}], "queues.q.gpu.quota", "not-an-amount"),
        ([{"name": "q", "gpu": {"quota": 16**5000}}], "queues.q.gpu.quota", "not-an-amount"),
        ([{"name": "q", "priority": 10**30}], "queues.q.priority", "not-a-whole-number"),
        ([{"name": "q", "preempt_min_runtime": "٣s"}], "queues.q.preempt_min_runtime", "not-a-duration"),
        ([{"name": "q", None: 1}], "queues.q.None", "unknown-key"),
        ([{"name": "q", "gpu": {None: 1, 2: 3}}], "queues.q.gpu.2", "unknown-key"),
    ],
)
def test_refused(data, where, code):
    assert f"{where}: {code}" in placed(problems(data))


@pytest.mark.parametrize("deep", [60, 300, 100_000])
def test_a_tree_has_an_end(deep):
    tree = [{"name": "q"}]
    for number in range(deep):
        tree = [{"name": f"q{number}", "children": tree}]
    assert placed(problems(tree)) == ["queues: nested-too-deep"]
    tree = [{"name": "q"}]
    tree[0]["children"] = tree
    assert placed(problems(tree)) == ["queues: nested-too-deep"]


def test_what_is_accepted_can_be_shown_and_compared():
    for amounts in ({"cpu": {"limit": 9 * 10**15}}, {"memory": {"limit": "9P"}}, {"gpu": {"limit": 2**63 - 1}}):
        queue = parse([{"name": "q"} | amounts])["q"]
        assert written(queue)["name"] == "q"
        assert fields(queue.spec)


def test_a_refusal_repeats_no_megabytes():
    long = "x" * 10**6
    for given in (long, [long], [{"name": long}], [{"name": "q", long: 1}], [{"name": "q", "gpu": {"quota": long}}]):
        assert max(len(problem.text) for problem in problems(given)) < 1000


@pytest.mark.parametrize("shape", ["chain", "comb", "wide"])
def test_queues_are_not_compared_with_each_other(shape):
    parents = {"chain": lambda n: f"q{n - 1}", "comb": lambda n: f"q{n - n % 2 - 2}", "wide": lambda _n: "q0"}[shape]

    def prepare(count):
        return [{"name": "q0"}] + [{"name": f"q{n}", "parent": "q0" if n < 3 else parents(n)} for n in range(1, count)]

    def work(given):
        with contextlib.suppress(TenancyError):
            parse(given, 2)

    assert growth(prepare, work, 500) < MOST


def test_everything_wrong_is_reported_at_once():
    assert len(problems([{"name": "q", "gpu": {"quota": -1}, "cpu": {"limit": "x"}, "colour": "red"}])) == 3


def test_levels():
    assert parse(TREE, 2)
    assert parse([{"name": "q"}], None)
    assert placed(problems([{"name": "q"}], 2)) == ["queues.q: queue-without-child"]
    deep = [{"name": "a", "children": [{"name": "b", "children": [{"name": "c"}]}]}]
    assert sentences(problems(deep, 2)) == ["queues.c: is on level 3, but KAI Scheduler v0.12.0 knows 2 levels only."]


@pytest.mark.parametrize(
    ("own", "children", "sums"),
    [
        (3, [1, 2], None),
        (2, [1, 2], "sum up to 3, its own is 2"),
        ("unlimited", ["unlimited"], None),
        (8, ["unlimited"], "sum up to unlimited, its own is 8"),
        (0, [0, 0.5], "sum up to 0.5, its own is 0"),
    ],
)
def test_quotas_of_children_above_their_parents(own, children, sums):
    tree = [
        {"name": "r", "gpu": {"quota": own}, "children": [{"name": f"c{n}", "gpu": {"quota": q}} for n, q in enumerate(children)]}
    ]
    problems = overcommitted_quotas(parse(tree))
    assert sentences(problems) == ([f"queues.r.gpu.quota: the quotas of its children {sums}."] if sums else [])


def test_cpu_and_memory_that_nobody_divides_keep_no_pod_waiting():
    """Where nothing is written of them, their quotas are unlimited, regardless of the limit; and a promise is only what is written."""
    tree = [
        {"name": "r", "gpu": {"quota": 4}, "cpu": {"quota": 8}, "children": [{"name": "c", "cpu": {"limit": 2}, "memory": {}}]}
    ]
    queues = parse(tree)
    quotas = {name: [amounts["quota"] for amounts in queue.spec["resources"].values()] for name, queue in queues.items()}
    assert quotas == {"r": [4, 8000, -1], "c": [0, -1, -1]}
    assert overcommitted_quotas(queues) == []
    assert list(map(written, queues.values())) == [
        {"name": "r", "gpu": {"quota": 4}, "cpu": {"quota": 8}},
        {"name": "c", "parent": "r", "cpu": {"limit": 2}},
    ]
    written_out = [{"name": "r", "cpu": {"quota": "unlimited", "limit": 2}}]
    assert parse(written_out) == parse([{"name": "r", "cpu": {"limit": 2}}])
    (problem,) = sentences(overcommitted_quotas(parse([tree[0] | {"children": [{"name": "c", "cpu": {"quota": 9}}]}])))
    assert problem.startswith("queues.r.cpu.quota: the quotas of its children sum up to 9")


def test_quotas_that_a_limit_above_them_keeps_from_being_used_up_are_named():
    children = [{"name": name, "gpu": {"quota": 3}} for name in ("a", "b")]
    assert sentences(overcommitted_quotas(parse([{"name": "r", "gpu": {"quota": 2, "limit": 4}, "children": children}]))) == [
        "queues.r.gpu.quota: the quotas of its children sum up to 6, its own is 2, and its limit, 4, keeps them from ever being used up."
    ]
    (within,) = sentences(overcommitted_quotas(parse([{"name": "r", "gpu": {"quota": 2, "limit": 6}, "children": children}])))
    assert within.endswith("its own is 2.")
    # Also where the parent's own quota is unlimited, because none is written.
    row = {"name": "r", "gpu": {"quota": 1}, "children": [{"name": "a", "cpu": {"quota": 8}}]}
    assert sentences(overcommitted_quotas(parse([row | {"cpu": {"limit": 4}}]))) == [
        "queues.r.cpu.limit: the quotas of its children sum up to 8, and 4 keeps them from ever being used up."
    ]
    assert overcommitted_quotas(parse([row | {"cpu": {"limit": 8}}])) == []


def test_queues_in_use_are_named_with_ten_pods_at_most():
    refuse_queues_in_use({}, "", "")
    busy = {"b": [f"ns/p{n:02}" for n in range(12)], "a": ["ns/x"]}
    with pytest.raises(TenancyError) as caught:
        refuse_queues_in_use(busy, "pods in it have not ended", "End them first.")
    assert sentences(caught.value.problems) == [
        f"queues.b: is not removed, because pods in it have not ended: {', '.join(f'ns/p{n:02}' for n in range(10))} and 2 more.",
        "queues.a: is not removed, because pods in it have not ended: ns/x.",
    ]
    assert caught.value.message.endswith("\nEnd them first.")
