# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Gatekeeper's own program says of the constraints: of requests, as its webhook gets them, and of stored objects, as its audit does."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kubegpu.lab.plugins.plugin_utils._recipe import Program
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.plan import policies, queue_policies, record_policies
from ansible_collections.kubegpu.tenancy.plugins.module_utils._admission.values import Constraint, constraints
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, TENANT_LABEL
from ansible_collections.kubegpu.tenancy.tests.contract.pods import (
    ADDED,
    CREATED,
    DEVICES,
    FOREIGN,
    ITS_OWN,
    KAIS,
    LATER,
    OWN,
    QUEUE,
    RECORDS,
    TENANT,
    VOID,
    pod,
)
from ansible_collections.kubegpu.tenancy.tests.unit.recipes import built

# Its manager, and gator.
GATEKEEPER = Program("gatekeeper", "v3.23.1", "github.com/open-policy-agent/gatekeeper/v3")
# Seconds of a run, on a machine that does something else.
RUN = 300
Object = dict[str, Any]
# Who has a scheduler of its own, and who has a sandbox, beside TENANT, who shares one.
OF_ITS_OWN, SANDBOXED = "own", "sandboxed"
CONSTRAINTS = {
    "shared": constraints(queue_policies(TENANT, ["vision"], True, "", ADDED)),
    "own": constraints(policies(OF_ITS_OWN, "partial", None, True, False, "", ADDED)),
    "sandbox": constraints(policies(SANDBOXED, "partial", None, False, False, "kata")),
    "records": constraints(record_policies(TENANT)),
}
ADMINISTRATOR, KAI = "admin", f"system:serviceaccount:{KAI_NAMESPACE}:binder"
SYNCER = f"system:serviceaccount:tenant-{SANDBOXED}:vc"


@pytest.fixture(name="gator", scope="module")
def _gator() -> str:
    return str(built(Path(__file__).parent, GATEKEEPER).program_dir(GATEKEEPER) / "gator")


@dataclasses.dataclass
class Request:
    """A request to the API server, and what it is refused for; empty where it is let through.

    :ivar before: the object that it changes; empty for a creation.
    """

    constraint: Constraint
    after: Object
    refusal: str
    before: Object = dataclasses.field(default_factory=dict)
    user: str = ADMINISTRATOR
    operation: str = ""
    subresource: str = ""

    def review(self) -> Object:
        """Return it as the API server hands it to a webhook."""
        shown = self.after or self.before
        group, _slash, version = shown["apiVersion"].rpartition("/")
        request: Object = {
            "uid": "1",
            "kind": {"group": group, "version": version, "kind": shown["kind"]},
            "resource": {"group": group, "version": version, "resource": f"{shown['kind'].lower()}s"},
            "subResource": self.subresource,
            "namespace": shown["metadata"]["namespace"],
            "operation": self.operation or ("UPDATE" if self.before else "CREATE"),
            "userInfo": {"username": self.user},
        }
        objects = {"object": self.after, "oldObject": self.before}
        request |= {name: item for name, item in objects.items() if item}
        return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def namespace(tenant: str) -> Object:
    labels = {} if tenant == "other" else {TENANT_LABEL: tenant}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"tenant-{tenant}", "labels": labels}}


def labelled(**labels: str) -> Object:
    return pod(OWN | labels, {}, f"tenant-{TENANT}")


def with_containers(*env: Object) -> Object:
    """Return a pod of a tenant that shares a scheduler, to which a container with such variables was added."""
    made = pod(OWN, {}, f"tenant-{TENANT}", gpus=1, runtime=TENANT)
    # An API server keeps no empty list.
    container = {"name": "seeing", "image": "none"} | ({"env": list(env)} if env else {})
    return made | {"spec": made["spec"] | {"ephemeralContainers": [container]}}


def creations() -> dict[str, Request]:
    """Return those of pods that an API server is asked, too."""
    (shared,), (own,) = CONSTRAINTS["shared"], CONSTRAINTS["own"]
    found = {
        f"shared: {name}": Request(shared, pod(labels, notes, f"tenant-{TENANT}", **spec), refusal)
        for name, (labels, notes, spec, refusal) in CREATED.items()
    }
    for name, refusal in ITS_OWN.items():
        labels, notes, spec, _refusal = CREATED[name]
        found[f"own: {name}"] = Request(own, pod(labels, notes, f"tenant-{OF_ITS_OWN}", **spec), refusal)
    return found


