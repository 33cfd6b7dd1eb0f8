# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._engine import reading
from ansible_collections.kubegpu.tenancy.plugins.modules import tenant_workloads_info as module

PARAMS = {name: option.get("default") for name, option in module.ARGUMENT_SPEC.items()}
PARAMS |= {"kubeconfigs": "/k", "kubeconfig": "/host.yml"}
PARTS = {"scheduler": "kai_scheduler_info", "queues": "kai_queues_info", "pods": "kai_pending_info"}


class Readers:
    """What takes the place of the parts: notes the options of each call, and answers as it is told."""

    def __init__(self, monkeypatch) -> None:
        self.calls, self.answers = [], {}
        for what, name in PARTS.items():
            spec = getattr(reading, name).ARGUMENT_SPEC
            monkeypatch.setattr(reading, name, SimpleNamespace(ARGUMENT_SPEC=spec, reconcile=self._part(what)))

    def _part(self, what):
        def reconcile(run):
            self.calls.append((what, run.params))
            answer = self.answers.get(what, {"what": what})
            if isinstance(answer, Exception):
                raise answer
            return answer

        return reconcile

    def read(self, *names, **params):
        run = Run(PARAMS | {"names": list(names)} | params)
        run.part = lambda params, kubeconfig: Run(params)
        return {one["name"]: one["parts"] for one in module.reconcile(run)["tenants"]}


@pytest.fixture
def readers(monkeypatch):
    return Readers(monkeypatch)


def test_all_that_is_asked_for_is_read_within_the_time_of_the_tenant(readers):
    assert readers.read("ml") == {"ml": {what: {"what": what} for what in PARTS}}
    assert [0 < params["timeout"] <= 60 for _what, params in readers.calls] == [True] * 3
    (pods,) = [params for what, params in readers.calls if what == "pods"]
    assert (pods["host_kubeconfig"], pods["host_namespace"]) == ("/host.yml", "tenant-ml")


def test_one_that_shares_the_scheduler_has_none_of_its_own(readers):
    assert readers.read("ml", "web", sharing=["web"], read=["queues", "pods"]) == {
        "ml": {"queues": {"what": "queues"}, "pods": {"what": "pods"}},
        "web": {"pods": {"what": "pods"}},
    }


@pytest.mark.parametrize("failure", [ApiError("It does not answer."), KeyError("items")])
def test_what_cannot_be_read_is_told_and_stops_nothing_else(readers, failure):
    readers.answers["scheduler"] = failure
    found = readers.read("ml")["ml"]
    assert (found["scheduler"]["failed"], found["queues"]) == (True, {"what": "queues"})
    assert ("It does not answer." in found["scheduler"]["msg"]) is isinstance(failure, ApiError)


def test_a_tenant_that_takes_too_long_is_not_waited_for(readers):
    found = readers.read("ml", timeout=0)["ml"]
    assert {what: part["msg"] for what, part in found.items()} == dict.fromkeys(PARTS, "All of the 0 s for the tenant are over.")
    assert readers.calls == []
