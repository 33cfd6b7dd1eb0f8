# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Refused, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.facts import RELEASES
from ansible_collections.kubegpu.tenancy.plugins.module_utils._schedulers.volcano.validation import (
    check_pod_security,
    read_queues,
    release,
)
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed


@pytest.mark.parametrize(("version", "line"), [("1.10.0", (1, 10)), ("v1.15.1", (1, 15)), ("1.12.4", (1, 12))])
def test_a_release_by_its_version(version, line):
    assert release(version) is RELEASES[line]


@pytest.mark.parametrize(
    "version", ["", "1.9.1", "1.16.0", "1.10", "latest", "1.10.0-alpha", "1.10.0\n", "\uff11.10.0", "1.1\u0660.0"]
)
def test_a_release_that_is_not_known_is_refused_by_its_lines(version):
    with pytest.raises(TenancyError, match=r"no release of Volcano that is known here, 1\.10\.0 to 1\.15\.x") as caught:
        release(version)
    assert placed(caught.value.problems) == ["version: unknown-release"]


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_what_pod_security_would_refuse_is_refused_before(level):
    with pytest.raises(TenancyError, match=r"Volcano up to 1\.11 mounts a folder of its node") as caught:
        check_pod_security("1.11.2", level)
    assert placed(caught.value.problems) == ["scheduler.version: refused-by-pod-security"]
    for version, at in (("1.12.0", level), ("1.10.0", None), ("1.10.0", "privileged"), ("0.1", level)):
        check_pod_security(version, at)


@pytest.mark.parametrize(
    ("queue", "problem"),
    [
        ({"name": "default"}, "queues.default: reserved-name"),
        ({"name": "root"}, "queues.root: reserved-name"),
        ({"name": "a", "priority": 1}, "queues.a.priority: not-applicable"),
        ({"name": "a", "display_name": "A"}, "queues.a.display_name: not-applicable"),
        ({"name": "a", "preempt_min_runtime": "5m"}, "queues.a.preempt_min_runtime: not-applicable"),
        ({"name": "a", "reclaim_min_runtime": "5m"}, "queues.a.reclaim_min_runtime: not-applicable"),
        ({"name": "a", "cpu": {"over_quota_weight": 2}}, "queues.a.cpu.over_quota_weight: not-applicable"),
        ({"name": "a", "gpu": {"quota": 0.5}}, "queues.a.gpu: not-applicable"),
        ({"name": "a", "gpu": {"limit": 1.5}}, "queues.a.gpu: not-applicable"),
        ({"name": "a", "cpu": {"limit": 0}}, "queues.a.cpu.limit: not-applicable"),
        ({"name": "a", "memory": {"limit": 0}}, "queues.a.memory.limit: not-applicable"),
        ({"name": "A"}, "queues.A: not-a-name"),
        ({"name": "a", "gpu": {"limit": 1, "quota": 2}}, "queues.a.gpu.limit: limit-below-quota"),
    ],
)
def test_what_volcanos_queues_cannot_say_is_refused_by_its_path(queue, problem):
    with pytest.raises(Refused) as caught:
        read_queues([queue])
    assert placed(caught.value.problems) == [problem]


def test_children_are_refused():
    with pytest.raises(Refused) as caught:
        read_queues([{"name": "a", "children": [{"name": "b"}]}])
    assert placed(caught.value.problems) == ["queues.b: queues-too-deep"]


def test_queues_of_a_release_with_other_rules_are_refused_and_no_queues_are_none():
    with pytest.raises(TenancyError, match=r"Volcano 1\.15\.1 gives back by other rules than up to 1\.12") as caught:
        read_queues([{"name": "a"}], "1.15.1")
    assert placed(caught.value.problems) == ["queues: not-applicable"]
    assert read_queues([], "1.15.1") == {}
    assert list(read_queues([{"name": "a"}], "1.12.4")) == ["a"]


def test_what_they_can_say_is_taken():
    tree = [{"name": "a", "gpu": {"quota": 2, "limit": 4}, "cpu": {"limit": "500m"}}, {"name": "b", "gpu": {"limit": 0}}]
    assert list(read_queues(tree)) == ["a", "b"]
    assert read_queues([]) == {}
