# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What differs between the schedulers that this collection installs in virtual clusters.

``Family`` is any scheduler, by its chart alone. A scheduler of which more is known has a class of its own, which is a row of families.py.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._common.errors import TenancyError
from .._common.schema import Problems, named, quoted
from .._common.text import shown
from .._common.values import JsonObject, Values
from .facts import NAME, NO_SCHEDULERS, RESERVED, RESERVED_PREFIX, is_reserved
from .model import Entry, Scheduler
from .status import listed
from .values import namespace

if t.TYPE_CHECKING:
    from .._adapters.kubernetes import Kube
    from .._common.parties import Unread
    from .._common.pods import Answer
    from .._common.run import Params, Result, Run
    from .._common.values import Key
    from .._queues.plan import Change

# Returns the objects of a list of a virtual cluster's API, such as of /apis/scheduling.volcano.sh/v1beta1/queues.
Read = t.Callable[[str], list[JsonObject]]
# What helm takes as arguments: none of it begins with "-", which would be an option.
_CHART_FORMS = (
    ("version", re.compile(r"[0-9A-Za-z][-+.0-9A-Za-z]*"), "no version of a chart such as 1.12.0"),
    ("chart", re.compile(r"[^-\s][^\s]*"), "no chart such as yunikorn, oci://registry.example/yunikorn or a path"),
    ("repository", re.compile(r"(https?|oci)://[^\s]+"), "no address of a chart repository such as https://charts.example"),
)
# Characters of a queue's name that are shown.
LONGEST_NAME = 63


class Probe(t.NamedTuple):
    """How pods show what a scheduler does.

    :ivar kind: of module probe, whose code ``run`` is.
    :ivar options: that it takes, with their defaults: ``queues``, ``image`` and ``timeout``, and further ones.
    """

    kind: str
    run: t.Callable[[Run], Result]
    options: Params


class Family:
    """A scheduler of which no more is known than its chart. Subclasses override what they know.

    Only KAI Scheduler is not installed by its chart alone: modules kai_scheduler and kai_queues install it and write its queues.

    :cvar title: its name in sentences.
    :cvar chart: name of its chart, and address of the chart's repository, for an inventory that names no chart. Where an inventory says where all
        charts come from, this chart does, too.
    :cvar has_queues: whether a tenant's queues are objects of its API, which ``reconcile_queues`` writes.
    :cvar probe: by which it is checked; None for a web page whose pods it has to place.
    """

    title = ""
    chart = ("", "")
    has_queues = False
    probe: Probe | None = None

    # The inventory

    def checked(self, entry: Entry, problems: Problems) -> Scheduler:
        """Add what is wrong with an entry and its queues to ``problems``, and raise nothing: the queues may be anything.

        :returns: the scheduler with its chart, and in subclasses with the values that they and the platform ask for.
        """
        given, here = entry.scheduler, entry.here
        chart, repository = (given.chart, given.repository) if given.chart else self.chart
        scheduler = dataclasses.replace(given, chart=chart, repository=repository)
        if does := NO_SCHEDULERS.get(scheduler.name):
            where = "Have the team install it in its virtual cluster, and name a scheduler here, or none."
            problems.add("not-a-scheduler", f"{here}.name", f"{scheduler.name} {does}. {where}")
            return scheduler
        _check_name(scheduler.name, here, problems)
        _check_chart(scheduler, here, problems)
        if entry.queues and not self.has_queues:
            why = f"{named(scheduler.name)} has none that this collection knows. Leave them out, and have the team make them."
            problems.add("not-applicable", f"{entry.path}.queues", why)
        return scheduler

    def needs(self, scheduler: Scheduler, queues: t.Sequence[JsonObject]) -> list[tuple[str, JsonObject]]:
        """Return who of it needs how much of a tenant's quota at least, by the names of a ResourceQuota; also of an entry that ``checked`` refuses."""
        return []

    def check_virtual_cluster(self, scheduler: Scheduler, values: Values) -> None:
        """Check that it can run in a virtual cluster with these Helm values; also an entry that ``checked`` refuses.

        :raises Refused: where it cannot.
        """

    # The scheduler

    def brings(self, scheduler: Scheduler) -> bool:
        """Tell whether it is installed by the chart that the family names."""
        return bool(self.chart[0]) and (scheduler.chart, scheduler.repository) == self.chart

    def default_values(self, scheduler: Scheduler) -> Values | None:
        """Return values of its chart that this collection sets only when it is installed, which a tenant's digest counts with those of ``checked``."""
        return None

    def release_name(self, scheduler: Scheduler) -> str:
        """Return the name of its Helm release."""
        return scheduler.name

    def documents(
        self, scheduler: Scheduler, queues: t.Sequence[JsonObject], manifests: t.Sequence[JsonObject]
    ) -> dict[str, list[JsonObject]]:
        """Return the objects that stand beside its Helm release in the virtual cluster, by the file that they are written to.

        :arg manifests: of its chart.
        """
        return {"namespace.yaml": [namespace(scheduler.name)]}

    # Queues in the virtual cluster

    def reconcile_queues(self, run: Run, queues: t.Sequence[JsonObject], version: str) -> list[str]:
        """Bring the queues to what the tree says.

        :returns: the names of the queues that pods can name.
        :raises Refused: where the scheduler cannot express them, or one that is to go has work.
        """
        return []

    def compare_queues(self, queues: t.Sequence[JsonObject], read: Read) -> tuple[list[str], list[JsonObject] | None]:
        """Compare the queues of a virtual cluster with the desired ones.

        :returns: the reasons for a change, a sentence each, and the queues with what uses them; None where that is not read.
        """
        return [], None

    # Pods

    def probe_options(self, scheduler: Scheduler, params: Params) -> Params:
        """Return options of its probe, which gets queues, image and timeout in any case.

        :arg params: options of module tenants.
        """
        return {}

    def waiting(self, kube: Kube, pods: t.Sequence[JsonObject]) -> tuple[dict[Key, Answer], list[Unread]]:
        """Return why pods wait, by pod, in words of this scheduler that are no condition of the pod.

        :arg pods: all of a cluster, also pods that run, and pods of other schedulers.
        :returns: the answers, and the objects that cannot be read.
        """
        return {}, []


