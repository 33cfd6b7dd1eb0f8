# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The codes of problems: literals where a problem is made, in one form, each of them in a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = [*(ROOT / "plugins").rglob("*.py"), *(ROOT / "lab/plugins").rglob("*.py")]
TREES = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in sorted(PLUGINS)}
FORM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def makes_a_problem(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in ("Problem", "refusal")
    # Of Problems; the method of a set takes one argument.
    return isinstance(call.func, ast.Attribute) and call.func.attr == "add" and len(call.args) == 3


def given(tree: ast.Module) -> Iterator[ast.expr]:
    """Return what stands for the code of each problem that is made, and of each class of errors."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and makes_a_problem(node):
            yield node.args[0]
        for field in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(field, (ast.Assign, ast.AnnAssign)) and field.value:
                names = field.targets if isinstance(field, ast.Assign) else [field.target]
                yield from (field.value for name in names if isinstance(name, ast.Name) and name.id == "code")


def passed_on(code: ast.expr) -> bool:
    """Tell whether a code is that of another problem, or of an argument."""
    return (isinstance(code, ast.Attribute) and code.attr == "code") or (isinstance(code, ast.Name) and code.id == "code")


FOUND = [(name, code) for name, tree in TREES.items() for code in given(tree) if not passed_on(code)]
CODES = {code.value for _name, code in FOUND if isinstance(code, ast.Constant)}


def test_codes_are_literals_in_one_form():
    assert len(CODES) > 50
    assert not [f"{name}:{code.lineno}" for name, code in FOUND if not isinstance(code, ast.Constant)]
    assert not [code for code in CODES if not FORM.fullmatch(code)]


def test_each_code_is_in_a_test():
    """By itself, or behind the place of the problem as ``placed`` returns it."""
    trees = [ast.parse(path.read_text()) for path in sorted((ROOT / "tests/unit").rglob("test_*.py"))]
    texts = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert CODES - {text.rpartition(": ")[2] for text in texts if isinstance(text, str)} == set()
