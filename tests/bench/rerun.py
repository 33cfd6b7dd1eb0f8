# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long site.yml takes where all is as desired, alone and with fifty more tenants, and how long a reset of a tenant takes.

python tests/bench/rerun.py
"""

from __future__ import annotations

import base64
import datetime
import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import KAI_NAMESPACE, TENANT_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.ownership import OWNED_LABELS
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_FROM_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.tenants import tenants_from
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.lifecycle import record
from ansible_collections.kubegpu.tenancy.plugins.module_utils._tenant.values import wanted
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster.facts import RENDERED_ANNOTATION, minor_version
from ansible_collections.kubegpu.tenancy.tests.faults.labs import ROOT, Cluster, Lab, changed
from fleet import LAYOUT, TENANTS
from report import now, today, write_section

MORE = 50
ROUNDS = 3
TENANTS_FOLDER = "/etc/kubegpu/kubegpu/tenants"
# Re-runs without the lab's own part.
SITE = "playbooks/site"


def seconds(lab: Lab, book: str, *args: str, changes: bool = False) -> float:
    """The seconds of a playbook, which has to succeed; site.yml changes nothing, unless it may."""
    began = time.monotonic()
    said = lab.play(book, *args)
    if lab.code:
        raise SystemExit(said[-6000:])
    if book.endswith("site") and changed(said) and not changes:
        raise SystemExit(f"it changed something: {said[-6000:]}")
    took = time.monotonic() - began
    print(f"{book} {' '.join(args)[:60]}: {took:.1f} s", flush=True)
    return took


def reset(lab: Lab) -> tuple[float, list[tuple[str, float]]]:
    """The seconds of a reset of one tenant, and those of its tasks and steps that take a second or more."""
    profile = {"ANSIBLE_CALLBACKS_ENABLED": "ansible.posix.profile_tasks", "PROFILE_TASKS_TASK_OUTPUT_LIMIT": "all"}
    began = time.monotonic()
    os.environ.update(profile)
    said = lab.play("reset", "-v", "--extra-vars=kubegpu_only=team-ml")
    for name in profile:
        del os.environ[name]
    if lab.code:
        raise SystemExit(said[-6000:])
    took = time.monotonic() - began
    told, _recap, tasks = said.rpartition("TASKS RECAP")
    print(tasks, flush=True)
    spent = re.findall(r"^(?:.* : )?(.+?) -+ ([\d.]+)s$", tasks, re.MULTILINE)
    spent += re.findall(r"^ *(?:\S+: )?(step: .*) \(.*, ([\d.]+) s\)$", told, re.MULTILINE)
    return took, [(name, float(seconds)) for name, seconds in spent if float(seconds) >= 1]


def starts(cluster: Cluster) -> list[tuple[str, float]]:
    """The seconds that the programs themselves took to start in the reset, by their pods' conditions: nothing here can shorten them."""
    pods = cluster.kube.list("v1", "Pod", "tenant-team-ml")
    plane = [pod for pod in pods if pod["metadata"]["name"] == "team-ml-0"]
    kai = [pod for pod in pods if pod["metadata"]["labels"].get(SYNCED_FROM_LABEL) == KAI_NAMESPACE]
    if not plane or not kai:
        raise SystemExit(f"no pods of the control plane or of KAI Scheduler: {[pod['metadata']['name'] for pod in pods]}")
    return [
        ("vCluster's control plane, from placed to ready", started(plane)),
        ("KAI Scheduler's pods, from placed to ready", started(kai)),
    ]


def started(pods: list[dict[str, Any]]) -> float:
    """The seconds from the first pod's place to the last one's readiness."""
    moments = {
        kind: [
            datetime.datetime.fromisoformat(item["lastTransitionTime"])
            for pod in pods
            for item in pod["status"]["conditions"]
            if item["type"] == kind
        ]
        for kind in ("PodScheduled", "Ready")
    }
    return (max(moments["Ready"]) - min(moments["PodScheduled"])).total_seconds()


def start_of_ansible() -> float:
    """The seconds of a play that does nothing, on the machine it runs on."""
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder) / "nothing.yml"
        book.write_text(yaml.safe_dump([{"name": "Do nothing", "hosts": "localhost", "gather_facts": False, "tasks": []}]))
        began = time.monotonic()
        subprocess.run(["ansible-playbook", str(book)], cwd=ROOT, check=True, capture_output=True)
        return time.monotonic() - began


