# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the tables of docs/reference/inventory.md from the schema of the desired state; `make docs` runs it."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.schema import Field, Fields
from ansible_collections.kubegpu.tenancy.plugins.module_utils._desired.facts import CLUSTER
from ansible_collections.kubegpu.tenancy.tools import generated

PAGE = Path(__file__).parents[1] / "docs/reference/inventory.md"
# Below this line of the page nothing is written by hand, up to generated.END.
BEGIN = "<!-- begin: written by make docs from plugins/module_utils/_desired/facts.py -->\n"

TYPES = {str: "string", int: "whole number", bool: "boolean", dict: "dictionary", list: "list"}


def page(current: str) -> str:
    """Return the text of the page with its tables written anew.

    :raises ValueError: where the lines around the tables are missing.
    """
    return generated.replaced(current, "the schema", BEGIN, tables(), PAGE)


def tables() -> str:
    """Return a section for the variables of a cluster, and one for each dictionary in them."""
    written: list[tuple[str, Fields]] = []
    return "\n".join([_section("Variables of a cluster", "Variable", CLUSTER), *_nested("", CLUSTER, written)])


def _nested(outer: str, fields: Fields, written: list[tuple[str, Fields]]) -> list[str]:
    """Return the sections of the dictionaries below a path, each before those inside it.

    :arg written: titles and fields of the sections before. Fields that all stand in one of them are named, and not written again.
    """
    sections = []
    for name, field in fields.items():
        if not field.fields:
            continue
        path = outer + name + ("[]" if field.kind is list else "")
        before = next((title for title, known in written if field.fields.items() <= known.items()), None)
        sections.append(_as_before(path, field.fields, before) if before else _section(f"`{path}`", "Key", field.fields))
        written.append((path, field.fields))
        sections += _nested(f"{path}.", field.fields, written)
    return sections


def _as_before(path: str, fields: Fields, before: str) -> str:
    *others, last = [f"`{name}`" for name in fields]
    return f"### `{path}`\n\nThe keys {', '.join(others)} and {last}, as in `{before}`.\n"


def _section(title: str, column: str, fields: Fields) -> str:
    rows = [f"| `{name}` | {_kind(field)} | {_text(field)}{_default(field)} |" for name, field in fields.items()]
    return "\n".join([f"### {title}", "", f"| {column} | Type | Meaning |", "|---|---|---|", *rows, ""])


def _kind(field: Field) -> str:
    """Return the type of a value, or the only values there are, and whether it has to be given."""
    if field.choices:
        *others, last = [f"`{choice}`" for choice in field.choices]
        kind = f"{', '.join(others)} or {last}"
    else:
        kind = TYPES[field.kind]
    return f"{kind}; required" if field.required else kind


def _default(field: Field) -> str:
    """Return the sentence about a default; none where it is empty, which needs no word."""
    if field.default is None or not (field.default or field.kind in (bool, int)):
        return ""
    shown = str(field.default).lower() if field.kind is bool else str(field.default)
    return f" Default: `{shown}`."


def _text(field: Field) -> str:
    """Return what a field means, with its choices marked and with links to pages."""
    text = re.sub(r"docs/([\w-]+/([\w-]+)\.md)", r"[\2](../\1)", field.doc).replace("<", r"\<").replace("|", r"\|")
    return re.sub(rf"(?<![\w-])({'|'.join(field.choices)})(?![\w-])", r"`\1`", text) if field.choices else text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