def changes() -> dict[str, Request]:
    (shared,) = CONSTRAINTS["shared"]
    namespace_name, group = f"tenant-{TENANT}", {"runai-gpu-group": "g"}
    plain, grouped = labelled(), labelled(**group)
    half, tenth = (pod(OWN, {"gpu-fraction": part}, namespace_name) for part in ("0.5", "0.1"))
    told = f"Set {DEVICES} to void in ephemeral containers"
    before = pod(OWN, {}, namespace_name, gpus=1, runtime=TENANT)

    def added(*env: Object) -> Object:
        return {"after": with_containers(*env), "before": before, "subresource": "ephemeralcontainers"}

    return {
        "a group by a person": Request(shared, grouped, KAIS, plain),
        "a group by KAI Scheduler": Request(shared, grouped, "", plain, KAI),
        "a group that stays": Request(shared, labelled(**group, app="x"), "", grouped),
        "another group": Request(shared, labelled(**{"runai-gpu-group": "h"}), KAIS, grouped),
        "no group any more": Request(shared, plain, KAIS, grouped),
        "another queue": Request(shared, labelled(**{QUEUE: "speech"}), FOREIGN, plain),
        "another queue from of old": Request(
            shared, labelled(**{QUEUE: "speech", "app": "x"}), "", labelled(**{QUEUE: "speech"})
        ),
        "another fraction": Request(shared, tenth, LATER, half),
        "a container that sees what its image says": Request(shared, refusal=told, **added()),
        "a container that sees all": Request(shared, refusal=told, **added({"name": DEVICES, "value": "all"})),
        "a container that sees nothing": Request(shared, refusal="", **added(*VOID)),
        "a change of a pod with a container from of old": Request(
            shared, with_containers() | {"metadata": labelled(app="x")["metadata"]}, "", with_containers()
        ),
        "a deletion": Request(shared, {}, "", labelled(**{QUEUE: "speech"}), operation="DELETE"),
        "other amounts": Request(shared, labelled(**{QUEUE: "speech"}), "", plain, subresource="resize"),
        "another namespace": Request(shared, pod({}, {}, "tenant-other"), ""),
    }


def of_a_sandbox() -> dict[str, Request]:
    pods, workloads = CONSTRAINTS["sandbox"]
    place = f"tenant-{SANDBOXED}"
    outside, inside = pod({}, {}, place), pod({}, {}, place, runtime="kata")
    told, told_of_workloads = "All pods of this tenant run in RuntimeClass kata", "change no pods of workloads here"

    def plane(image: str, **notes: str) -> Object:
        template = {"metadata": {"annotations": notes}, "spec": {"containers": [{"name": "c", "image": image}]}}
        metadata = {"name": "plane", "namespace": place}
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": {"template": template}}

    return {
        "outside by the tenant": Request(pods, outside, told, user=SYNCER),
        "outside by an administrator": Request(pods, outside, ""),
        "inside by the tenant": Request(pods, inside, "", user=SYNCER),
        "another image by the tenant": Request(workloads, plane("b"), told_of_workloads, plane("a"), SYNCER),
        "another image by an administrator": Request(workloads, plane("b"), "", plane("a")),
        "a note by the tenant": Request(workloads, plane("a", b="c"), "", plane("a"), SYNCER),
        "a workload by the tenant": Request(workloads, plane("a"), told_of_workloads, user=SYNCER),
    }


def of_records() -> dict[str, Request]:
    (records,) = CONSTRAINTS["records"]
    return {
        f"{kind} {number}": Request(
            records,
            {"apiVersion": "v1", "kind": kind, "metadata": {"name": "r", "namespace": f"tenant-{TENANT}", "labels": labels}},
            "passes for a record of Helm" if refused else "",
        )
        for kind in ("Secret", "ConfigMap")
        for number, (labels, refused) in enumerate(RECORDS)
    }


