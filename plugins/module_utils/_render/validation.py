# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What of a tenant no file can say, because it takes steps in an order, or would show a secret. Pure."""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t

from .._admission.facts import POLICY, SINCE
from .._common.errors import Problem
from .._common.names import namespace_of
from .._common.ownership import annotations_of
from .._common.schema import Problems, named
from .._common.secrets import without_password
from .._common.values import JsonObject, Values, value_at
from .._desired.values import vcluster_options
from .._kai.plan import Action, Move, Transition, actions
from .._kai.validation import parse_installed
from .._kai.validation import release as find_release
from .._schedulers.families import family_of
from .._vcluster import validation as vcluster
from .._vcluster.facts import RESTORING, SCHEDULER_ANNOTATION
from .._vcluster.lifecycle import pod_policies
from .._vcluster.values import kubernetes_of, wanted
from .facts import HELM_RELEASE
from .plan import Target
from .values import chart_of

if t.TYPE_CHECKING:
    from .._artifacts.plan import Installation
    from .._desired.model import Tenant
    from .._schedulers.model import Scheduler
    from .._tenant.status import Live

# Steps to a release of KAI Scheduler that a plain upgrade of its chart has, too, or can do without.
_OF_CHARTS = {Action.PULL, Action.APPLY_CRDS, Action.START_COPY, Action.APPLY_CHART}
_SITE_FIRST = "Suspend its objects in Flux, run site, delete its folder here, and render again."

_SECRET_KEY = re.compile(
    r"(password|passwd|passphrase|token|client_?secret|secret_?key|private_?key|api_?key|access_?key)", re.IGNORECASE
)
_SECRET_TEXT = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----|^[ \t-]*\"?kind\"?:[ \t]*\"?Secret\b", re.MULTILINE)


class Former(t.NamedTuple):
    """The scheduler that the files of a tenant had until now: its Helm release and its version; empty for none."""

    release: str = ""
    version: str = ""


@dataclasses.dataclass(frozen=True)
class Seen:
    """What there is of a tenant, on its cluster and in its files.

    :ivar config: the whole configuration of its virtual cluster; None where it has none.
    :ivar booked: a sentence for each node whose GPUs another virtual cluster books, too.
    :ivar kubernetes: version of the host cluster; ``classes``, names of its RuntimeClasses.
    """

    live: Live
    config: Values | None
    booked: t.Sequence[str]
    former: Former
    kubernetes: str
    classes: t.Collection[str]


@dataclasses.dataclass(frozen=True)
class Demands:
    """What the inventory asks before a change.

    :ivar backup: an upgrade of a virtual cluster needs a backup; ``verdict``, one of KAI Scheduler needs that of a rehearsal.
    """

    backup: bool
    verdict: bool


def refusals(tenant: Tenant, releases: t.Sequence[Installation], seen: Seen, demands: Demands, target: Target) -> list[Problem]:
    """Return why no files are written for a tenant, each sentence with its name in front.

    :arg releases: of its virtual cluster, then of its scheduler, if it has one of its own.
    """
    problems = Problems()
    own = tenant.own_scheduler
    _check_state(tenant, seen.live, problems)
    _check_virtual_cluster(tenant, releases[0].values, seen, demands, problems)
    problems.extend(Problem("gpus-in-use", f"node_selector: {sentence}.") for sentence in seen.booked)
    options = vcluster_options(tenant, target.shared)
    if not target.enforces and pod_policies(options, wanted(options)):
        needs = f"{POLICY} needs Kubernetes {SINCE[0]}.{SINCE[1]}, and the host cluster has {seen.kubernetes}."
        problems.add("version-too-old", "gpu_nodes", needs)
    problems.extend(filter(None, [vcluster.missing_sandbox(tenant.runtime_class, tenant.name, seen.classes)]))
    _check_scheduler(own, releases[-1].hooks, seen, demands, problems)
    if own and target.flux:
        _check_way(tenant, releases, problems)
    for release in releases:
        problems.extend(_secrets(release.values, f"{release.chart}: values"))
    return [problem.within(f"{tenant.name}: ") for problem in problems]


def _check_state(tenant: Tenant, live: Live, problems: Problems) -> None:
    if tenant.expires:
        problems.add("temporary", "kubegpu_temporary_tenant", "is made and removed by playbooks. Render without it.")
    if "paused" in (tenant.state, live.state):
        text = (
            "the next upgrade of its chart would start a paused tenant. Leave it out by kubegpu_only, or resume it by site first."
        )
        problems.add("paused", "state", text)
    if live.state == "removing":
        problems.add("being-removed", "state", "its namespace is being removed. Wait for the end.")
    if RESTORING in annotations_of(live.workload):
        problems.add("restore-unfinished", "state", "a restore was cut off. Restore it again by the playbook restore.")


