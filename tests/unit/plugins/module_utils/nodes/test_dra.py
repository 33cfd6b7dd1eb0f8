# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.dra import devices_by_node, list_nodes, offering, other_names
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.facts import GPU_PRESENT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._nodes.status import offered
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.clusters import node
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import item

DRIVER = "gpu.nvidia.com"
WHOLE = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'"


def device_class(name="gpu", resource="nvidia.com/gpu", *terms):
    named = {"extendedResourceName": resource} if resource else {}
    return item("resource.k8s.io/v1", "DeviceClass", name) | {
        "spec": named | {"selectors": [{"cel": {"expression": term}} for term in terms]}
    }


def resource_slice(node_name, *types, name="s", driver=DRIVER, generation=1):
    devices = [{"name": f"d-{number}", "attributes": {"type": {"string": kind}}} for number, kind in enumerate(types)]
    where = {"nodeName": node_name} if node_name else {"allNodes": True}
    pool = {"name": node_name or "fabric", "generation": generation}
    spec = {"driver": driver, "pool": pool, "devices": devices} | where
    return item("resource.k8s.io/v1", "ResourceSlice", f"{name}-{node_name}-{generation}") | {"spec": spec}


def test_of_several_classes_the_newest_offers_a_resource():
    classes = [device_class("c"), device_class("b"), device_class("a", None), device_class("d", "example.com/gpu")]
    assert offering(classes)["metadata"]["name"] == "b"
    classes[0]["metadata"]["creationTimestamp"] = "2026-11-28T00:00:00Z"
    assert offering(classes)["metadata"]["name"] == "c"
    assert offering(classes[2:]) is None


@pytest.mark.parametrize(
    ("terms", "count"),
    [
        ((), 3),
        ((WHOLE,), 2),
        (('device.driver == "gpu.nvidia.com"',), 3),
        (("device.driver == 'other.example'",), 0),
        ((f"device.attributes['{DRIVER}'].type == 'mig'",), 1),
        ((f"device.driver == '{DRIVER}'", f"device.attributes['{DRIVER}'].type == 'none'"), 0),
        # What it does not read, it lets pass.
        (("device.driver.startsWith('x')",), 3),
        ((f"device.attributes['{DRIVER}'].type == 'gpu' || device.attributes['{DRIVER}'].type == 'mig'",), 3),
        ((f"!(device.attributes['{DRIVER}'].type == 'gpu')",), 3),
        ((f"device.attributes['{DRIVER}'].type != 'mig'",), 3),
        ((f"device.driver == '{DRIVER}' // not device.driver == 'old.example'",), 3),
    ],
)
def test_devices_count_for_a_class_by_driver_and_attributes(terms, count):
    found = devices_by_node(device_class("gpu", "nvidia.com/gpu", *terms), [resource_slice("n1", "gpu", "gpu", "mig")])
    assert found == ({"n1": count} if count else {})


def test_devices_of_a_former_generation_or_of_no_node_do_not_count():
    slices = [
        resource_slice("n1", "gpu", "gpu", generation=1),
        resource_slice("n1", "gpu", generation=2),
        resource_slice("n1", "gpu", name="second", generation=2),
        resource_slice("", "gpu"),
        resource_slice("n2"),
    ]
    assert devices_by_node(device_class(), slices) == {"n1": 2}
    # Until all slices of a generation are there, the former one counts.
    for one in slices[1:3]:
        one["spec"]["pool"]["resourceSliceCount"] = 3
    slices[0]["spec"]["devices"].append({"name": "d-2"})
    assert devices_by_node(device_class(), slices) == {"n1": 3}


def test_devices_that_name_their_nodes_themselves():
    one = resource_slice("", "gpu", "gpu")
    one["spec"]["perDeviceNodeSelection"] = True
    one["spec"]["devices"][0]["nodeName"] = "n1"
    assert devices_by_node(device_class(), [one]) == {"n1": 1}


def test_other_names_by_which_pods_get_devices_of_the_driver():
    classes = [device_class("a"), device_class("b", "example.com/gpu"), device_class("c", None)]
    classes.append(device_class("d", "example.com/nic", "device.driver == 'nic.example'"))
    slices = [resource_slice("n1", "gpu"), resource_slice("n1", "nic", driver="nic.example")]
    assert other_names(classes, slices) == {"example.com/gpu": "b"}
    assert other_names(classes, slices[1:]) == {}


def test_nodes_have_what_a_driver_offers_where_no_device_plugin_offers_it():
    kube = InMemoryApi()
    for one in (node("plugin", 8), node("dra"), node("neither")):
        kube.put(one)
    for one in (resource_slice("plugin", "gpu"), resource_slice("dra", "gpu", "gpu")):
        kube.put(one)
    assert {one["metadata"]["name"]: offered(one) for one in list_nodes(kube)} == {"plugin": 8, "dra": 0, "neither": 0}
    kube.put(device_class())
    found = {one["metadata"]["name"]: one for one in list_nodes(kube)}
    assert {name: offered(one) for name, one in found.items()} == {"plugin": 8, "dra": 2, "neither": 0}
    assert found["dra"]["status"]["capacity"]["nvidia.com/gpu"] == "2"


def test_a_node_of_the_driver_counts_as_one_with_gpus_also_without_a_class():
    """Pods can ask for its devices by the name of any class."""
    kube = InMemoryApi()
    for one in (node("dra"), node("none"), resource_slice("dra", "gpu")):
        kube.put(one)
    labels = {one["metadata"]["name"]: one["metadata"]["labels"].get(GPU_PRESENT_LABEL) for one in list_nodes(kube)}
    assert labels == {"dra": "true", "none": None}


def test_without_the_right_to_read_them_there_are_no_devices():
    kube = InMemoryApi()
    for one in (node("dra"), resource_slice("dra", "gpu"), device_class()):
        kube.put(one)
    kube.fail("list", "ResourceSlice", ApiError("resourceslices is forbidden", status=403))
    assert [offered(one) for one in list_nodes(kube)] == [0]
