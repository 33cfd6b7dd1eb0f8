# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""What is refused of a blueprint: names without a date, and content that is none. Pure."""

from __future__ import annotations

import datetime
import typing as t

from .._common.errors import TenancyError, did_you_mean, refusal
from .._common.schema import Problems
from .._common.variables import BLUEPRINT, PREFIX
from .facts import CONTENT, EXAMPLE, NAME, OWN, ROLE_VARIABLES
from .values import Blueprint


def check_name(name: str, known: t.Sequence[str]) -> None:
    """Refuse what names no set of versions for good, such as latest.

    :arg known: names of the blueprints that there are.
    """
    found = NAME.fullmatch(name)
    try:
        dated = bool(found and datetime.date.fromisoformat(found[1]))
    except ValueError:
        dated = False
    if not dated:
        raise refusal(
            "not-a-blueprint",
            f"{BLUEPRINT}: {name!r} has no date at its end, as {EXAMPLE} has. What is newest moves; which versions you get does not, "
            f"until you name another blueprint. There are {', '.join(known)}.",
        )


def unknown(name: str, known: t.Sequence[str]) -> TenancyError:
    """Return the error for a blueprint that is not there."""
    return refusal(
        "unknown-blueprint", f"{BLUEPRINT}: there is no {name}.{did_you_mean(name, known)} There are {', '.join(known)}."
    )


def parse(name: str, content: t.Any) -> Blueprint:
    """Return a blueprint.

    :arg content: of its file.
    :raises TenancyError: with all ``problems``.
    """
    problems, path = Problems(), f"blueprint {name}"
    found = problems.mapping(content, CONTENT, path)
    for part in ("vcluster", "kai"):
        if part in found:
            found[part] = problems.mapping(found[part], CONTENT[part].fields, f"{path}.{part}")
    for key in found.get("variables", {}):
        if key in OWN:
            problems.add("not-a-blueprint-variable", f"{path}.variables.{key}", "is an inventory's own.")
        elif not str(key).startswith(PREFIX) and key not in ROLE_VARIABLES:
            hint = did_you_mean(key, ROLE_VARIABLES)
            problems.add(
                "not-a-blueprint-variable",
                f"{path}.variables.{key}",
                f"a blueprint cannot set it.{hint} Of roles it sets {', '.join(ROLE_VARIABLES)}.",
            )
    problems.raise_if_any("the desired state")
    return Blueprint(name=name, **found)