def _check_virtual_cluster(tenant: Tenant, values: Values, seen: Seen, demands: Demands, problems: Problems) -> None:
    """Refuse what site refuses of a change, and an upgrade that it does in several steps, or after a backup."""
    version, live = tenant.vcluster.version, seen.live
    problems.ask("", lambda: vcluster.check_skew(version, tenant.vcluster.kubernetes_version or None, seen.kubernetes))
    have = live.vcluster_version
    if have is None:
        return
    kubernetes, asked = live.kubernetes_version, kubernetes_of(version, values)
    problems.ask("", lambda: vcluster.check_kubernetes_upgrade(kubernetes, asked))
    if seen.config is not None:
        config = seen.config
        problems.ask("", lambda: vcluster.check_store(config, values))
    path = problems.ask("", lambda: vcluster.upgrade_path(have, version, None)) or []
    if len(path) > 1:
        text = f"vCluster {have} is running, and its upgrade goes over {path[0]}. Write each version, and render, one after the other."
        problems.add("minor-version-skipped", "version", text)
    if demands.backup and (have != version or (tenant.vcluster.kubernetes_version and kubernetes != asked)):
        text = f"kubegpu_backup is required, and Flux takes none before an upgrade from vCluster {have}. {_SITE_FIRST}"
        problems.add("backup-required", "vcluster", text)


def _check_scheduler(own: Scheduler | None, hooks: bool, seen: Seen, demands: Demands, problems: Problems) -> None:
    """Refuse another scheduler than there was, and releases of KAI Scheduler that a chart alone does not make.

    :arg hooks: whether the hooks of its chart have to run.
    """
    former, noted = seen.former, annotations_of(seen.live.namespace).get(SCHEDULER_ANNOTATION, "")
    kai = own is not None and own.own_kai
    release_name = family_of(own.name).release_name(own) if own else ""
    if (former.release and former.release != release_name) or (noted and not kai):
        text = f"the scheduler that there is, {former.release or 'KAI Scheduler'}, is to go, which Flux would install again. {_SITE_FIRST}"
        problems.add("needs-steps", "scheduler", text)
        return
    if own is None or not kai:
        return
    if demands.verdict:
        text = "kubegpu_rehearsal asks for a verdict before each change of KAI Scheduler, and Flux does not. Leave the tenant to site."
        problems.add("needs-verdict", "scheduler", text)
    for before in sorted({noted, former.version} - {""}):
        problems.extend(problems.ask("scheduler.", functools.partial(_on_the_way, own.version, before)) or [])
    release = find_release(own.version)
    if release.foreign_crds or hooks:
        text = (
            f"{release.version} needs CRDs or hooks that no file brings. Take v0.12.0 or later, and no migration of topologies."
        )
        problems.add("needs-steps", "scheduler.version", text)


def _on_the_way(version: str, before: str) -> list[Problem]:
    """Return why no file says the way from one release of KAI Scheduler to another.

    :arg version: of the wanted one; ``before``, of the one that is installed.
    """
    release, installed = find_release(version), parse_installed(before)
    if installed == release.number:
        return []
    change = Transition(release, installed, installed=True, differs=True, replaces=True)
    steps = actions(change)
    if change.move is Move.UPGRADE and _OF_CHARTS.issuperset(steps):
        return []
    told = ", ".join(step.value[0].format(**change.names) for step in steps)
    text = f"{before} is installed, and site goes to {release.version} by steps that no file says: {told}. {_SITE_FIRST}"
    return [Problem("needs-steps", f"scheduler.version: {text}")]


def _check_way(tenant: Tenant, releases: t.Sequence[Installation], problems: Problems) -> None:
    """Refuse a virtual cluster that Flux does not reach, and a chart that it cannot fetch."""
    if not value_at(releases[0].values, "exportKubeConfig.server"):
        address = f"https://{tenant.name}.{namespace_of(tenant.name)}"
        text = f"Flux reaches the scheduler by the kubeconfig that vCluster keeps, which has no address of a Service. Set it to {address}."
        problems.add("missing", "vcluster.values.exportKubeConfig.server", text)
    if not chart_of(releases[-1])[0]:
        problems.add("not-applicable", "scheduler.chart", "is a path on a host, which Flux does not reach. Name a repository.")


def _secrets(value: t.Any, path: str, key: str = "") -> t.Iterator[Problem]:
    """Yield what of a chart's values looks like a secret, by its key or its text."""
    if isinstance(value, dict):
        if value.get("kind") == "Secret":
            yield _secret(path)
        for name, below in value.items():
            yield from _secrets(below, f"{path}.{named(name)}", str(name))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _secrets(below, f"{path}[{number}]", key)
    elif isinstance(value, str) and value and _shows_secret(value, key):
        yield _secret(path)


def _shows_secret(text: str, key: str) -> bool:
    return bool(_SECRET_KEY.fullmatch(key) or _SECRET_TEXT.search(text)) or without_password(text) != text


def _secret(path: str) -> Problem:
    return Problem(
        "looks-secret", f"{path}: looks like a secret, which git would show. Keep it in a Secret, and have the values name that."
    )


def former_of(documents: t.Iterable[JsonObject]) -> Former:
    """Return which scheduler a file describes, by Flux's objects or by the chart of a Helm release."""
    for item in documents:
        flux = item.get("kind") == HELM_RELEASE[1]
        paths = ("spec.releaseName", "spec.chart.spec.version") if flux else ("release", "version")
        release, version = (value_at(item, path) for path in paths)
        if release:
            return Former(str(release), str(version or ""))
    return Former()
