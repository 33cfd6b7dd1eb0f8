# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import value_at
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.tests.unit.desired import WEB, plan, refused
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed

ISSUER = {"issuer_url": "https://login.example/realms/gpu", "client_id": "kubegpu"}
CA = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
WHOLE = ISSUER | {"username_claim": "email", "groups_claim": "groups", "ca": CA, "admins": ["ml-leads"], "scopes": ["groups"]}
FLAGS = "controlPlane.distro.k8s.apiServer.extraArgs"
MANIFESTS = "experimental.deploy.vcluster.manifests"


def values_of(oidc, values=None):
    (tenant,) = plan([WEB | {"oidc": oidc, "vcluster": {"values": values or {}}}])
    return tenant["vcluster"]["values"]


def test_an_issuer_becomes_flags_of_the_api_server():
    assert values_of(ISSUER) == {
        "controlPlane": {
            "distro": {
                "k8s": {
                    "apiServer": {
                        "extraArgs": [
                            "--oidc-issuer-url=https://login.example/realms/gpu",
                            "--oidc-client-id=kubegpu",
                            "--oidc-username-claim=sub",
                            "--oidc-username-prefix=oidc:",
                        ]
                    }
                }
            }
        }
    }
    assert values_of({}) == {}


def test_groups_administer_and_an_authority_is_mounted():
    values = values_of(WHOLE)
    assert value_at(values, FLAGS)[2:] == [
        "--oidc-username-claim=email",
        "--oidc-username-prefix=oidc:",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
        "--oidc-ca-file=/etc/kubegpu-oidc/ca.crt",
    ]
    stateful = values["controlPlane"]["statefulSet"]
    assert stateful["pods"]["annotations"] == {"kubegpu.tenancy/oidc-ca": CA}
    (volume,), (mount,) = stateful["persistence"]["addVolumes"], stateful["persistence"]["addVolumeMounts"]
    assert volume["downwardAPI"]["items"][0]["fieldRef"] == {"fieldPath": "metadata.annotations['kubegpu.tenancy/oidc-ca']"}
    assert (mount["name"], mount["mountPath"]) == (volume["name"], "/etc/kubegpu-oidc")
    (binding,) = yaml.safe_load_all(value_at(values, MANIFESTS))
    assert (binding["roleRef"]["name"], binding["subjects"][0]["name"]) == ("cluster-admin", "oidc:ml-leads")


