# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what docs/reference/kai-releases.md says of each release from the table of releases; `make docs` runs it."""

from __future__ import annotations

import re
import textwrap
import typing as t
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import facts
from ansible_collections.kubegpu.tenancy.tools import generated

PAGE = Path(__file__).parents[1] / "docs/reference/kai-releases.md"
BEGIN = "<!-- begin: {}, written by make docs from plugins/module_utils/_kai/facts.py -->\n"
WIDTH = 150


def page(current: str) -> str:
    """Return the text of the page with its generated parts written anew.

    :raises ValueError: where the lines around a part are missing.
    """
    for name, lines in parts().items():
        current = generated.replaced(current, name, BEGIN.format(name), "".join(f"{line}\n" for line in lines), PAGE)
    return current


def parts() -> dict[str, list[str]]:
    """Return the lines of each generated part by its name."""
    touching: dict[str, list[facts.Hazard]] = {}
    for hazard in facts.HAZARDS:
        touching.setdefault(hazard.touches, []).append(hazard)
    return {
        "releases": _releases(),
        "hazards of gpu_sharing": _hazards(touching["gpu_sharing"]),
        "hazards of a shared cluster": _hazards(touching["others"]),
        "hazards of some work": _hazards(facts.WORK_HAZARDS),
    }


def _releases() -> list[str]:
    rows = []
    for line in reversed(facts.LINES):
        found = facts.facts_of(line.last)
        tested = " to ".join(f"{major}.{minor}" for major, minor in found["kubernetes"] or ())
        names = f"v{facts.dotted(line.first)} to v{facts.dotted(line.last)}" if line.first != line.last else _name(line.first)
        rows.append(f"| {names} | {found['end_of_support']} | {tested or 'not said'} |")
    return ["| releases | last month | Kubernetes, tested upstream |", "|---|---|---|", *rows]


def _hazards(hazards: t.Iterable[facts.Hazard | facts.WorkHazard]) -> list[str]:
    """Return an entry for each hazard, with its releases, which have one row each in the table."""
    rows: dict[tuple[str, str], list[str]] = {}
    for hazard in hazards:
        rows.setdefault((hazard.name, hazard.text), []).append(_range(hazard))
    texts = (f"- `{name}` ({', '.join(ranges)}): {_sentence(text)}" for (name, text), ranges in rows.items())
    return [line for text in texts for line in textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)]


def _range(hazard: facts.Hazard | facts.WorkHazard) -> str:
    """Return the releases of a hazard, by the first and the last one, or by the first one without it."""
    (major, minor, patch) = hazard.fixed
    if hazard.since == (0, 0, 0):
        return f"before {_name(hazard.fixed)}"
    if major > 10**6:
        return f"{_name(hazard.since)} and later"
    if patch:
        return f"{_name(hazard.since)} to {_name((major, minor, patch - 1))}"
    return f"{_name(hazard.since)} to before {_name(hazard.fixed)}"


def _name(version: facts.Version) -> str:
    return f"v{facts.dotted(version)}"


def _sentence(text: str) -> str:
    """Return a text as sentences, with labels as code."""
    marked = re.sub(r'([\w.-]+/[\w-]+(?:\.[a-z]+)?(?:: "\w+")?)', r"`\1`", text)
    return f"{marked[0].upper()}{marked[1:]}."


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
