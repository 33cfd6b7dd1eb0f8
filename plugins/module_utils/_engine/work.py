# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The work on one tenant, part by part, and what is reported of it."""

from __future__ import annotations

import dataclasses
import typing as t

from .._common.errors import TenancyError, explained
from .._common.run import Params, Result, Run
from .._common.secrets import without_values
from .._common.values import utc_now
from .._desired.model import Tenant

# Returns the run of a part of the work: its options, and the kubeconfig of the API server that it is about; None for the host cluster's.
Start = t.Callable[[Params, t.Optional[str]], Run]


class Part(t.Protocol):
    """Part of the work on a tenant, as the files beside this one define it."""

    @property
    def ARGUMENT_SPEC(self) -> dict[str, t.Any]:  # noqa: N802
        """Its options, as a module has them."""

    @property
    def reconcile(self) -> t.Callable[[Run], Result]:
        """Do it."""


@dataclasses.dataclass
class TenantReport:
    """What was done for one tenant.

    :ivar parts: results of the parts of the work, in order, by what each is about; that of a part that failed is its error.
    :ivar failure: what could not be done, and why; empty where all was done.
    :ivar began: in seconds of Unix time; ``seconds``, how long it took.
    """

    name: str
    began: float
    parts: dict[str, Result] = dataclasses.field(default_factory=dict)
    failure: str = ""
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        """Whether anything of the tenant changed, or would in check mode."""
        return any(result.get("changed") for result in self.parts.values())

    def data(self) -> Result:
        """Return it as plain data."""
        return dataclasses.asdict(self) | {"changed": self.changed}


class Work:
    """The work on one tenant.

    :arg start: makes the run of each part.
    :arg params: options of module tenants.
    """

    def __init__(self, start: Start, tenant: Tenant, params: Params, check_mode: bool) -> None:
        self.tenant = tenant
        self.params = params
        self.check_mode = check_mode
        self.report = TenantReport(tenant.name, utc_now().timestamp())
        self.kubeconfig = f"{params['kubeconfigs']}/{tenant.name}.yml"
        self._start = start

    def do(self, subject: str, title: str, part: Part, inside: bool = False, **options: t.Any) -> Result:
        """Do one part of the work, and keep its result.

        :arg subject: what it is about.
        :arg title: what is done, for a failure.
        :arg inside: whether it is done in the virtual cluster.
        :arg options: of the part; None for its default.
        :raises TenancyError: with the title in front.
        """
        defaults = {name: option.get("default") for name, option in part.ARGUMENT_SPEC.items()}
        given = {name: value for name, value in options.items() if value is not None}
        run = self._start(defaults | given, self.kubeconfig if inside else None)
        try:
            result = without_values(part.reconcile(run))
        except TenancyError as exc:
            self.report.parts[subject] = {"failed": True, "msg": exc.message} | exc.details
            raise exc.saying(f"{title}: {exc.message}") from exc
        self.report.parts[subject] = result
        return result

    def is_new(self, what: str) -> bool:
        """Tell whether the virtual cluster has something, such as its namespace, from this run on only."""
        return what in self.report.parts["virtual cluster"]["diff"]["after"]

    def work_through(self, steps: t.Iterable[t.Callable[[Work], None]]) -> None:
        """Take steps one after the other until one fails, whatever it fails of, which the report then says."""
        try:
            for step in steps:
                step(self)
        except Exception as exc:
            # Whatever else failed before it.
            self.report.failure = "; ".join(filter(None, [self.report.failure, explained(exc)]))
        self.report.seconds = round(utc_now().timestamp() - self.report.began, 1)
