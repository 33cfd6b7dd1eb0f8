# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the code takes for granted of an API server, shown of the one in memory and, where there is one, of a real one."""

from __future__ import annotations

import base64
import secrets

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters import kubernetes
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import wait_for

UNSERVED = ("contract.kubegpu.example/v1", "Nothing")
FINALIZER = "kubegpu.example/contract"


@pytest.fixture(name="name")
def _name():
    return f"test-{secrets.token_hex(4)}"


def config_map(server, name, data=None, **metadata):
    metadata = {"name": name, "namespace": server.namespace} | metadata
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {}}


def policy(server, name, **labels):
    spec = {"podSelector": {"matchLabels": labels}, "policyTypes": ["Ingress"]}
    metadata = {"name": name, "namespace": server.namespace}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}


def pod(server, name):
    # No scheduler of this name runs anywhere, so that the pod stays without a node.
    spec = {"schedulerName": "kubegpu-contract", "containers": [{"name": "c", "image": "registry.invalid/c"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": server.namespace}, "spec": spec}


def names(items):
    return [item["metadata"]["name"] for item in items]


def get(server, name, kind="ConfigMap", api_version="v1"):
    return server.kube.get(api_version, kind, name, server.namespace)


def patch(server, name, body, kind="ConfigMap", api_version="v1"):
    return server.kube.patch(api_version, kind, name, body, server.namespace)


# --- reading --------------------------------------------------------------------------------------------------------


def test_it_tells_its_version(server):
    assert server.kube.version().startswith("v1.")


def test_an_administrator_may_do_everything(server):
    assert server.kube.may("*", "*", "*")
    assert server.kube.may("get", "", "pods/log", server.namespace)


def test_what_does_not_exist_is_none(server, name):
    assert get(server, name) is None
    assert server.kube.get("v1", "Namespace", name) is None
    assert server.kube.list("v1", "ConfigMap", name) == []


@pytest.fixture(name="family")
def _family(server, name):
    """Three ConfigMaps that share the label ``family``."""
    for number, labels in enumerate([{"colour": "red"}, {"colour": "blue"}, {}]):
        server.kube.create(config_map(server, f"{name}-{number}", labels=labels | {"family": name}))
    return name


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", [0, 1, 2]),
        (",colour=red", [0]),
        (",colour==red", [0]),
        (",colour!=red", [1, 2]),
        (",colour in (red, blue)", [0, 1]),
        (",colour notin (red)", [1, 2]),
        (",colour", [0, 1]),
        (",!colour", [2]),
        (",colour=red,colour=blue", []),
    ],
)
def test_lists_are_selected_by_labels(server, family, selector, expected):
    items = server.kube.list("v1", "ConfigMap", server.namespace, f"family={family}{selector}")
    assert names(items) == [f"{family}-{number}" for number in expected]
    assert {(item["apiVersion"], item["kind"]) for item in items} <= {("v1", "ConfigMap")}


def test_lists_are_selected_by_fields(server, family):
    def found(selector):
        return names(server.kube.list("v1", "ConfigMap", server.namespace, f"family={family}", selector))

    assert found(f"metadata.name={family}-1") == [f"{family}-1"]
    assert found(f"metadata.name!={family}-1") == [f"{family}-0", f"{family}-2"]
    assert found(f"metadata.namespace={server.namespace},metadata.name={family}-9") == []


def test_lists_without_a_namespace_are_those_of_all(server, family):
    assert names(server.kube.list("v1", "ConfigMap", label_selector=f"family={family}")) == [f"{family}-{n}" for n in range(3)]


@pytest.mark.parametrize("page", [1, 2, 3])
def test_lists_are_whole_however_long_a_page_is(server, family, page, monkeypatch):
    monkeypatch.setattr(kubernetes, "PAGE", page)
    assert len(server.kube.list("v1", "ConfigMap", server.namespace, f"family={family}")) == 3


# --- creating -------------------------------------------------------------------------------------------------------


def test_what_is_created_has_what_only_the_server_gives(server, name):
    given = config_map(server, name, {"a": "1"}, uid="mine", creationTimestamp="2020-01-01T00:00:00Z")
    created = server.kube.create(given)
    assert created["data"] == {"a": "1"}
    assert created["metadata"]["uid"] not in ("", "mine")
    assert not created["metadata"]["creationTimestamp"].startswith("2020")
    assert get(server, name)["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert given["metadata"]["uid"] == "mine"


def test_a_name_is_taken_once(server, name):
    server.kube.create(config_map(server, name, {"a": "1"}))
    with pytest.raises(TenancyError, match="already exists") as caught:
        server.kube.create(config_map(server, name, {"a": "2"}))
    assert caught.value.details["status"] == 409
    assert get(server, name)["data"] == {"a": "1"}


def test_names_are_generated(server, name):
    first, second = (server.kube.create(config_map(server, "", generateName=f"{name}-") | {"data": {}}) for _number in "ab")
    assert first["metadata"]["name"].startswith(f"{name}-")
    assert first["metadata"]["name"] != second["metadata"]["name"]
    assert get(server, first["metadata"]["name"])["metadata"]["generateName"] == f"{name}-"


def test_nothing_is_created_in_a_namespace_that_does_not_exist(server, name):
    with pytest.raises(TenancyError, match="not found") as caught:
        server.kube.create(config_map(server, name, namespace="kubegpu-contract-none"))
    assert caught.value.details["status"] == 404


def test_secrets_keep_texts_as_data(server, name):
    metadata = {"name": name, "namespace": server.namespace}
    created = server.kube.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "text"}})
    assert created["data"] == {"a": base64.b64encode(b"text").decode()}
    assert "stringData" not in created
    changed = server.kube.patch("v1", "Secret", name, {"stringData": {"b": "more"}}, server.namespace)
    assert changed["data"] == created["data"] | {"b": base64.b64encode(b"more").decode()}


