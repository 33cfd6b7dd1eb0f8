# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.modules import nccl_info as module
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.runs import make_run

LINK = "a:1:2 [0] NCCL INFO Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA"


def pod(name, job="train"):
    metadata = {"name": name, "namespace": "ml", "labels": {"job": job}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {}}


def read(api):
    return module.reconcile(make_run({"namespace": "ml", "label_selector": "job=train", "container": None}, api))


def test_each_pod_of_the_job_is_judged_by_itself():
    api = InMemoryApi([pod("b"), pod("a"), pod("other", "else")])
    api.pod_logs = {"a": LINK}
    result = read(api)
    assert [(row["name"], row["transport"]) for row in result["pods"]] == [("a", "gdr"), ("b", "unknown")]
    assert (result["changed"], result["unread"], api.writes) == (False, [], [])
    returned = yaml.safe_load(module.RETURN)
    assert result.keys() - {"changed"} == returned.keys()
    assert result["pods"][0].keys() == returned["pods"]["contains"].keys()


def test_a_log_that_cannot_be_read_is_that_pods_alone():
    api = InMemoryApi([pod("a"), pod("b")])
    api.fail("logs", "Pod", ApiError("forbidden", 403))
    result = read(api)
    assert len(result["pods"]) == 1
    assert [text.split(":")[0] for text in result["unread"]] in (["pod a"], ["pod b"])