def test_what_the_user_gives_beside_it_stays_and_nothing_is_added_twice():
    """The desired state travels to modules, which read it again."""
    own = {
        "controlPlane": {"distro": {"k8s": {"apiServer": {"extraArgs": ["--v=3"]}}}},
        "experimental": {"deploy": {"vcluster": {"manifests": "kind: A"}}},
    }
    (tenant,) = plan([WEB | {"oidc": WHOLE, "vcluster": {"values": own}}])
    values = tenant["vcluster"]["values"]
    assert value_at(values, FLAGS)[0] == "--v=3"
    assert [item["kind"] for item in yaml.safe_load_all(value_at(values, MANIFESTS))] == ["A", "ClusterRoleBinding"]
    (again,) = tenants_from([json.loads(json.dumps(tenant))])
    assert again.data() == tenant
    assert again.oidc["prefix"] == "oidc:"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"issuer_url": "http://login.example"}, "issuer_url: not-an-issuer"),
        ({"issuer_url": "https://user@login.example"}, "issuer_url: not-an-issuer"),
        ({"issuer_url": "https://["}, "issuer_url: not-an-issuer"),
        ({"issuer_url": "https://login.example:x"}, "issuer_url: not-an-issuer"),
        ({"issuer_url": "https://login.example?x=1"}, "issuer_url: not-an-issuer"),
        ({"client_id": "a b"}, "client_id: not-a-claim"),
        ({"prefix": ""}, "prefix: prefix-of-kubernetes"),
        ({"prefix": "system:"}, "prefix: prefix-of-kubernetes"),
        ({"ca": "x"}, "ca: not-a-certificate"),
        ({"groups_claim": "groups", "admins": [7]}, "admins[0]: not-a-claim"),
        ({"scopes": ["groups", None]}, "scopes[1]: not-a-claim"),
        ({"scopes": ["a b"]}, "scopes[0]: not-a-claim"),
        ({"client_id": ""}, "client_id: missing"),
        *(({"prefix": prefix}, "prefix: prefix-of-kubernetes") for prefix in ("-", "s", "system")),
        *(
            ({"issuer_url": f"https://login.example{end}"}, "issuer_url: not-an-issuer")
            for end in ("/\n--anonymous-auth=true", "/a b", "\t/x", "/?", "/#", "/\x00")
        ),
        ({"issuer_url": ""}, "issuer_url: not-an-issuer"),
        ({"issuer_url": " https://login.example"}, "issuer_url: not-an-issuer"),
        ({"issuer_url": "https://@login.example"}, "issuer_url: not-an-issuer"),
        ({"ca": f"{CA}-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n{CA}"}, "ca: not-a-certificate"),
        ({"ca": "-----BEGIN CERTIFICATE-----\n{{ .Values }}\n-----END CERTIFICATE-----"}, "ca: not-a-certificate"),
        ({"admins": ["a"]}, "groups_claim: missing"),
        ({"issuer": "x"}, "issuer: unknown-key"),
    ],
)
def test_what_the_api_server_would_not_start_with_or_trust_too_far_is_refused(change, problem):
    path = "kubegpu_tenants[0].oidc"
    assert placed(refused(kubegpu_tenants=[WEB | {"oidc": ISSUER | change}])) == [f"{path}.{problem}"]


def test_what_is_missing_is_named():
    path = "kubegpu_tenants[0].oidc"
    assert placed(refused(kubegpu_tenants=[WEB | {"oidc": {"client_id": "a"}}])) == [f"{path}.issuer_url: missing"]


@pytest.mark.parametrize("odd", ["--v=3", 7, {"v": 3}])
def test_items_are_added_to_lists_only(odd):
    values = {"controlPlane": {"distro": {"k8s": {"apiServer": {"extraArgs": odd}}}}}
    tenant = WEB | {"oidc": ISSUER, "vcluster": {"values": values}}
    assert f"kubegpu_tenants[0].vcluster.values.{FLAGS}: wrong-type" in placed(refused(kubegpu_tenants=[tenant]))


def test_an_issuer_in_two_places_is_refused():
    values = {"controlPlane": {"distro": {"k8s": {"apiServer": {"extraArgs": ["--oidc-issuer-url=https://other.example"]}}}}}
    tenant = WEB | {"oidc": ISSUER, "vcluster": {"values": values}}
    assert placed(refused(kubegpu_tenants=[tenant])) == ["kubegpu_tenants[0].oidc: given-twice"]


@pytest.mark.parametrize(
    ("trust", "port", "egress", "refusal"),
    [
        ("high", ":8080", [], []),
        ("partial", "", [], []),
        ("partial", ":8443", [], []),
        ("partial", ":8080", [], ["issuer-out-of-reach"]),
        ("partial", ":8080", [{"ports": [{"port": 8080}]}], []),
    ],
)
def test_an_issuer_is_one_that_the_tenants_network_policy_lets_its_control_plane_reach(trust, port, egress, refusal):
    values = {"policies": {"networkPolicy": {"controlPlane": {"egress": egress}}}}
    oidc = ISSUER | {"issuer_url": f"https://login.example{port}/realms/gpu"}
    tenant = {"name": "web", "trust": trust, "oidc": oidc, "vcluster": {"values": values}}
    found = refused(kubegpu_tenants=[tenant]) if refusal else plan([tenant]) and []
    assert placed(found) == [f"kubegpu_tenants[0].oidc.issuer_url: {code}" for code in refusal]
