# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The work on one tenant, part by part, and what is reported of it."""

from __future__ import annotations

import dataclasses
import typing as t

from .._adapters.progress_file import ProgressFile
from .._common.errors import WaitTimeout, explained
from .._common.run import Params, Result, Run
from .._common.values import utc_now
from .._common.wait import Deadline
from .._desired.model import Tenant
from .._tenant.facts import KUBECONFIG, VIRTUAL_CLUSTER
from .parts import Part, Parts, Start


@dataclasses.dataclass
class TenantReport:
    """What was done for one tenant.

    :ivar parts: results of the parts of the work as ``Parts`` has them, by what each is about, as RETURN of module tenants lists it.
    :ivar failure: what could not be done, and why; empty where all was done.
    :ivar spans: the ``work``, when it ``began``, in seconds of Unix time, and its ``seconds``, in order.
    """

    name: str
    parts: dict[str, Result] = dataclasses.field(default_factory=dict)
    failure: str = ""
    spans: list[Result] = dataclasses.field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether anything of the tenant changed, or would in check mode."""
        return any(result.get("changed") for result in self.parts.values())

    def data(self) -> Result:
        """Return it as plain data."""
        return dataclasses.asdict(self) | {"changed": self.changed}


class Work:
    """The work on one tenant, part by part.

    :ivar report: what was done so far; ``kubeconfig``, path of the tenant's kubeconfig on the host.
    :arg start: makes the run of each part.
    :arg params: options of module tenants.
    :arg deadline: of all parts together; None where each has its own.
    :arg progress: is told what is done; None where no caller wants to know.
    """

    def __init__(
        self,
        start: Start,
        tenant: Tenant,
        params: Params,
        check_mode: bool,
        deadline: Deadline | None = None,
        progress: ProgressFile | None = None,
    ) -> None:
        self.tenant = tenant
        self.params = params
        self.check_mode = check_mode
        self._progress = progress or ProgressFile("")
        self._parts = Parts(self._begin, tenant.name, self._progress)
        self.report = TenantReport(tenant.name, self._parts.results)
        self.kubeconfig = f"{params['kubeconfigs']}/{tenant.name}.yml"
        self._start = start
        self._deadline = deadline

    def do(self, subject: str, title: str, part: Part, inside: bool = False, **options: t.Any) -> Result:
        """Do one part of the work, as ``Parts.do``.

        :arg inside: whether it is done in the virtual cluster.
        """
        return self._parts.do(subject, title, part, self.kubeconfig if inside else None, **options)

    def _begin(self, options: Params, kubeconfig: str | None) -> Run:
        return self._start({**options, **self._left()}, kubeconfig)

    def _left(self) -> Result:
        """Return the option ``timeout`` of the next part, in seconds; empty where each part has its own.

        :raises WaitTimeout: where that is over.
        """
        if self._deadline is None:
            return {}
        left = self._deadline.left(0)
        if not left:
            seconds = self._deadline.seconds
            raise WaitTimeout(f"All of the {seconds:.0f} s for the tenant are over.", last_seen="", waited=seconds)
        return {"timeout": left}

    def is_new(self, what: str) -> bool:
        """Tell whether this run made something of the virtual cluster, ``namespace`` or ``state``, or in check mode would."""
        return what in self.report.parts[VIRTUAL_CLUSTER]["diff"]["after"]

    @property
    def can_answer(self) -> bool:
        """Whether the virtual cluster is asked: in check mode, one that does not run yet, or has another kubeconfig, cannot be."""
        written = self.report.parts.get(KUBECONFIG)
        return not self.check_mode or (written is not None and not written["changed"])

    def work_through(self, what: str, *stages: t.Iterable[t.Callable[[Work], None]]) -> None:
        """Take steps one after the other. A stage ends at its first step that raises; the next stage begins all the same.

        :arg what: change, remove, verify or read, for the time line.
        """
        began = utc_now().timestamp()
        failures = [self.report.failure] if self.report.failure else []
        for steps in stages:
            try:
                for step in steps:
                    step(self)
            except Exception as exc:
                failures.append(explained(exc))
        self._progress.done(self.tenant.name)
        self.report.failure = "; ".join(failures)
        self.report.spans.append({"work": what, "began": began, "seconds": round(utc_now().timestamp() - began, 1)})
