# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What one run of a module collects: changes, steps and warnings, within one deadline."""

from __future__ import annotations

import dataclasses
import typing as t

from .errors import TenancyError
from .values import Change, Write
from .wait import Deadline

if t.TYPE_CHECKING:
    from .._adapters.helm import Helm
    from .._adapters.kubernetes import Kube

Params = t.Mapping[str, t.Any]
Result = dict[str, t.Any]
T = t.TypeVar("T")

# Of a module without the option "timeout": its calls are bounded by their adapters.
UNBOUNDED = 24 * 3600.0


@dataclasses.dataclass(frozen=True)
class Step:
    """One step of a change: what is done, why, and the call that does it."""

    what: str
    why: str
    action: t.Callable[[], object]


def _given(adapter: T | None, what: str) -> T:
    if adapter is None:
        raise TypeError(f"This run has no adapter to {what}.")
    return adapter


class Run:
    """One run of a module.

    The functions that decide are given the parts they need; what they conclude is collected here. Everything that changes
    something is a step, or stands behind ``if not run.check_mode``, so that check mode goes the same way up to there.

    :arg params: the module's options.
    :arg check_mode: whether nothing may be changed.
    :arg kube: adapter to the API server that the options name; ``helm`` to the Helm releases there. None where a module needs none.
    :arg deadline: by default of ``params["timeout"]`` seconds.
    """

    def __init__(
        self,
        params: Params,
        check_mode: bool = False,
        kube: Kube | None = None,
        helm: Helm | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self.params = params
        self.check_mode = check_mode
        self._kube = kube
        self._helm = helm
        timeout = params.get("timeout")
        self.deadline = deadline or Deadline(UNBOUNDED if timeout is None else timeout)
        self.changes: list[Change] = []
        self._writes: dict[str, Write] = {}
        self.steps: list[Result] = []
        self.warnings: list[str] = []

    def fill_in(self, defaults: Params) -> None:
        """Give options that are None their defaults; with that of ``timeout``, the run gets its deadline, counted from now."""
        missing = {name: value for name, value in defaults.items() if self.params.get(name) is None}
        self.params = {**self.params, **missing}
        if "timeout" in missing:
            self.deadline = Deadline(missing["timeout"], self.deadline.clock, self.deadline.sleep)

    @property
    def kube(self) -> Kube:
        return _given(self._kube, "the API server")

    @property
    def helm(self) -> Helm:
        return _given(self._helm, "Helm")

    def change(self, what: str, before: t.Any, after: t.Any, write: Write | None = None) -> None:
        """Record that ``what`` changes; None stands for absent.

        :arg write: the last write of what there is; None where that is not known.
        """
        self.changes.append((what, before, after))
        if write:
            self._writes[what] = write

    def change_all(self, changes: t.Iterable[Change], write: Write | None = None) -> None:
        """Record changes of what was written at once."""
        for change in changes:
            self.change(*change, write)

    def warn(self, text: str) -> None:
        """Record a warning, which the kernel shows once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def perform(self, what: str, why: str, action: t.Callable[[], object]) -> None:
        """List a step and, outside of check mode, perform it and note its seconds.

        :arg what: in the imperative, such as "apply the CRDs".
        :raises TenancyError: what the action raises, with the step in front.
        """
        record: Result = {"step": what, "why": why}
        self.steps.append(record)
        if self.check_mode:
            return
        start = self.deadline.elapsed()
        try:
            action()
        except TenancyError as exc:
            raise exc.saying(f"Could not {what}: {exc.message}") from exc
        record["seconds"] = round(self.deadline.elapsed() - start, 1)

    def perform_all(self, steps: t.Iterable[Step]) -> None:
        """Perform steps one after the other; in check mode list them only."""
        for step in steps:
            self.perform(step.what, step.why, step.action)

    def result(self, *, notes: t.Iterable[str] | None = None, **more: t.Any) -> Result:
        """Return what the module returns: ``changed``, ``diff``, ``steps`` where there are any, ``seconds``, and ``more``.

        :arg notes: lines that ``--diff`` prints below a change, after the steps; None leaves steps out of the diff, too.
        """
        before = {what: old for what, old, _new in self.changes if old is not None}
        after = {what: new for what, _old, new in self.changes if new is not None}
        diff: Result = {"before": before, "after": after}
        if self._writes:
            # No callback of Ansible's prints it; drift.yml does.
            diff["written"] = {what: write._asdict() for what, write in self._writes.items()}
        if notes is not None:
            lines = [*(f"step: {record['step']} ({record['why']})" for record in self.steps), *notes]
            # Ansible's callbacks print a diff's key "prepared" as it is, below the difference of before and after.
            diff["prepared"] = "".join(f"{line}\n" for line in lines)
        listed: Result = {"steps": self.steps} if self.steps else {}
        return {"changed": bool(self.changes), "diff": diff, "seconds": self.deadline.elapsed()} | listed | more
