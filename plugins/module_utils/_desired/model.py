# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The desired state of one cluster as typed objects: made by validation.py, and read by everything else."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.names import HOST_SCHEDULER_LABEL, RUNTIME_CLASS
from .._common.values import JsonObject, deep_merge
from .._nodes.status import node_selector
from .._schedulers.model import Scheduler
from .._vcluster.facts import DEFAULT_VERSION

# The shared KAI Scheduler leaves the pods alone that tenants' own KAI Schedulers place.
_SHARED_VALUES = {"global": {"namespaceLabelSelector": {HOST_SCHEDULER_LABEL: "kai"}}}


@dataclasses.dataclass(frozen=True)
class GpuNodes:
    """Which nodes with GPUs a tenant gets: by their count, names or labels; none of them for the nodes without GPUs.

    :ivar shared_gpus: GPU devices that its pods hold at most on nodes it shares; None where they are its own.
    :ivar share_gpus_with: own or any, see facts; None where nothing is said, as own.
    """

    count: int | None = None
    names: tuple[str, ...] = ()
    labels: dict[str, str] = dataclasses.field(default_factory=dict)
    shared_gpus: int | None = None
    share_gpus_with: str | None = None

    def __bool__(self) -> bool:
        return bool(self.count or self.names or self.labels)

    @property
    def least(self) -> int:
        """GPU nodes it is known to need; labels need one at least."""
        return self.count or len(self.names) or (1 if self.labels else 0)

    @property
    def divisible(self) -> bool:
        """Whether pods may have parts of their GPUs: where no other tenant's pods could have the rest, or all agreed to that."""
        return self.shared_gpus is None or self.share_gpus_with == "any"


@dataclasses.dataclass(frozen=True)
class VCluster:
    """A tenant's virtual cluster."""

    version: str = DEFAULT_VERSION
    kubernetes_version: str = ""
    values: JsonObject = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Tenant:
    """One tenant.

    :ivar oidc: issuer that its API server trusts, see OIDC of facts, every key filled in; empty for none. Its values are among those of vcluster.
    :ivar sandbox: RuntimeClass in which all its pods run, and whether pods get GPUs there, see SANDBOX of facts; empty for none.
    :ivar quota: bounds of its namespace, by their names in a ResourceQuota, in place of the defaults.
    :ivar network: services that its network policies let through, by direction.
    :ivar queues: tree of queues as people write it.
    :ivar expires: age after which it is not needed; empty for a tenant that is listed.
    :ivar path: where it stands in what was given, for refusals; it does not travel.
    """

    name: str
    trust: str
    state: str = "present"
    gpu_nodes: GpuNodes = GpuNodes()
    vcluster: VCluster = VCluster()
    oidc: JsonObject = dataclasses.field(default_factory=dict)
    sandbox: JsonObject = dataclasses.field(default_factory=dict)
    quota: JsonObject = dataclasses.field(default_factory=dict)
    network: JsonObject = dataclasses.field(default_factory=dict)
    scheduler: Scheduler | None = None
    queues: tuple[JsonObject, ...] = ()
    expires: str = ""
    path: str = dataclasses.field(default="", compare=False)

    @property
    def runtime_class(self) -> str:
        """The RuntimeClass in which all its pods run; empty for none."""
        return str(self.sandbox.get("runtime_class", ""))

    @property
    def shares_scheduler(self) -> bool:
        """Whether the host cluster's KAI Scheduler places its pods."""
        return self.scheduler is not None and self.scheduler.shared

    @property
    def own_scheduler(self) -> Scheduler | None:
        """The scheduler inside its virtual cluster, if any."""
        return None if self.shares_scheduler else self.scheduler

    def divides_gpus(self, shared: t.Mapping[str, t.Any]) -> bool:
        """Tell whether its pods may ask for parts of GPUs: of a scheduler of its own, or of the one that it shares.

        :arg shared: the host cluster's KAI Scheduler, as ``kubegpu_shared_scheduler`` describes it; empty where there is none.
        """
        if self.shares_scheduler:
            return bool(shared.get("gpu_sharing")) and self.gpu_nodes.divisible
        return self.scheduler is not None and self.scheduler.gpu_sharing

    def data(self) -> JsonObject:
        """Return it as plain data with every key, the form in which it travels through playbooks to modules."""
        nodes = {key: value for key, value in dataclasses.asdict(self.gpu_nodes).items() if value}
        if self.gpu_nodes.names:
            nodes["names"] = list(self.gpu_nodes.names)
        return {
            "name": self.name,
            "trust": self.trust,
            "state": self.state,
            "gpu_nodes": nodes,
            "vcluster": dataclasses.asdict(self.vcluster),
            "oidc": self.oidc,
            "sandbox": self.sandbox,
            "quota": self.quota,
            "network": self.network,
            "scheduler": dataclasses.asdict(self.scheduler) if self.scheduler else {},
            "queues": list(self.queues),
            "expires": self.expires,
        }