# --- patching -------------------------------------------------------------------------------------------------------


def test_patches_merge_and_none_removes(server, name):
    server.kube.create(config_map(server, name, {"a": "1", "b": "2"}, labels={"x": "1"}))
    patched = patch(server, name, {"data": {"a": None, "b": "3", "c": "4"}, "metadata": {"labels": None}})
    assert patched["data"] == {"b": "3", "c": "4"}
    assert "labels" not in patched["metadata"]
    assert get(server, name)["data"] == patched["data"]


def test_a_patch_that_is_only_tried_says_what_would_be_and_stores_nothing(server, name):
    server.kube.create(config_map(server, name, {"a": "1"}))
    before = get(server, name)
    tried = server.kube.patch("v1", "ConfigMap", name, {"data": {"a": "2"}}, server.namespace, dry_run="All")
    assert tried["data"] == {"a": "2"}
    assert get(server, name) == before


def test_patches_replace_lists(server, name):
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": server.namespace}}
    server.kube.create(account | {"imagePullSecrets": [{"name": "a"}, {"name": "b"}]})
    patched = patch(server, name, {"imagePullSecrets": [{"name": "c"}]}, "ServiceAccount")
    assert patched["imagePullSecrets"] == [{"name": "c"}]


def test_a_conditional_patch_conflicts_with_a_change_since(server, name):
    version = server.kube.create(config_map(server, name, {"a": "1"}))["metadata"]["resourceVersion"]
    patch(server, name, {"metadata": {"resourceVersion": version}, "data": {"a": "2"}})
    with pytest.raises(TenancyError, match="has been modified") as caught:
        patch(server, name, {"metadata": {"resourceVersion": version}, "data": {"a": "3"}})
    assert caught.value.details["status"] == 409
    assert get(server, name)["data"] == {"a": "2"}


