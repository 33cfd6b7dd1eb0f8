# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.kubegpu.tenancy.plugins.module_utils._probe_gpu.plan import NODE_NOTE, Settings, manifest


def test_the_pod_asks_for_one_gpu_of_its_node():
    pod = manifest(Settings("probe", "image", {}, "nvidia", [{"operator": "Exists"}]), "w1")
    spec = pod["spec"]
    assert pod["metadata"]["annotations"] == {NODE_NOTE: "w1"}
    assert (spec["runtimeClassName"], spec["tolerations"]) == ("nvidia", [{"operator": "Exists"}])
    assert spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    # The scheduler has to count the GPU.
    assert "nodeName" not in spec
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["w1"]}]}]


def test_no_runtime_class_and_no_tolerations():
    spec = manifest(Settings("probe", "image", {}, "", []), "w1")["spec"]
    assert "runtimeClassName" not in spec
    assert spec["tolerations"] == []
