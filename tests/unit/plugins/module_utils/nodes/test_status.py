# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import gpus_of, untolerated

DEDICATED = {"key": "team", "value": "ml", "effect": "NoSchedule"}
EVICTING = {"key": "broken", "effect": "NoExecute"}


def test_a_pod_holds_its_sum_or_its_largest_init_container():
    def container(gpus):
        return {"resources": {"limits": {"nvidia.com/gpu": gpus}}}

    assert gpus_of({"containers": [container("1"), container("2"), {}]}) == 3
    assert gpus_of({"containers": [container("1")], "initContainers": [container("2"), container("1")]}) == 2
    assert gpus_of({"containers": [{}]}) == 0


@pytest.mark.parametrize(
    ("tolerations", "left"),
    [
        ([], ["team=ml:NoSchedule", "broken:NoExecute"]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], ["broken:NoExecute"]),
        ([{"key": "team", "operator": "Exists"}], ["broken:NoExecute"]),
        ([{"key": "team", "value": "ml"}, {"key": "broken"}], []),
        ([{"key": "team", "operator": "Equal", "value": "web"}, {"key": "broken", "value": ""}], ["team=ml:NoSchedule"]),
        ([{"key": "team", "operator": "Gt", "value": "ml"}, {"key": "broken"}], ["team=ml:NoSchedule"]),
        ([{"key": "team", "value": "ml", "effect": "NoExecute"}, {"key": "broken"}], ["team=ml:NoSchedule"]),
    ],
)
def test_taints_that_keep_pods_away(tolerations, left):
    taints = [DEDICATED, EVICTING, {"key": "busy", "effect": "PreferNoSchedule"}]
    assert untolerated({"spec": {"taints": taints}}, tolerations) == left
    assert untolerated({"spec": {}}, tolerations) == []
