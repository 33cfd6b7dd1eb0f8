# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Parts of a module's work, each with options, a deadline and a result of its own."""

from __future__ import annotations

import traceback
import typing as t

from .._adapters.progress_file import ProgressFile
from .._common.errors import TenancyError, explained
from .._common.run import Params, Result, Run
from .._common.secrets import without_values

# Returns the run of a part of the work: its options, and the kubeconfig of the API server that it is about; None for the module's own one.
Start = t.Callable[[Params, t.Optional[str]], Run]


class Part(t.Protocol):
    """Part of the work, as the files beside this one define it."""

    @property
    def ARGUMENT_SPEC(self) -> dict[str, t.Any]:  # noqa: N802
        """Its options, as a module has them."""

    @property
    def reconcile(self) -> t.Callable[[Run], Result]:
        """Do it."""


class Parts:
    """Parts of the work on one subject, such as a tenant, one after the other.

    :ivar subject: its name.
    :ivar results: of the parts, in order, by what each is about. Of a part that failed, ``failed``, ``msg``, the error's details, and what was
        done before.
    :arg start: makes the run of each part.
    :arg checks: raise where the work is to go no further, see ``ProgressFile.during``.
    """

    def __init__(self, start: Start, subject: str, progress: ProgressFile, *checks: t.Callable[[], object]) -> None:
        self.results: dict[str, Result] = {}
        self._start = start
        self.subject = subject
        self._progress = progress
        self._checks = checks

    def do(self, about: str, title: str, part: Part, kubeconfig: str | None = None, **options: t.Any) -> Result:
        """Do one part of the work by the code of a module.

        :arg options: of the part; None for its default. The rest is as of ``call``.
        """
        defaults = {name: option.get("default") for name, option in part.ARGUMENT_SPEC.items()}
        given = {name: value for name, value in options.items() if value is not None}
        return self.call(about, title, part.reconcile, defaults | given, kubeconfig)

    def call(
        self, about: str, title: str, reconcile: t.Callable[[Run], Result], options: Params, kubeconfig: str | None = None
    ) -> Result:
        """Do one part of the work, and keep its result.

        :arg about: key of its result.
        :arg title: what is done, for progress and for a failure.
        :arg kubeconfig: path of that of the API server which it is about; None for the module's own one.
        :raises TenancyError: with the title in front.
        """
        run = None
        try:
            with self._progress.during(self.subject, title, *self._checks):
                run = self._start(options, kubeconfig)
                result = without_values(reconcile(run))
        except Exception as exc:
            error = exc if isinstance(exc, TenancyError) else TenancyError(explained(exc), traceback=traceback.format_exc())
            done = without_values(run.result()) if run else {}
            self.results[about] = done | {"failed": True, "msg": error.message} | error.details
            raise error.saying(f"{title}: {error.message}") from exc
        self.results[about] = result
        return result


def diffs(subject: str, results: t.Mapping[str, Result]) -> t.Iterator[Result]:
    """Yield what ``--diff`` shows of the parts of the work on a subject.

    :arg results: as ``Parts.results``.
    """
    for about, part in results.items():
        if diff := part.get("diff"):
            header = f"{subject}: {about}"
            yield diff | {"before_header": header, "after_header": header}
