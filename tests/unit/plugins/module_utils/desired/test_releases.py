# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.variables import SHARED_SCHEDULER, TENANTS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.validation import desired_state
from ansible_collections.kubegpu.tenancy.tests.unit.clock import TODAY
from ansible_collections.kubegpu.tenancy.tests.unit.desired import ENDED, ML, OLD, WEB, old, plan, problems, read
from ansible_collections.kubegpu.tenancy.tests.unit.growth import MOST, growth
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, sentences

RACE = "#1103: when pods that share GPUs start at once, a GPU's reservation can be taken away while it is used"
NO_SUPPORT = "end-of-support: upstream has corrected nothing in it since the end of 2026-03"


def hazards(*tenants, running=None, today=TODAY, **variables):
    """The desired state of a cluster on which these tenants may run already."""
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", TENANTS: list(tenants)}
    return desired_state(existing | variables, "dc1", today, running)


def refused_for(*tenants, **more):
    with pytest.raises(TenancyError) as caught:
        hazards(*tenants, **more)
    return caught.value.problems


def test_a_hazard_that_touches_and_that_nobody_accepted_is_refused_by_its_path():
    (problem,) = sentences(problems([WEB, old()]))
    assert problem.startswith(f"{TENANTS}[1].scheduler.version: v0.12.0 is refused. {RACE}")
    assert 'Use v0.12.22, the nearest release without, or accept it with accept_hazards: ["#1103", "#1673"].' in problem
    # By the chart's values, too.
    plain = OLD | {"gpu_sharing": False}
    assert plan([old(scheduler=plain)])
    assert sentences(problems([old(scheduler=plain | {"values": {"global": {"gpuSharing": True}}})])) == [
        problem.replace(f"{TENANTS}[1]", f"{TENANTS}[0]")
    ]


def test_what_is_not_to_be_installed_is_not_refused():
    assert plan([old(state="absent"), old("b", state="paused")])
    assert hazards(old(state="absent")).accepted_hazards == {}
    existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", TENANTS: [old(), old("b", ENDED)]}
    removed = desired_state(existing, "dc1", TODAY, running={}, installs=False)
    assert (len(removed.tenants), removed.unsupported) == (2, {})


def test_the_shared_scheduler_is_for_pods_of_others():
    plain = {"name": "kai", "version": "v0.12.0"}
    assert plan([old(scheduler=plain)])
    (problem,) = problems([WEB], None, plain)
    assert problem.text.startswith(f"{SHARED_SCHEDULER}.version: v0.12.0 is refused. #104: its pod webhook stops every pod ")
    cluster = read([WEB], None, plain | {"accept_hazards": ["#104"]})
    assert cluster.data()["shared_scheduler"]["accept_hazards"] == ["#104"]
    assert cluster.accepted_hazards == {
        SHARED_SCHEDULER: ["#104: its pod webhook stops every pod of the cluster while it does not answer"]
    }


def test_parts_of_gpus_among_others_pods_are_for_those_who_are_trusted_or_accepted():
    scheduler = {"name": "kai", "version": "v0.16.8", "gpu_sharing": True}
    entry = {"trust": "partial", "gpu_nodes": {"names": ["n1"], "shared_gpus": 2}}
    (problem,) = sentences(refused_for(old(scheduler=scheduler, **entry)))
    assert problem.startswith(f"{TENANTS}[0].scheduler.version: v0.16.8 is refused. open-gpus: which GPU a pod shares is said by")
    assert problem.endswith('No later release that is known is without: accept it with accept_hazards: ["open-gpus"].')
    accepted = hazards(old(scheduler=scheduler | {"accept_hazards": ["open-gpus"]}, **entry)).accepted_hazards
    assert [hazard.partition(":")[0] for hazard in accepted["a"]] == ["open-gpus"]
    for other in ({"trust": "high"}, {"gpu_nodes": {"names": ["n1"]}}, {"scheduler": scheduler | {"gpu_sharing": False}}):
        assert hazards(old(**({"scheduler": scheduler} | entry | other))).accepted_hazards == {}


