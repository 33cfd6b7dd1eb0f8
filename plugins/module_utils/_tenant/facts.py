# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Names of what is recorded about a tenant on its host cluster, beside its virtual cluster."""

from __future__ import annotations

from .._common.ownership import NOT_SYNCED

# ConfigMap in the tenant's namespace: what was verified, and what that rests on.
RECORD = "kubegpu-verified"
RECORD_LABEL = "kubegpu.tenancy/record"
RECORD_SELECTOR = f"{RECORD_LABEL}=verified,{NOT_SYNCED}"

# What bounds the pods of a tenant's namespace, by its chart.
BOUNDS = (("networking.k8s.io/v1", "NetworkPolicy"), ("v1", "ResourceQuota"), ("v1", "LimitRange"))

# What there may be to do for a tenant.
CHANGE, VERIFY = "change", "verify"

# Labels of the Secret in which vCluster keeps a virtual cluster's kubeconfig (pkg/util/kubeconfig of vCluster).
KUBECONFIG_SECRETS = f"app=vcluster,vcluster-name,{NOT_SYNCED}"
# State of a tenant of which the host cluster could not be read; no virtual cluster is in it.
NOT_READ = "not read"

# Parts of the work on a tenant, as its report and everything that shows it name them.
VIRTUAL_CLUSTER, METRICS, KUBECONFIG, NODES = "virtual cluster", "metrics", "kubeconfig", "nodes"
FORMER_KAI, FORMER_SCHEDULERS = "KAI Scheduler that is not wanted", "schedulers that are not wanted"
REHEARSAL, KAI_SCHEDULER, QUEUES, SCHEDULER = "rehearsal", "KAI Scheduler", "queues", "scheduler"
# Parts of the work on a tenant that return results of checks, which are recorded.
RECORDED = CHECKS, POLICIES, SHARED, NETWORK, SANDBOX = (
    "checks",
    "checks of policies",
    "checks of what is shared",
    "checks of the network",
    "checks of the sandbox",
)
