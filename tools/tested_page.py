# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/contributing/what-is-tested.md from the claims of the other pages; `make docs` runs it.

A claim is an entry in docs/contributing/claims/PAGE.yml: a name, a sentence, and the tests that show it. The page that makes the
claim has a mark beside it, which leads to the claim's row: ``[✓](../contributing/what-is-tested.md#NAME)``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "contributing/what-is-tested.md"
CLAIMS = DOCS / "contributing/claims"
# Days on which what `make faults` and `make bench` run was last seen to pass, by file or scenario.
RUNS = DOCS / "contributing/runs.yml"
MARK = re.compile(r"\[✓\]\((?:[\w./-]*/)?what-is-tested\.md#([a-z0-9-]+)\)")
# Tests that run with each change.
ALWAYS = re.compile(
    r"tests/(unit|artifact|integration|sanity|faults/test_schedulers)\b|molecule/(lab|nvkind|docker_nvidia_runtime)\b"
)

HEAD = """# What is tested

<!-- Written by make docs from docs/contributing/claims and runs.yml. -->

Each row is a claim of this manual. A mark (✓) on a page leads to its row here. "Each change" means that `make test` runs the test. A date is
the last day on which the test passed in `make faults` or by hand. "Not yet": the test is there, and has not passed as a whole.
"""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A sentence of the manual that tests show.

    :ivar name: of its mark; ``tests``: files with a function where it matters (``tests/faults/test_life.py::test_x``), or scenarios.
    """

    name: str
    page: str
    sentence: str
    tests: tuple[str, ...]


def claims() -> Iterator[Claim]:
    """Read all claims, by page.

    :raises ValueError: where two have one name.
    """
    names: set[str] = set()
    for file in sorted(CLAIMS.glob("*.yml")):
        for name, entry in (yaml.safe_load(file.read_text("utf-8")) or {}).items():
            if name in names:
                raise ValueError(f"{file.name}: {name} is the name of two claims.")
            names.add(name)
            yield Claim(name, file.stem, entry["claim"], tuple(entry["tests"]))


def page() -> str:
    """Return the text of the page."""
    runs = yaml.safe_load(RUNS.read_text("utf-8"))
    sections: dict[str, list[str]] = {}
    for claim in claims():
        tests = "<br>".join(f"`{test}`" for test in claim.tests)
        seen = "<br>".join(_last(test, runs) for test in claim.tests)
        sections.setdefault(claim.page, []).append(f'| <a id="{claim.name}"></a>{claim.sentence} | {tests} | {seen} |')
    tables = [
        f"## {_title(name)}\n\n| claim | test | last run |\n|---|---|---|\n" + "\n".join(rows) for name, rows in sections.items()
    ]
    return "\n\n".join([HEAD.rstrip(), *tables]) + "\n"


def _title(name: str) -> str:
    return name.replace("-", " ").capitalize()


def _last(test: str, runs: dict[str, object]) -> str:
    """Return when a test was last seen to pass."""
    file = test.partition("::")[0]
    return "each change" if ALWAYS.match(file) else str(runs.get(file, "not yet"))


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
