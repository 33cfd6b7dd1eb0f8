# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The series by which GPU-hours are counted, where they come from, and what an inventory says of the server that has them."""

from __future__ import annotations

from .._common.names import KAI_NAMESPACE
from .._common.schema import Field, Fields
from .._metrics.facts import NAME as SERVICE

# Seconds of an hour, and of the steps within it at which series are read: a series that has no sample in the five minutes before such a step
# is not measured there. Prometheus takes a sample for that long (query.lookback-delta).
HOUR, STEP = 3600, 300
# A subquery has both of its ends before Prometheus 3, and its beginning no more from then on. So the beginning is no step.
RANGE = "59m59s:5m"
# Hours of one query, which bound its answer, and days of a report.
HOURS_OF_QUERY, MOST_DAYS = 24, 366

# What an inventory says of usage.
USAGE: Fields = {
    "url": Field(str, "Address of a server that answers PromQL: Prometheus, Thanos or Mimir. Empty: evidence is counted.", ""),
    "token": Field(str, "Bearer token for it, from a vault. Empty: none.", ""),
    "org_id": Field(str, "Tenant of a Mimir or Cortex, whose series are read: the header X-Scope-OrgID. Empty: none.", ""),
    "labels": Field(
        dict, "On a server for several clusters: labels that all series of this one have, such as cluster: gpu1.", {}
    ),
    "ca": Field(str, "PEM certificates of its authority. Empty: the system's.", ""),
    "proxy": Field(str, "Proxy, http or https, on the way to it. Empty: none.", ""),
    "evidence": Field(str, "Without url: folder on the controller with kept evidence, each in a folder of its own.", ""),
    "time_zone": Field(str, "Time zone of days, such as Europe/Berlin.", "UTC"),
    "prices": Field(dict, "Price of a GPU-hour by GPU product, such as NVIDIA-H100-80GB-HBM3.", {}),
    "currency": Field(str, "Currency of the prices, such as EUR.", ""),
    "folder": Field(str, "Folder on the controller for the report. Empty: it is only printed.", ""),
}
# These do not travel with the desired state, which more than one task shows.
SECRETS = frozenset({"token"})

# Whose GPUs are whose, as far as a product's name is not known, or where a promise holds for any product.
UNKNOWN, ANY = "unknown", "any"
# What tells which GPUs are held, in the order in which it is believed. Queues are a tenant's own word.
SOURCES = KUBE_STATE_METRICS, DCGM, QUEUES, EVIDENCE = (
    "kube-state-metrics",
    "DCGM exporter",
    "queues of KAI Scheduler",
    "evidence",
)

# --- series of the host cluster --------------------------------------------------------------------------------------------
#
# A tenant administers what is scraped by way of the Service kubegpu-metrics in its namespace, and could serve any series there. So no series
# of the host cluster is taken from it. Where a job has honor_labels: false, labels of the exporter begin with exported_.
_HOST = f'service!="{SERVICE}"'
_WHERE, _POD, _NODE = "namespace, exported_namespace", "pod, exported_pod", "node, exported_node"

# kubernetes/kube-state-metrics, internal/store: node.go, pod.go, namespace.go and resourcequota.go, v2.0 to v2.17. A label that a node has
# is there only with --metric-labels-allowlist.
_ALLOCATABLE = f'kube_node_status_allocatable{{resource="nvidia_com_gpu",{_HOST}}}'
_REQUESTS = f'kube_pod_container_resource_requests{{resource="nvidia_com_gpu",{_HOST}}}'
_PHASE = f'kube_pod_status_phase{{phase=~"Pending|Running",{_HOST}}}'
_SCHEDULED = f'kube_pod_status_scheduled{{condition="true",{_HOST}}}'
_QUOTA = f'kube_resourcequota{{resource="requests.nvidia.com/gpu",type="hard",{_HOST}}}'
_NAMESPACE = f'kube_namespace_status_phase{{phase="Active",{_HOST}}}'
NODE_LABELS = f"kube_node_labels{{{_HOST}}}"
# How that names the labels of nodes: each character that no label of Prometheus has is an underscore.
OWNER_LABEL, PRODUCT_LABEL = "label_tenant_kubegpu_tenancy_", "label_nvidia_com_gpu_product"

# NVIDIA/dcgm-exporter, internal/pkg/rendermetrics, 3.1 to 4.5: a series for each GPU, with the pod that has it.
_UTIL = f"DCGM_FI_DEV_GPU_UTIL{{{_HOST}}}"
_GPU = f"max by (UUID, Hostname, modelName, {_WHERE}) ({_UTIL})"

# By the name of each reading, an expression whose value at a step is a number of GPUs, or 1.
HOST_SERIES = {
    "measured": f"max({_ALLOCATABLE} >= bool 0)",
    "capacity": f"max by ({_NODE}) ({_ALLOCATABLE})",
    "taken": (
        f"sum by ({_WHERE}, {_NODE}) (max by ({_WHERE}, {_POD}, {_NODE}, container, exported_container) ({_REQUESTS})"
        f" * on ({_WHERE}, {_POD}) group_left ()"
        f" (max by ({_WHERE}, {_POD}) ({_PHASE}) * max by ({_WHERE}, {_POD}) ({_SCHEDULED}) == 1))"
    ),
    "exists": f"max by ({_WHERE}) ({_NAMESPACE}) == 1",
    "quota": f"min by ({_WHERE}) ({_QUOTA})",
    "labels": NODE_LABELS,
    "use_measured": f"max({_UTIL} >= bool 0)",
    "seen": f"count by (Hostname, modelName, {_WHERE}) ({_GPU})",
    "used": f"sum by (Hostname, modelName, {_WHERE}) ({_GPU}) / 100",
}

# --- series of KAI Scheduler -------------------------------------------------------------------------------------------------
#
# kai-scheduler/KAI-Scheduler, pkg/queuecontroller/metrics/metrics.go: the same names with the label queue_name, which is the Queue's name, at
# v0.12.0, v0.12.23, v0.13.4, v0.14.7, v0.15.3, v0.16.8 and v0.17.0. From v0.16.0 on queue_metadata_name has the same value. A queue's number
# contains those of the queues below it (pkg/queuecontroller/controllers/resource_updater), and no series says which these are.
QUEUE_SERIES = {
    "queues_measured": "max by (namespace) (kai_queue_info{%s})",
    "queue_promised": "max by (namespace, queue_name) (kai_queue_deserved_gpus{%s} >= 0)",
    "queue_held": "max by (namespace, queue_name) (kai_queue_allocated_gpus{%s})",
}
OWN_KAI, SHARED_KAI = f'service="{SERVICE}"', f'namespace="{KAI_NAMESPACE}",{_HOST}'

# --- evidence ----------------------------------------------------------------------------------------------------------------

# Seconds for which evidence counts at most, where none follows: a night, and the time that a run takes.
MOST_AGE = 26 * HOUR
# Bytes of one file, and files of a folder.
LARGEST_EVIDENCE, MOST_FILES = 64 * 2**20, 10_000
FORMAT, EVIDENCE_FILE = 2, "tenancy.json"