def test_a_patch_that_changes_nothing_makes_no_new_version(server, name):
    created = server.kube.create(config_map(server, name, {"a": "1"}))
    assert patch(server, name, {"data": {"a": "1"}})["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]


def test_what_does_not_exist_is_not_patched(server, name):
    with pytest.raises(TenancyError, match="not found") as caught:
        patch(server, name, {"data": {}})
    assert caught.value.details["status"] == 404


def test_generations_count_changes_of_the_spec(server, name):
    of = {"kind": "NetworkPolicy", "api_version": "networking.k8s.io/v1"}
    created = server.kube.create(policy(server, name, a="1"))
    assert created["metadata"]["generation"] == 1
    assert patch(server, name, {"metadata": {"labels": {"x": "1"}}}, **of)["metadata"]["generation"] == 1
    assert patch(server, name, {"spec": {"policyTypes": ["Egress"]}}, **of)["metadata"]["generation"] == 2
    assert "generation" not in server.kube.create(config_map(server, name))["metadata"]


# --- applying -------------------------------------------------------------------------------------------------------


def test_applying_creates_and_changes(server, name):
    created = server.kube.apply(config_map(server, name, {"a": "1"}))
    again = server.kube.apply(config_map(server, name, {"a": "1"}))
    assert again["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert server.kube.apply(config_map(server, name, {"a": "2"}))["data"] == {"a": "2"}


def test_applying_removes_what_it_applied_before_and_keeps_what_others_wrote(server, name):
    server.kube.apply(config_map(server, name, {"a": "1", "b": "1"}, labels={"ours": "1"}))
    patch(server, name, {"data": {"theirs": "2"}, "metadata": {"labels": {"theirs": "2"}}})
    applied = server.kube.apply(config_map(server, name, {"a": "1"}))
    assert applied["data"] == {"a": "1", "theirs": "2"}
    assert applied["metadata"]["labels"] == {"theirs": "2"}


def test_applying_takes_over_what_others_changed(server, name):
    server.kube.apply(config_map(server, name, {"a": "1"}))
    patch(server, name, {"data": {"a": "theirs"}})
    assert server.kube.apply(config_map(server, name, {"a": "2"}))["data"] == {"a": "2"}


def test_what_others_changed_since_is_not_removed_by_applying(server, name):
    server.kube.apply(config_map(server, name, {"a": "1", "b": "1"}))
    patch(server, name, {"data": {"a": "theirs"}})
    assert server.kube.apply(config_map(server, name, {"b": "1"}))["data"] == {"a": "theirs", "b": "1"}


def test_what_was_created_is_not_removed_by_applying(server, name):
    server.kube.create(config_map(server, name, {"a": "1"}))
    assert server.kube.apply(config_map(server, name, {"b": "1"}))["data"] == {"a": "1", "b": "1"}


# --- deleting -------------------------------------------------------------------------------------------------------


def test_deleting_tells_whether_there_was_something(server, name):
    server.kube.create(config_map(server, name))
    assert server.kube.delete("v1", "ConfigMap", name, server.namespace) is True
    assert get(server, name) is None
    assert server.kube.delete("v1", "ConfigMap", name, server.namespace) is False


def test_what_has_a_finalizer_stays_until_it_is_gone(server, name):
    server.kube.create(config_map(server, name, finalizers=[FINALIZER]))
    assert server.kube.delete("v1", "ConfigMap", name, server.namespace) is True
    assert get(server, name)["metadata"]["deletionTimestamp"]
    assert server.kube.delete("v1", "ConfigMap", name, server.namespace) is True
    patch(server, name, {"metadata": {"finalizers": None}})
    assert get(server, name) is None


def test_a_namespace_that_ends_takes_nothing_in_and_stays_until_it_is_empty(kube, own_namespace, name):
    def item(name, **metadata):
        metadata = {"name": name, "namespace": own_namespace} | metadata
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    kube.create(item("held", finalizers=[FINALIZER]))
    kube.create(item("free"))
    assert kube.delete("v1", "Namespace", own_namespace) is True
    namespace = kube.get("v1", "Namespace", own_namespace)
    assert namespace["metadata"]["deletionTimestamp"]
    assert namespace["status"]["phase"] == "Terminating"
    with pytest.raises(TenancyError, match="being terminated") as caught:
        kube.create(item(name))
    assert caught.value.details["status"] == 403
    # In no certain order.
    wait_for("the end of free", lambda: (kube.get("v1", "ConfigMap", "free", own_namespace) is None or None, "it is there"), 60)
    wait_for(
        "the deletion of held",
        lambda: (kube.get("v1", "ConfigMap", "held", own_namespace)["metadata"].get("deletionTimestamp"), "it was not begun"),
        60,
    )
    kube.patch("v1", "ConfigMap", "held", {"metadata": {"finalizers": None}}, own_namespace)
    wait_for("its end", lambda: (kube.get("v1", "Namespace", own_namespace) is None or None, "it is there"), 90)


# --- kinds that are not served ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [UNSERVED, ("v1", "Nothing"), ("apps/v1", "Nothing")])
def test_a_kind_that_is_not_served_has_no_objects_and_takes_none(server, name, kind):
    kube = server.kube
    if hasattr(kube, "unserved"):
        kube.unserved.add(kind)
    item = {"apiVersion": kind[0], "kind": kind[1], "metadata": {"name": name, "namespace": server.namespace}}
    assert not kube.served(*kind)
    assert kube.served("apps/v1", "Deployment")
    assert kube.get(*kind, name, server.namespace) is None
    assert kube.list(*kind) == []
    assert kube.delete(*kind, name, server.namespace) is False
    for write in (
        lambda: kube.create(item),
        lambda: kube.apply(item),
        lambda: kube.patch(*kind, name, {"spec": {}}, server.namespace),
    ):
        with pytest.raises(TenancyError, match="is its CRD installed") as caught:
            write()
        assert caught.value.details["status"] == 404


# --- tokens and logs --------------------------------------------------------------------------------------------------


def test_tokens_are_those_of_a_service_account_that_exists(server, name):
    assert server.kube.create_token("default", server.namespace, 600)
    with pytest.raises(TenancyError, match="not found") as caught:
        server.kube.create_token(name, server.namespace, 600)
    assert caught.value.details["status"] == 404


def test_a_pod_that_has_not_started_has_an_empty_log_and_no_pod_has_none(server, name):
    with pytest.raises(TenancyError, match="not found") as caught:
        server.kube.pods.logs(name, server.namespace)
    assert caught.value.details["status"] == 404
    server.kube.create(pod(server, name))
    assert server.kube.pods.logs(name, server.namespace) == ""
    assert server.kube.pods.logs(name, server.namespace, "c", lines=5, seconds=1) == ""
    # It has no container yet in which there could be a file.
    with pytest.raises(TenancyError, match=f"Reading /file in Pod {name} failed"):
        server.kube.pods.read_file(name, server.namespace, "c", "/file")
    assert server.kube.delete("v1", "Pod", name, server.namespace, grace_seconds=0) is True
    assert get(server, name, "Pod") is None
