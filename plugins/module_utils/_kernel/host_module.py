# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The kernel of modules that work on a host alone; without Kubernetes' client, whose import takes half a second."""

from __future__ import annotations

import gc
import json
import math
import traceback
import typing as t

from ansible.module_utils.common.parameters import remove_values

from .._adapters.programs import run_program
from .._common.errors import TenancyError, explained
from .._common.run import Result, Run
from .._common.schema import check_least
from .._common.secrets import without_values
from .._common.text import LONGEST_LINE, shown, shown_lines
from .ansible_module import QuietModule

AnyRun = t.TypeVar("AnyRun", bound="ModuleRun")

# Entries of a list, or of a mapping, that an error has at most.
_MOST = 500
# The smallest number of an option that most modules have: with less than a second, a run would end after its first write.
_LEAST = {"timeout": 1}


class ModuleRun(Run):
    """A run of an Ansible module."""

    def __init__(self, module: QuietModule) -> None:
        super().__init__(module.params, module.check_mode)
        self.module = module

    def find_program(self, name: str) -> str | None:
        """Return the path of a program on the host, or None; /usr/local/bin counts even where a service's PATH lacks it."""
        return t.cast("str | None", self.module.get_bin_path(name, opt_dirs=["/usr/local/bin"]))

    # Doubles of a host take its place.
    run_program = staticmethod(run_program)


def run_host_module(
    reconcile: t.Callable[[ModuleRun], Result],
    argument_spec: dict[str, t.Any],
    *,
    least: t.Mapping[str, float] | None = None,
    **kwargs: t.Any,
) -> None:
    """Run a module that needs no cluster from its arguments to its result.

    :arg reconcile: does the work and returns the result, usually by ``Run.result``.
    :arg least: the smallest numbers that options take, by their names; a timeout is one second at least.
    :arg kwargs: for AnsibleModule, such as ``required_if``.
    """
    conclude(reconcile, ModuleRun(QuietModule(argument_spec=argument_spec, supports_check_mode=True, **kwargs)), least)


def conclude(reconcile: t.Callable[[AnyRun], Result], run: AnyRun, least: t.Mapping[str, float] | None = None) -> None:
    """Have the work done, and end the module with its result or its error, even after an unforeseen error.

    :arg least: the smallest numbers that options take, by their names.
    """
    # What was imported stays to the end. Without this, Python would look through all of it for garbage again and again, and once more at the
    # end: together, a quarter of the time of a module that only reads.
    gc.freeze()
    try:
        check_least(run.params, _LEAST | dict(least or {}))
        result = without_values(reconcile(run))
        _check_numbers(result)
        _show(run)
        run.module.exit_json(**result)
    except TenancyError as exc:
        _fail(run, exc.message, exc.details)
    except Exception as exc:
        _fail(run, explained(exc), {})


def _fail(run: ModuleRun, message: str, details: Result) -> None:
    """End the module with the error that is being handled."""
    _show(run)
    # By itself, ansible-core shows where an error comes from only if its own settings say so.
    origin = {"traceback": traceback.format_exc()} if run.module._verbosity >= 3 else {}
    legible = {key: _legible(detail) for key, detail in (details | origin).items()}
    run.module.fail_json(msg=_legible(message), **legible)


def _check_numbers(result: Result) -> None:
    """Refuse numbers that are none in JSON.

    :raises ValueError: with the place of one.
    """
    try:
        json.dumps(result, allow_nan=False, default=str)
    except ValueError:
        for place, number in _numbers(result, "the result"):
            if not math.isfinite(number):
                raise ValueError(f"{place} is {number}") from None
        raise


def _numbers(data: t.Any, place: str) -> t.Iterator[tuple[str, float]]:
    """Yield the fractional numbers in plain data, each with its place."""
    if isinstance(data, float):
        yield place, data
    elif isinstance(data, t.Mapping):
        for key, value in data.items():
            yield from _numbers(value, f"{place}.{key}")
    elif isinstance(data, (list, tuple)):
        for number, value in enumerate(data):
            yield from _numbers(value, f"{place}[{number}]")


def _legible(detail: t.Any, depth: int = 10) -> t.Any:
    """Return a part of an error as it can be read and printed, its texts line by line, within bounds.

    :arg depth: how far down it is looked at.
    """
    if detail is None or isinstance(detail, int):
        return detail
    if isinstance(detail, float) and math.isfinite(detail):
        return detail
    if isinstance(detail, (t.Mapping, list, tuple)) and not depth:
        return "…"
    if isinstance(detail, t.Mapping):
        return {shown(key): _legible(value, depth - 1) for key, value in list(detail.items())[:_MOST]}
    if isinstance(detail, (list, tuple)):
        return [_legible(value, depth - 1) for value in detail[:_MOST]]
    return shown_lines(detail, LONGEST_LINE)


def _show(run: ModuleRun) -> None:
    for warning in run.warnings:
        # ansible-core 2.19 takes secrets out of results, but not out of warnings.
        run.module.warn(remove_values(warning, run.module.no_log_values))