def test_what_is_accepted_goes_on_and_is_told():
    cluster = hazards(
        old(scheduler=ENDED | {"gpu_sharing": True, "accept_hazards": ["#1103", "#1673", "#104", "end-of-support"]})
    )
    assert [hazard.partition(",")[0] for hazard in cluster.data()["accepted_hazards"]["a"]] == [
        RACE.partition(",")[0],
        "#1673: two reservation pods can take two GPUs for pods that share one",
        NO_SUPPORT,
    ]
    assert cluster.unsupported == {}
    assert tuple(tenants_from(cluster.data()["tenants"])) == cluster.tenants


def seen(name, version, state="running"):
    return {"name": name, "scheduler_version": version, "state": state}


@pytest.mark.parametrize(
    ("running", "expected"),
    [
        # Nothing is known of what runs.
        (None, True),
        ({"tenants": [seen("a", "v0.13.1")]}, True),
        # Paused, so that nothing shows which one it has.
        ({"tenants": [seen("a", None, "paused")]}, True),
        ({}, False),
        ({"tenants": [seen("a", "v0.12.0")]}, False),
        ({"tenants": [seen("a", None, "absent")]}, False),
        ({"tenants": [seen("b", "v0.13.1")]}, False),
    ],
)
def test_a_release_without_support_may_go_on_and_is_not_installed(running, expected):
    tenant = old(scheduler=ENDED)
    if expected:
        cluster = hazards(tenant, running=running)
        assert (cluster.unsupported, cluster.accepted_hazards) == ({"a": [NO_SUPPORT]}, {})
    else:
        (problem,) = sentences(refused_for(tenant, running=running))
        assert problem.startswith(f"{TENANTS}[0].scheduler.version: v0.13.1 is refused. {NO_SUPPORT}. Use v0.14.0, ")
    assert hazards(tenant, running=running, today=datetime.date(2026, 3, 31)).unsupported == {}


@pytest.mark.parametrize(
    ("running", "expected"), [({"shared_scheduler": "v0.13.1"}, True), ({"shared_scheduler": "unknown"}, True), ({}, False)]
)
def test_a_shared_release_without_support_may_go_on_too(running, expected):
    shared = {SHARED_SCHEDULER: ENDED}
    if expected:
        assert hazards(running=running, **shared).unsupported == {SHARED_SCHEDULER: [NO_SUPPORT]}
    else:
        assert placed(refused_for(running=running, **shared)) == [f"{SHARED_SCHEDULER}.version: hazard-not-accepted"]


def test_tenants_that_a_run_leaves_alone_are_not_installed_by_it():
    tenants = [old(scheduler=ENDED), old("b", ENDED)]
    assert len(refused_for(*tenants, running={})) == 2
    assert placed(refused_for(*tenants, running={}, kubegpu_only="b", kubegpu_shared_scheduler=ENDED)) == [
        f"{TENANTS}[1].scheduler.version: hazard-not-accepted"
    ]


def test_what_runs_is_looked_up_once():
    def prepare(count):
        tenants = [ML | {"name": f"t{number}", "gpu_nodes": {"names": [f"n{number}"]}, "queues": []} for number in range(count)]
        running = [{"name": f"t{number}", "scheduler_version": "v0.16.8", "state": "running"} for number in range(count)]
        only = [f"t{number}" for number in range(count)]
        existing = {"kubegpu_cluster_provider": "existing", "kubegpu_kubeconfig": "/x", "kubegpu_only": only}
        return existing | {TENANTS: tenants}, {"tenants": running}

    def work(given):
        assert len(desired_state(given[0], "dc1", TODAY, given[1]).selected) == len(given[0][TENANTS])

    assert growth(prepare, work, 400) < MOST