def entry(number: int) -> dict[str, Any]:
    return {"name": f"idle-{number:02}", "trust": "high", "vcluster": {"kubernetes_version": "v1.35.4"}}


def objects(name: str, secret: dict[str, str], host: str) -> list[dict[str, Any]]:
    """What a host cluster shows of a tenant whose control plane needs no pod.

    :arg host: minor version of its Kubernetes.
    """
    namespace, labels = f"tenant-{name}", {"app": "vcluster", "release": name, "vcluster-name": name}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "none", "image": "none"}]}}
    spec = {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": pod}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    owned = OWNED_LABELS | {TENANT_LABEL: name}
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": owned, "annotations": {RENDERED_ANNOTATION: host}},
        },
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
        {"apiVersion": "v1", "kind": "Secret", "metadata": metadata | {"name": f"vc-{name}"}, "data": secret},
    ]


def add_idle_tenants(lab: Lab, cluster: Cluster) -> None:
    """Have fifty tenants that are as desired, by the objects that show it."""
    secret = {
        key: base64.b64encode(key.encode()).decode() for key in ("certificate-authority", "client-certificate", "client-key")
    }
    kubeconfig = {
        "clusters": [
            {"name": "x", "cluster": {"server": "https://x", "certificate-authority-data": secret["certificate-authority"]}}
        ],
        "users": [{"name": "x", "user": {f"{key}-data": secret[key] for key in ("client-certificate", "client-key")}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    text = json.dumps(kubeconfig)
    node = next(
        item["metadata"]["name"] for item in cluster.kube.list("v1", "Node") if "nvidia.com/gpu" not in item["status"]["capacity"]
    )
    host = minor_version(cluster.kube.version())
    idle = tenants_from([entry(number) for number in range(MORE)])
    cluster.kube.patch(
        "v1", "Node", node, {"metadata": {"labels": {f"tenant.kubegpu.tenancy/{one.name}": "true" for one in idle}}}
    )
    for one in idle:
        for item in objects(one.name, secret, host):
            cluster.kube.create(item)
        lab.run("sh", "-c", f"umask 077; echo '{text}' > {TENANTS_FOLDER}/{one.name}.yml")
    time.sleep(5)
    for one in idle:
        record(
            cluster.kube, one.name, wanted(one, {}), [{"name": "page", "verdict": "passed", "reason": "", "seconds": 0}], now()
        )


def main() -> None:
    with Lab("kubegpu-bench", f"--extra-vars={json.dumps(LAYOUT)}") as lab:
        lab.site()
        seconds(lab, "site")
        nothing = min(start_of_ansible() for _round in range(ROUNDS))
        alone = min(seconds(lab, SITE) for _round in range(ROUNDS)) - nothing
        whole, parts = reset(lab)
        print(f"reset: {whole:.1f} s, {parts}", flush=True)
        cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
        own = starts(cluster)
        add_idle_tenants(lab, cluster)
        all_of_them = f"--extra-vars={json.dumps({'kubegpu_tenants': TENANTS + [entry(number) for number in range(MORE)]})}"
        # It hands the new ones' kubeconfigs over.
        seconds(lab, SITE, all_of_them, changes=True)
        many = min(seconds(lab, SITE, all_of_them) for _round in range(ROUNDS)) - nothing
    lines = [
        "| | seconds |",
        "| --- | --- |",
        f"| three tenants, two of them with KAI Scheduler, all as desired | {alone:.1f} |",
        f"| with {MORE} more tenants that are as desired | {many:.1f} |",
        f"| a tenant reset: removed with proof, made again with KAI Scheduler and queues, to a passed probe | {whole:.1f} |",
        *(f"| of that: {name} | {spent:.1f} |" for name, spent in parts),
        *(f"| in these, by the programs themselves: {name} | {spent:.0f} |" for name, spent in own),
    ]
    print("\n".join(lines), flush=True)
    write_section(
        "Re-runs of site.yml",
        f"{today()}. The first two are the best of {ROUNDS}, without the lab's own part and without the {nothing:.1f} seconds that Ansible "
        "takes to start and do nothing. The reset is whole, with its tasks of a second or more; the last rows are how long the programs "
        "themselves took to start in it.\n\n" + "\n".join(lines),
    )


if __name__ == "__main__":
    main()
