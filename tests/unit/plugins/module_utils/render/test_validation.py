# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is refused before a file is written, each with the tenant's name and the reason."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._artifacts.plan import of_tenant
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.plan import Target
from ansible_collections.kubegpu.tenancy.plugins.module_utils._render.validation import (
    Demands,
    Former,
    Seen,
    former_of,
    refusals,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import read_one
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.status import Live
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi
from ansible_collections.kubegpu.tenancy.tests.unit.problems import placed
from ansible_collections.kubegpu.tenancy.tests.unit.tenants import on_host

ACCEPTED = ["#1103", "#1673", "end-of-support"]
WEB = {"name": "web", "trust": "partial"}
NO_DEMANDS = Demands(backup=False, verdict=False)
SITE_FIRST = "Suspend its objects in Flux, run site, delete its folder here, and render again."


def ml(version="v0.13.1", **more):
    scheduler = {"name": "kai", "version": version, "accept_hazards": ACCEPTED}
    queues = [{"name": "q", "children": [{"name": "leaf"}]}]
    return {"name": "ml", "trust": "high", "gpu_nodes": {"count": 1}, "scheduler": scheduler, "queues": queues} | more


def target(**change):
    given = {
        "format": "helm",
        "path": "./c/dc1",
        "source": "fleet",
        "gatekeeper": False,
        "host": "1.35",
        "enforces": True,
        "shared": {},
        "metrics": {},
    }
    return Target(**given | change)


def live(name="ml", change=lambda objects: None):
    objects = {item["kind"]: item for item in copy.deepcopy(on_host(name))}
    change(objects)
    return read_one(InMemoryApi(list(objects.values())), name)


def found(tenant, live=None, config=None, former=None, demands=NO_DEMANDS, charts="", kubernetes="v1.35.4", **change):
    (wanted,) = tenants_from([tenant])
    seen = Seen(live or Live(), config, (), former or Former(), kubernetes, ["nvidia"])
    return refusals(wanted, of_tenant(wanted, charts), seen, demands, target(**change))


def only(problems):
    (problem,) = problems
    return problem.code, problem.text


def test_a_new_tenant_and_one_as_it_is_are_rendered():
    assert found(ml()) == found(ml(), live()) == found(ml(), live(), former=Former("kai-scheduler", "v0.13.1")) == []
    assert found(WEB) == []


# --- states --------------------------------------------------------------------------------------------------------


def test_a_paused_tenant_is_refused_wherever_it_is_paused():
    text = (
        "ml: state: the next upgrade of its chart would start a paused tenant. "
        "Leave it out by kubegpu_only, or resume it by site first."
    )
    assert only(found(ml(state="paused"))) == ("paused", text)

    def pause(objects):
        objects["StatefulSet"]["spec"]["replicas"] = 0
        objects["StatefulSet"]["metadata"]["annotations"] = {"loft.sh/paused": "true"}

    assert only(found(ml(), live(change=pause))) == ("paused", text)


def test_what_is_being_removed_or_restored_is_refused():
    def remove(objects):
        objects["Namespace"]["metadata"]["deletionTimestamp"] = "2026-11-28T00:00:00Z"

    def restore(objects):
        objects["StatefulSet"]["metadata"]["annotations"] = {"kubegpu.tenancy/restoring": "abc"}

    assert placed(found(ml(), live(change=remove))) == ["ml: being-removed"]
    assert placed(found(ml(), live(change=restore))) == ["ml: restore-unfinished"]


def test_a_temporary_tenant_is_refused():
    text = "web: kubegpu_temporary_tenant: is made and removed by playbooks. Render without it."
    assert only(found(WEB | {"expires": "2h"})) == ("temporary", text)


# --- virtual clusters ----------------------------------------------------------------------------------------------


def running(version):
    def change(objects):
        objects["StatefulSet"]["metadata"]["labels"]["chart"] = f"vcluster-{version}"

    return live(change=change)


def test_an_upgrade_over_several_minor_versions_is_refused_with_the_next_one():
    text = (
        "ml: version: vCluster 0.34.0 is running, and its upgrade goes over 0.35.3. "
        "Write each version, and render, one after the other."
    )
    assert only(found(ml(vcluster={"version": "0.36.1"}), running("0.34.0"))) == ("minor-version-skipped", text)
    assert found(ml(vcluster={"version": "0.36.1"}), running("0.35.3")) == []


def test_what_site_refuses_of_a_change_is_refused_here():
    older = ml(vcluster={"version": "0.35.3"})
    assert placed(found(older, live())) == ["ml: downgrade"]
    kubernetes = ml(vcluster={"kubernetes_version": "v1.34.2"})
    assert placed(found(kubernetes, live())) == ["ml: downgrade"]
    store = {"controlPlane": {"backingStore": {"etcd": {"deploy": {"enabled": True}}}}}
    assert placed(found(ml(), live(), config=store)) == ["ml: store-cannot-change"]
    old = ml(vcluster={"version": "0.35.0", "kubernetes_version": "v1.33.1"})
    assert placed(found(old, kubernetes="v1.36.0")) == ["ml: versions-too-far-apart"]


def test_an_upgrade_that_needs_a_backup_is_left_to_site():
    demands = Demands(backup=True, verdict=False)
    text = f"ml: vcluster: kubegpu_backup is required, and Flux takes none before an upgrade from vCluster 0.35.3. {SITE_FIRST}"
    assert only(found(ml(), running("0.35.3"), demands=demands)) == ("backup-required", text)
    kubernetes = ml(vcluster={"kubernetes_version": "v1.36.0"})
    assert placed(found(kubernetes, live(), demands=demands)) == ["ml: backup-required"]
    assert found(ml(), live(), demands=demands) == found(ml(), demands=demands) == []


def test_a_sandbox_that_the_cluster_lacks_is_refused():
    zero = WEB | {"trust": "zero", "gpu_nodes": {"count": 1}, "sandbox": {"runtime_class": "gvisor", "gpus": True}}
    text = "web: sandbox: there is no RuntimeClass gvisor, in which all pods of tenant web are to run. There are: nvidia."
    assert only(found(zero)) == ("no-runtime-class", text)


# --- schedulers ----------------------------------------------------------------------------------------------------


def test_a_way_back_of_kai_scheduler_is_refused_with_its_steps():
    text = (
        "ml: scheduler.version: v0.13.1 is installed, and site goes to v0.12.0 by steps that no file says: apply the CRDs, "
        f"start a copy of the admission pod, downgrade to v0.12.0. {SITE_FIRST}"
    )
    assert only(found(ml("v0.12.0"), live())) == ("needs-steps", text)


def test_the_files_until_now_count_where_nothing_was_verified_since():
    former = Former("kai-scheduler", "v0.16.8")
    assert placed(found(ml("v0.13.1"), live(), former=former)) == ["ml: needs-steps"]
    assert placed(found(ml("v0.16.8"), live(), former=Former("kai-scheduler", "mine"))) == ["ml: unknown-release"]


def test_a_newer_kai_scheduler_that_its_chart_alone_brings_is_rendered():
    assert found(ml("v0.16.8"), live()) == []


def test_releases_that_need_more_than_their_charts_are_refused():
    text = (
        "ml: scheduler.version: v0.9.3 needs CRDs or hooks that no file brings. "
        "Take v0.12.0 or later, and no migration of topologies."
    )
    assert only(found(ml("v0.9.3"))) == ("needs-steps", text)
    assert placed(found(ml("v0.7.5"))) == ["ml: needs-steps"]
    migrating = ml()
    migrating["scheduler"]["values"] = {"topologyMigration": {"enabled": True}}
    assert placed(found(migrating)) == ["ml: needs-steps"]


def test_a_scheduler_that_is_to_go_is_left_to_site():
    text = f"ml: scheduler: the scheduler that there is, KAI Scheduler, is to go, which Flux would install again. {SITE_FIRST}"
    assert only(found(ml(scheduler={}, queues=[]), live())) == ("needs-steps", text)
    second = {"name": "second", "chart": "second", "version": "1.0.0", "repository": "https://x.example"}
    other = WEB | {"scheduler": second}
    text = f"web: scheduler: the scheduler that there is, second, is to go, which Flux would install again. {SITE_FIRST}"
    assert only(found(WEB, former=Former("second", "1.0.0"))) == ("needs-steps", text)
    assert found(other, former=Former("second", "0.9.0")) == []


def test_where_a_verdict_is_required_kai_scheduler_is_left_to_site():
    demands = Demands(backup=False, verdict=True)
    text = (
        "ml: scheduler: kubegpu_rehearsal asks for a verdict before each change of KAI Scheduler, and Flux does not. "
        "Leave the tenant to site."
    )
    assert only(found(ml(), demands=demands)) == ("needs-verdict", text)
    assert found(WEB, demands=demands) == []


def test_flux_needs_a_way_into_the_virtual_cluster():
    text = (
        "ml: vcluster.values.exportKubeConfig.server: Flux reaches the scheduler by the kubeconfig that vCluster keeps, which has no "
        "address of a Service. Set it to https://ml.tenant-ml."
    )
    assert only(found(ml(), format="flux")) == ("missing", text)
    given = ml(vcluster={"values": {"exportKubeConfig": {"server": "https://ml.tenant-ml"}}})
    assert found(given, format="flux") == found(WEB, format="flux") == []


def test_flux_needs_a_chart_that_it_reaches():
    local = {"name": "second", "chart": "/srv/second", "version": "1.0.0"}
    given = WEB | {"scheduler": local, "vcluster": {"values": {"exportKubeConfig": {"server": "https://web.tenant-web"}}}}
    assert placed(found(given, format="flux")) == ["web: not-applicable"]
    assert found(given) == []


@pytest.mark.parametrize(
    ("documents", "former"),
    [
        ([], Former()),
        ([{"kind": "HelmRepository"}, {"kind": "Kustomization", "spec": None}], Former()),
        ([{"release": "kai-scheduler", "version": "v0.16.8"}], Former("kai-scheduler", "v0.16.8")),
        (
            [{"kind": "HelmRelease", "spec": {"releaseName": "second", "chart": {"spec": {"version": "1.0.0"}}}}],
            Former("second", "1.0.0"),
        ),
    ],
)
def test_the_scheduler_of_files_is_known_from_them(documents, former):
    assert former_of(documents) == former


# --- secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"a": {"password": "hunter2"}}, "a.password"),
        ({"a": [{"adminPassword": "x"}, {"apiKey": "hunter2"}]}, "a[1].apiKey"),
        ({"a": {"api_key": "hunter2"}}, "a.api_key"),
        ({"a": {"clientSecret": "hunter2"}}, "a.clientSecret"),
        ({"a": {"token": ["hunter2"]}}, "a.token[0]"),
        ({"a": "https://me:hunter2@example.com"}, "a"),
        ({"a": "-----BEGIN RSA PRIVATE KEY-----\n"}, "a"),
        ({"a": "apiVersion: v1\nkind: Secret\n"}, "a"),
        ({"a": '{\n "kind": "Secret"}'}, "a"),
        ({"a": [{"kind": "Secret", "data": {}}]}, "a[0]"),
    ],
)
def test_values_that_look_like_secrets_are_refused_by_their_paths_without_them(values, path):
    (problem,) = found(
        WEB | {"scheduler": {"name": "s", "chart": "s", "version": "1.0.0", "repository": "https://x", "values": values}}
    )
    assert problem.code == "looks-secret"
    assert problem.text == (
        f"web: s: values.{path}: looks like a secret, which git would show. Keep it in a Secret, and have the values name that."
    )


@pytest.mark.parametrize(
    "values",
    [
        {"existingSecret": "mine", "secretName": "mine", "imagePullSecrets": [{"name": "mine"}]},
        {"password": "", "token": None, "apiKey": 0, "tokenPath": "/var/run/token"},
        {"kind": "Secretary", "a": "kind: SecretStore", "image": "repo.example/a@sha256:00"},
        {"enforceTolerations": ["a=b:NoSchedule"]},
    ],
)
def test_names_of_secrets_are_none(values):
    scheduler = {"name": "s", "chart": "s", "version": "1.0.0", "repository": "https://x", "values": values}
    assert found(WEB | {"scheduler": scheduler}) == []