def write(path: Path, *documents: Object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    # As JSON, because PyYAML writes texts that gator would read as numbers.
    path.write_text("\n---\n".join(map(json.dumps, documents)))
    return path.name


def cases_of(folder: Path, requests: dict[str, Request]) -> list[Object]:
    """Write what gator reads of requests; return its tests, one for each constraint."""
    found: dict[str, Object] = {}
    for number, (name, request) in enumerate(requests.items()):
        kind = request.constraint.constraint["kind"]
        if kind not in found:
            template = write(folder / f"template-{kind}.yaml", request.constraint.template)
            constraint = write(folder / f"{kind}.yaml", request.constraint.constraint)
            found[kind] = {"name": kind, "template": template, "constraint": constraint, "cases": []}
        wanted = {"violations": "yes", "message": re.escape(request.refusal)} if request.refusal else {"violations": "no"}
        case = {"name": name, "object": write(folder / f"case-{number}.yaml", request.review()), "assertions": [wanted]}
        found[kind]["cases"].append(case | {"inventory": ["namespaces.yaml"]})
    return list(found.values())


def test_requests_have_the_verdict_of_the_api_server(gator: str, tmp_path: Path) -> None:
    requests = creations() | changes() | of_a_sandbox() | of_records()
    write(tmp_path / "namespaces.yaml", *map(namespace, (TENANT, OF_ITS_OWN, SANDBOXED, "other")))
    suite = {"apiVersion": "test.gatekeeper.sh/v1alpha1", "kind": "Suite", "tests": cases_of(tmp_path, requests)}
    write(tmp_path / "suite.yaml", suite)
    command = [gator, "verify", "--verbose", str(tmp_path / "suite.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN)
    failed = re.findall(r"^    --- FAIL: (.*)\t.*\n(.*)$", done.stdout, re.MULTILINE)
    assert (done.returncode, failed, done.stderr) == (0, [], "")
    assert len(re.findall("^    --- PASS", done.stdout, re.MULTILINE)) == len(requests)


# What a pod may not be when it is made, and may become by KAI Scheduler.
BY_OTHERS = (KAIS, "names no node itself")


def stored() -> dict[str, tuple[Object, str]]:
    """Return objects as they are stored, and what the audit says of them."""
    bound = pod(OWN | {"runai-gpu-group": "g"}, {"gpu-fraction": "0.5"}, f"tenant-{TENANT}", node="n1")
    # The audit does not know who made it, nor what it was before.
    outside = [of_a_sandbox()[name].after for name in ("outside by the tenant", "a workload by the tenant")]
    found = {
        name: (one.after, "" if one.refusal in BY_OTHERS else one.refusal) for name, one in (creations() | of_records()).items()
    }
    found |= {f"outside {number}": (item, "") for number, item in enumerate(outside)}
    return found | {
        "bound": (bound, ""),
        "seeing": (with_containers(), ""),
        "in another namespace": (pod({}, {}, "tenant-other"), ""),
    }


def test_the_audit_judges_what_is_stored_as_if_it_was_made_now(gator: str, tmp_path: Path) -> None:
    objects = stored()
    named = [
        item | {"metadata": item["metadata"] | {"name": f"o-{number}"}} for number, (item, _told) in enumerate(objects.values())
    ]
    made = [one for several in CONSTRAINTS.values() for one in several]
    namespaces = map(namespace, (TENANT, OF_ITS_OWN, SANDBOXED, "other"))
    write(tmp_path / "all.yaml", *(one.template for one in made), *(one.constraint for one in made), *namespaces, *named)
    command = [gator, "test", "--output=json", f"--filename={tmp_path / 'all.yaml'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN)
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, list[str]] = {}
    for one in json.loads(done.stdout):
        said.setdefault(one["violatingObject"]["metadata"]["name"], []).append(one["msg"])
    found = {name: said.get(f"o-{number}", []) for number, name in enumerate(objects)}
    wrong = {
        name: (found[name], told)
        for name, (_item, told) in objects.items()
        if (told not in " ".join(found[name])) or bool(found[name]) != bool(told)
    }
    assert wrong == {}
