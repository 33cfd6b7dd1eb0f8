# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.synced import SYNCED_NAME, joined
from ansible_collections.kubegpu.tenancy.plugins.module_utils._vcluster import facts, status
from ansible_collections.kubegpu.tenancy.tests.unit.synced import synced as on_host


def test_classes_to_list():
    def found(kind, name, labels=None, default=None):
        annotations = {"storageclass.kubernetes.io/is-default-class": default} if default else None
        return {"kind": kind, "metadata": {"name": name, "labels": labels, "annotations": annotations}}

    nvidia, standard = found("RuntimeClass", "nvidia", {"a": "b"}), found("StorageClass", "standard", default="true")
    others = [found("RuntimeClass", "kata"), found("StorageClass", "fast"), found("StorageClass", "slow", default="false")]
    assert status.classes_to_list([nvidia, standard, *others]) == [nvidia, standard]
    assert status.classes_to_list([found("RuntimeClass", "nvidia", {facts.LISTED_CLASS: "yes"})]) == []


def workload(ready=1, generation=1, seen=1, revision="r1"):
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": seen, "readyReplicas": ready, "updatedReplicas": ready, "updateRevision": revision},
    }


def pod(revision="r1", waiting=None, phase="Running", host="10.0.0.3", conditions=(), restarts=0):
    state = {"waiting": waiting} if waiting else {"running": {}}
    return {
        "metadata": {"name": "web-0", "labels": {"controller-revision-hash": revision}},
        "status": {
            "phase": phase,
            "hostIP": host,
            "conditions": list(conditions),
            "containerStatuses": [{"name": "syncer", "state": state, "restartCount": restarts}],
        },
    }


CRASH = {"reason": "CrashLoopBackOff", "message": "back-off 10s"}


@pytest.mark.parametrize(
    ("item", "pods", "ready", "seen", "crashed"),
    [
        (None, [], False, "does not exist yet", None),
        (workload(), [pod()], True, "", None),
        (workload(generation=2), [pod()], False, "latest change", None),
        (workload(ready=0), [], False, "no pod yet", None),
        (workload(ready=0), [pod(waiting=CRASH, restarts=3)], False, "CrashLoopBackOff (back-off 10s)", ("web-0", "syncer")),
        (workload(ready=0), [pod(waiting=CRASH, restarts=1)], False, "CrashLoopBackOff (back-off 10s)", None),
        (workload(ready=0, revision="r2"), [pod(waiting=CRASH)], False, "no pod yet", None),
        (
            workload(ready=0),
            [pod(waiting={"reason": "ImagePullBackOff", "message": "no such image"})],
            False,
            "pod web-0: syncer: ImagePullBackOff (no such image)",
            None,
        ),
        (
            workload(ready=0),
            [
                pod(
                    phase="Pending",
                    conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}],
                )
            ],
            False,
            "pod web-0: Unschedulable (0/3)",
            None,
        ),
    ],
)
def test_judge(item, pods, ready, seen, crashed):
    verdict = status.judge(item, pods)
    assert (verdict.ready, verdict.crashed) == (ready, crashed)
    assert seen in verdict.seen


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        (
            "an old error\nthe disk is full\n\x1b[34mINFO\x1b[0m so\n\x1b[31mERROR\x1b[0m kine failed\nFATAL no store\nINFO bye\n",
            "the disk is full | ERROR kine failed | FATAL no store",
        ),
    ],
)
def test_last_words_are_about_what_went_wrong(log, words):
    assert status.failure_lines(log) == words


def synced(name="job", owners=None, namespace="default", phase="Running", **metadata):
    annotations = {}
    if owners is not None:
        annotations[facts.SYNCED_OWNERS] = owners if isinstance(owners, str) else json.dumps(owners)
    made = {"metadata": {"name": name, "annotations": annotations}, "status": {"phase": phase}}
    made = on_host(made, "web", namespace)
    return made | {"metadata": made["metadata"] | metadata}


@pytest.mark.parametrize(
    ("pod", "lost"),
    [
        (synced(), ["default/job"]),
        (synced(owners=[]), ["default/job"]),
        (synced(owners="not JSON"), ["default/job"]),
        (synced(owners=[{"kind": "Notebook", "controller": False}]), ["default/job"]),
        (synced(owners=[{"kind": "Notebook"}, {"kind": "ReplicaSet", "controller": True}]), []),
        (synced(phase="Pending"), ["default/job"]),
        (synced(phase="Succeeded"), []),
        (synced(phase="Failed"), []),
        (synced(deletionTimestamp="2026-11-21T12:00:00Z"), []),
        (synced(namespace="kai-resource-reservation"), []),
        (synced(annotations={}), ["default/job"]),
        # The tenant's own words about it.
        (synced(annotations={SYNCED_NAME: "other", "vcluster.loft.sh/namespace": "x"}), ["default/job"]),
        (synced("j" * 60), ["default/" + "j" * 60]),
        (synced("j" * 60, annotations={SYNCED_NAME: "other"}), ["default/" + joined("j" * 60, "x", "default", "x", "web")]),
        (synced(owners="{" * 100_000), ["default/job"]),
        (synced(owners='[1, {"controller": true}]'), []),
    ],
)
def test_pods_that_nobody_brings_back(pod, lost):
    assert status.lost_pods([pod]) == lost


def test_lost_pods_in_order():
    assert status.lost_pods([synced("b"), synced("a"), synced("c", namespace="a")]) == ["a/c", "default/a", "default/b"]