def _check_chart(scheduler: Scheduler, here: str, problems: Problems) -> None:
    """Check what a scheduler is installed by, and refuse what is KAI Scheduler's alone.

    :arg here: path of its entry.
    """
    for key in ("version", "chart"):
        if not getattr(scheduler, key):
            problems.add("missing", f"{here}.{key}", f"is missing: {named(scheduler.name)} is installed by a chart of a version.")
    for key, form, example in _CHART_FORMS:
        if getattr(scheduler, key) and not form.fullmatch(getattr(scheduler, key)):
            problems.add("not-a-chart", f"{here}.{key}", f"{quoted(getattr(scheduler, key))} is {example}.")
    for key in ("gpu_sharing", "gpu_memory_enforced"):
        if getattr(scheduler, key):
            problems.add(
                "not-applicable", f"{here}.{key}", f"is KAI Scheduler's; what {named(scheduler.name)} is to do, its values say."
            )
    if scheduler.accept_hazards:
        problems.add(
            "not-applicable", f"{here}.accept_hazards", f"are KAI Scheduler's; none of {named(scheduler.name)} are known."
        )


def _check_name(name: str, here: str, problems: Problems) -> None:
    """Refuse what cannot be the name of a scheduler, of its namespace and of its Helm release."""
    if not NAME.fullmatch(name):
        problems.add(
            "not-a-name",
            f"{here}.name",
            f"{quoted(name)} is no name for a Helm release: a-z, 0-9 and '-', a letter first.",
        )
    elif is_reserved(name):
        reserved = f"{', '.join(RESERVED)} and names that begin with {RESERVED_PREFIX}"
        why = f"{name} is a namespace of Kubernetes or KAI Scheduler, and a scheduler has a namespace of its name. Reserved are"
        problems.add("reserved-name", f"{here}.name", f"{why} {reserved}. KAI Scheduler is kai.")


def differing(compare: t.Callable[[], t.Iterable[Change]]) -> list[str]:
    """Return a reason that names the queues that differ, or why that cannot be told; none where all are as desired."""
    try:
        names = sorted(change.name for change in compare())
    except TenancyError as exc:
        return [f"its queues differ: {shown(exc.message)}"]
    return [f"its queues differ: {listed(names, LONGEST_NAME)}"] if names else []
