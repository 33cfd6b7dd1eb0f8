# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all kinds of probes have in common; each is tested beside its code, in module_utils/probe."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import Refused
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine.probe import OPTIONS
from ansible_collections.kubegpu.tenancy.plugins.modules import probe
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed, refuses
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import node

DOCUMENTED = yaml.safe_load(probe.DOCUMENTATION)["options"]


def lines(option):
    return " ".join(DOCUMENTED[option]["description"])


def test_every_kind_is_described_and_shown():
    assert list(OPTIONS) == DOCUMENTED["kind"]["choices"]
    assert {
        task["kubegpu.tenancy.probe"]["kind"] for task in yaml.safe_load(probe.EXAMPLES) if "kubegpu.tenancy.probe" in task
    } == set(OPTIONS)
    assert [kind for kind in OPTIONS if f"V({kind})" not in lines("kind")] == []


def test_examples_give_options_that_their_kind_takes():
    given = [task["kubegpu.tenancy.probe"] for task in yaml.safe_load(probe.EXAMPLES) if "kubegpu.tenancy.probe" in task]
    assert [one for one in given if one.keys() - OPTIONS[one["kind"]].keys() - {"kind", "kubeconfig"}] == []


@pytest.mark.parametrize("kind", OPTIONS)
def test_defaults_are_documented(kind):
    assert OPTIONS[kind].keys() <= probe.ARGUMENT_SPEC.keys() == DOCUMENTED.keys()
    told = [str(OPTIONS[kind][option]) in lines(option) for option in ("namespace", "timeout") if option in OPTIONS[kind]]
    assert False not in told


@pytest.mark.parametrize("option", sorted(probe.ARGUMENT_SPEC.keys() - {"kind"}))
def test_an_option_says_which_kinds_take_it(option):
    taking = {kind for kind, options in OPTIONS.items() if option in options}
    assert taking
    assert taking == set(OPTIONS) or [kind for kind in taking if f"V({kind})" not in lines(option)] == []


@pytest.mark.parametrize("kind", OPTIONS)
def test_options_of_other_kinds_are_refused(kind):
    every = dict.fromkeys(probe.ARGUMENT_SPEC, "x") | {"checks": []}
    with pytest.raises(Refused) as caught:
        probe.reconcile(Run(every | {"kind": kind}))
    others = probe.ARGUMENT_SPEC.keys() - OPTIONS[kind].keys() - {"kind"}
    assert set(placed(caught.value.problems)) == {f"{option}: not-applicable" for option in others}


@pytest.mark.parametrize(
    ("kind", "needed"),
    [
        ("image_pull", ["images"]),
        ("connectivity", ["network", "tenant", "tenant_kubeconfig"]),
        ("shared_scheduler", ["tenant", "tenant_kubeconfig"]),
    ],
)
def test_options_that_a_kind_needs_are_asked_for(kind, needed):
    with pytest.raises(Refused) as caught:
        probe.reconcile(Run({"kind": kind}))
    assert placed(caught.value.problems) == [f"{option}: missing" for option in needed]


def test_checks_of_other_kinds_are_refused():
    with refuses("not-a-choice"):
        probe.reconcile(Run({"kind": "kai_scheduling", "checks": ["gpu", "reclaim", "quota"]}))


SERVICE = {"name": "registry", "namespace": "registry", "labels": {}, "ports": [443]}
NEEDED = {
    "image_pull": {"images": ["busybox"]},
    "connectivity": {"tenant": "ml", "tenant_kubeconfig": "/x", "network": {"egress": [SERVICE]}},
    "shared_scheduler": {"tenant": "ml", "tenant_kubeconfig": "/x"},
    "sandbox": {"tenant": "ml", "runtime_class": "kata"},
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_check_mode_tries_nothing_and_returns_what_is_documented(kind):
    returned, api = yaml.safe_load(probe.RETURN), InMemoryApi([node("n1", gpus=1)])
    result = probe.reconcile(Run({"kind": kind, **NEEDED.get(kind, {})}, check_mode=True, kube=api))
    assert result.keys() - returned.keys() == {"changed"}
    assert result["results"] or kind == "kai_scheduling"
    assert {one["verdict"] for one in result["results"]} <= {"not_tried"}
    assert [one for one in result["results"] if not one.keys() <= returned["results"]["contains"].keys()] == []
    assert (result["changed"], api.writes) == (False, [])