@dataclasses.dataclass(frozen=True)
class Platform:
    """What the cluster asks of all tenants on it, whose charts' values follow from it.

    :ivar runtime_class: RuntimeClass of pods with GPUs; empty for none.
    :ivar tolerations: of everything of tenants.
    :ivar storage_class: of the control planes' volumes; empty for the cluster's default.
    :ivar sandbox: of tenants with zero trust that name none themselves, as of a tenant.
    :ivar api: how tenants' API servers are reached, see TENANT_API of facts.
    :ivar names: names and addresses of the host's gateway, which the certificates of tenants' API servers have, too.
    """

    runtime_class: str = RUNTIME_CLASS
    tolerations: tuple[JsonObject, ...] = ()
    storage_class: str = ""
    sandbox: JsonObject = dataclasses.field(default_factory=dict)
    api: JsonObject = dataclasses.field(default_factory=dict)
    names: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """Host name of a tenant's API server, with {tenant} for the tenant's name; empty where it is reached by an address."""
        return str(self.api.get("host", ""))

    @property
    def of_schedulers(self) -> tuple[str, tuple[JsonObject, ...]]:
        """What it asks of tenants' schedulers: the RuntimeClass and the tolerations."""
        return self.runtime_class, self.tolerations

    def data(self) -> JsonObject:
        """Return what playbooks need of it as plain data."""
        return {"runtime_class": self.runtime_class, "tolerations": list(self.tolerations), "tenant_host": self.host}


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Everything an inventory says of one cluster.

    :ivar kubeconfig: the administrator's, on the inventory host.
    :ivar tenants_folder: for the tenants' kubeconfigs there: always a folder of this collection, wherever the administrator's is.
    :ivar kubeconfig_dir: for copies of all of them on the controller.
    :ivar platform: what the values of the tenants' charts already follow from, and probes have to know.
    :ivar workers: GPU devices of each worker node of a cluster that is made; None where the cluster exists.
    :ivar tenants: all that are listed, and the temporary one; ``only``, the names of those to act on, empty for all of them.
    :ivar shared_scheduler: the host cluster's KAI Scheduler; None where none is wanted.
    :ivar blueprint: its name, its digest, and the paths at which the inventory differs from it; empty where none is named.
    :ivar metrics: the Prometheus that reads them, see READER of _metrics, every key filled in; empty for none.
    :ivar usage: where GPU-hours are read, see USAGE of _usage, every key but the token filled in; empty where nothing is said.
    :ivar gateway: at which address of the GPU host tenants are reached, see GATEWAY of _gateway, every key filled in; empty for none.
    :ivar rehearsal: what a change of KAI Scheduler needs, as role kai_scheduler takes it; empty where it needs no verdict.
    :ivar backup: ``folder`` on the controller with the backups of tenants, how many it may ``keep`` of each, whether to ``encrypt`` them,
        and whether an upgrade, a reset and a removal are ``required`` to take one.
    :ivar accepted_hazards: the hazards that touch what is asked of KAI Schedulers and were accepted, by tenant, of the shared one by
        the name of its variable; ``unsupported`` alike, the end of support where it was not accepted.
    :ivar combinations: of versions that upstream does not list, a sentence each: the ``accepted`` ones, and the ``untested`` ones
        that were neither accepted nor refused.
    """

    blueprint: JsonObject
    provider: str
    kubeconfig: str
    tenants_folder: str
    kubeconfig_dir: str
    kubeconfig_proxy: str
    charts: str
    platform: Platform
    workers: tuple[int, ...] | None
    tenants: tuple[Tenant, ...]
    only: tuple[str, ...]
    shared_scheduler: Scheduler | None
    metrics: JsonObject
    usage: JsonObject
    gateway: JsonObject
    unlisted: str
    accept_unenforced_network_policies: bool
    accept_lost_pods: bool
    accept_lost_volumes: bool
    rehearsal: JsonObject
    backup: JsonObject
    accept_combinations: list[str]
    accepted_hazards: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    unsupported: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    combinations: JsonObject = dataclasses.field(default_factory=lambda: {"accepted": [], "untested": []})

    @property
    def selected(self) -> tuple[Tenant, ...]:
        """The tenants to act on."""
        only = set(self.only)
        return tuple(tenant for tenant in self.tenants if not only or tenant.name in only)

    @property
    def shared_queues(self) -> list[JsonObject]:
        """The queues of all tenants that share the host cluster's scheduler: one tree, in the tenants' order."""
        return [
            queue for tenant in self.tenants if tenant.shares_scheduler and tenant.state != "absent" for queue in tenant.queues
        ]

    @property
    def shared_nodes(self) -> dict[str, str]:
        """The label of nodes whose GPUs the host cluster's scheduler gives out: those of a tenant that shares it, with GPUs if any has."""
        sharing = [tenant for tenant in self.tenants if tenant.shares_scheduler and tenant.state == "present"]
        names = [tenant.name for tenant in sorted(sharing, key=lambda tenant: not tenant.gpu_nodes)]
        return node_selector(names[0]) if names else {}

    def data(self) -> JsonObject:
        """Return it as plain data, the form in which it travels through playbooks."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return plain | {
            "platform": self.platform.data(),
            "workers": None if self.workers is None else list(self.workers),
            "tenants": [tenant.data() for tenant in self.tenants],
            "selected": [tenant.data() for tenant in self.selected],
            "only": list(self.only),
            "shared_scheduler": _shared(self.shared_scheduler) if self.shared_scheduler else {},
            "shared_queues": self.shared_queues,
            "shared_nodes": self.shared_nodes,
        }


def _shared(scheduler: Scheduler) -> JsonObject:
    """Return the shared scheduler as plain data, with what its chart is told for tenants."""
    return dataclasses.asdict(scheduler) | {"values": deep_merge(_SHARED_VALUES, scheduler.values)}
