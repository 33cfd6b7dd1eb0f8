# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the collections are laid out; import-linter (pyproject.toml) holds which part may import which."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.kubegpu.tenancy.tests.unit.words import DIALECT_OF_CODE

ROOT = Path(__file__).parents[2]
PLUGINS = ROOT / "plugins"
LAB = ROOT / "lab/plugins"
# Those of the lab begin with lab/.
FILES = {str(path.relative_to(PLUGINS)): path for path in sorted(PLUGINS.rglob("*.py"))}
FILES |= {f"lab/{path.relative_to(LAB)}": path for path in sorted(LAB.rglob("*.py"))}
SOURCES = {name: path.read_text() for name, path in FILES.items()}
TREES = {name: ast.parse(source) for name, source in SOURCES.items()}
SUBJECTS = sorted(
    {name.split("/")[1] for name in FILES if name.startswith("module_utils/_")} - {"_adapters", "_common", "_engine", "_kernel"}
)

MOST_LOGIC = 100
# Lines of a function and of a class, docstrings included.
MOST_LINES = {ast.FunctionDef: 40, ast.AsyncFunctionDef: 40, ast.ClassDef: 200}

# What a subject's files are called, so that the same thing is found under the same name everywhere.
FILE_NAMES = {"facts", "lifecycle", "plan", "status", "validation", "values"}
# What a subject holds besides.
FURTHER_FILES = {
    # By whom a kubeconfig leads into a virtual cluster.
    "_backup": {"placement", "volumes"},
    "_access": {"account", "administrator"},
    # The types of the desired state; then its parts: what is said of each, and what is wrong with it.
    "_desired": {"model", "layout", "names", "oidc", "platform", "releases", "sandbox", "schedulers", "settings", "tenants"},
    # Parts of its lifecycle.
    "_kai": {"availability", "export", "images", "removal", "replacement", "admission_copy"},
    # The two sides of a cluster.
    "_kind": {"host_files", "nodes"},
    "_kubeconfig": {"current"},  # the context that counts
    "_ledger": {"devices", "model"},  # what kubelet knows of devices; rows of nodes and pods
    "_nodes": {"dra"},  # GPUs that are offered otherwise than by the node
    # What is judged; then rules: on what a pod asks for, on pods that have a node, and on workloads without pods.
    "_pending": {"cluster", "asked", "node", "workloads"},
    # The schedulers of node pools that queues are for.
    "_queues": {"pools"},
    # The kinds, those with much to judge in a folder.
    "_probe": {
        "connectivity",
        "gpu",
        "image_pull",
        "network_policy",
        "sandbox",
        "web",
        *(f"{kind}/{name}" for kind in ("kai_policies", "kai_scheduling", "shared_scheduler") for name in FILE_NAMES),
        "kai_scheduling/memory",
        "kai_scheduling/observation",
    },
    # The change, the trace, where that comes from, what is judged and measured at a look, what a scheduler costs, and what is
    # made of the rounds.
    "_rehearsal": {"change", "invariants", "look", "measures", "metrics", "model", "patterns", "recording", "verdict"},
    # The interface, its table, and a folder for each family.
    "_schedulers": {
        "family",
        "families",
        "model",
        *(
            f"{path.parent.name}/{name}"
            for path in sorted((PLUGINS / "module_utils/_schedulers").glob("*/family.py"))
            for name in FILE_NAMES | {"family", "pending", "probe"}
        ),
    },
    # Kept evidence in place of series; what was read.
    "_usage": {"evidence", "model"},
    # Its parts; then what values would reach beyond their tenant.
    "_vcluster": {
        "classes",
        "control_plane",
        "inventory",
        "namespace",
        "network",
        "operation",
        "overlaps",
        "records",
        "release",
        "removal",
        "reach",
    },
}

DOCUMENTS = {"ARGUMENT_SPEC", "DOCUMENTATION", "EXAMPLES", "RETURN"}


FOLDERS_OF_TASKS = ("playbooks", "roles/*/tasks", "lab/playbooks", "lab/roles/*/tasks")
# Verbs that hide what a task does, and pronouns, which stand for nothing that a log shows.
VAGUE = re.compile(
    r"^(Ask|Compare (it|them|what)|Do|Get|Have|Judge|Let|Look|Note|Say|See|Show|Take)\b|\b(it|them|they|these|those|what is wanted)\b"
)

# Where people read comments, docstrings, documentation and messages.
FOLDERS_OF_WORDS = ("plugins", "roles", "playbooks", "lab", "examples", "inventories", "tools", "blueprints")
SUFFIXES_OF_WORDS = {".py", ".yml", ".yaml", ".md", ".sh", ""}
# Programs in other languages and the license are written by others.
FOREIGN_WORDS = ("lab/roles/lab/files/programs/", "lab/COPYING")
# What a program reads: a class of the page's style sheet, and a function's name.
WORDS_OF_INTERFACES = re.compile(r'^\.nobody \{|"": "nobody"|\bnot untolerated\(', re.MULTILINE)


def lines(node: ast.AST) -> int:
    """Count a node's source lines without the docstrings in it."""
    decorators = getattr(node, "decorator_list", [])
    count = node.end_lineno - min([node.lineno, *(decorator.lineno for decorator in decorators)]) + 1
    return count - sum(below.end_lineno - below.lineno + 1 for below in docstrings(node))


def docstrings(node: ast.AST) -> Iterator[ast.Expr]:
    for below in ast.walk(node):
        first = below.body[0] if isinstance(below, ast.ClassDef | ast.FunctionDef | ast.Module) and below.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            yield first


def is_logic(node: ast.stmt) -> bool:
    """Tell whether a statement of a module is more than documentation, specification and imports."""
    if isinstance(node, ast.If | ast.Try):
        # Imports for type checking only, and those of libraries that may be missing.
        handled = [below for handler in getattr(node, "handlers", []) for below in handler.body]
        return any(is_logic(below) for below in [*node.body, *node.orelse, *handled])
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return not any(isinstance(target, ast.Name) and target.id in DOCUMENTS for target in targets)
    return not isinstance(node, ast.Import | ast.ImportFrom | ast.Pass)


def logic(tree: ast.Module) -> int:
    documents = set(docstrings(tree))
    return sum(lines(node) for node in tree.body if node not in documents and is_logic(node))


def imports(name: str) -> set[str]:
    """Return what a file imports, also within functions and for type checking."""
    found: set[str] = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = ".".join(filter(None, [*_package(name, node.level), node.module]))
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def _package(name: str, level: int) -> list[str]:
    """Return the package that a relative import of a file begins at, one level up for each dot after the first; nothing for an absolute one."""
    inside = name.removeprefix("lab/")
    own = ["ansible_collections", *_collection(name).split("."), "plugins", *inside.split("/")[:-1]]
    return own[: len(own) - level + 1] if level else []


def _collection(name: str) -> str:
    return "kubegpu.lab" if name.startswith("lab/") else "kubegpu.tenancy"


def test_subjects_are_handed_their_adapters():
    """A double can take an adapter's place then. Imports for type checking are allowed."""
    subjects = [name for name in FILES if name.startswith("module_utils/_") and name.split("/")[1] in SUBJECTS]
    at_run_time = {
        name: {node.module or "" for node in TREES[name].body if isinstance(node, ast.ImportFrom)} for name in subjects
    }
    assert not {name for name, found in at_run_time.items() if any("_adapters" in module for module in found)}


def test_own_code_is_imported_by_relative_names():
    assert not {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if f"ansible_collections.{_collection(name)}." in (getattr(node, "module", None) or "")
    }


def test_a_module_holds_little_logic():
    counted = {name: logic(tree) for name, tree in TREES.items() if name.removeprefix("lab/").startswith("modules/")}
    assert not {name for name, count in counted.items() if count > MOST_LOGIC}, (
        f"A module has at most {MOST_LOGIC} lines; what does more is its subject's lifecycle.py. {counted}"
    )


def test_no_file_of_tasks_is_called_as_a_playbook():
    """Ansible looks for what an included file includes beside the playbook first, and would take that for it."""
    books = ROOT / "playbooks"
    assert not {path.name for path in books.glob("*.yml")} & {path.name for path in books.glob("*/*.yml")}


def test_names_of_plays_and_tasks_say_what_happens_to_whom():
    files = [*ROOT.glob("*.yml"), *(file for folder in FOLDERS_OF_TASKS for file in ROOT.glob(f"{folder}/**/*.yml"))]
    found = {
        f"{file.relative_to(ROOT)}: {name}"
        for file in files
        for name in re.findall(r"^ *- name: (.+)$", file.read_text(), re.MULTILINE)
        if VAGUE.search(name)
    }
    assert not found, found


def dialect(text: str) -> list[str]:
    """Return the words of the dialect in a file, each with what stands before it, also where a line ends within them."""
    joined = re.sub(r"\s*\n\s*(?:#\s*)?", " ", WORDS_OF_INTERFACES.sub("", text))
    return [joined[max(0, found.start() - 40) : found.end()] for found in DIALECT_OF_CODE.finditer(joined)]


def test_comments_and_descriptions_are_in_the_words_of_the_field():
    files = [file for folder in FOLDERS_OF_WORDS for file in sorted((ROOT / folder).rglob("*")) if file.is_file()]
    names = {str(file.relative_to(ROOT)): file for file in files if file.suffix in SUFFIXES_OF_WORDS}
    assert len(names) > 400
    found = {
        name: words
        for name, file in names.items()
        if not name.startswith(FOREIGN_WORDS) and (words := dialect(file.read_text(errors="replace")))
    }
    assert not found, found


def test_a_word_of_the_dialect_is_found_across_lines_and_not_in_an_interface():
    assert dialect("# Compare it with what is\n    # wanted.\n") == ["# Compare it with what is wanted"]
    assert dialect('css = {"": "nobody"}\n.nobody { color: red }\nnot untolerated(node)\n') == []
    assert dialect("wanted = desired(nodes)  # by the node's name\n") == []


def too_long(tree: ast.Module) -> Iterator[str]:
    """Yield the functions and classes that have more lines than theirs may have, methods and inner functions included."""
    for node in ast.walk(tree):
        most = MOST_LINES.get(type(node))
        if most and (count := node.end_lineno - node.lineno + 1) > most:
            yield f"{node.name} has {count} lines, of {most} at most"


def test_functions_and_classes_are_short():
    long = [f"{name}: {found}" for name, tree in TREES.items() for found in too_long(tree)]
    assert not long, "Split them by what belongs together:\n" + "\n".join(long)


def test_lines_are_counted_with_docstrings_and_inside_of_classes():
    filled = "\n".join(["    x = 1"] * 39)
    assert list(too_long(ast.parse(f"def short():\n{filled}"))) == []
    assert list(too_long(ast.parse(f'def long():\n    """Tell."""\n{filled}'))) == ["long has 41 lines, of 40 at most"]
    methods = "\n".join(f"    def m{number}(self):\n        pass" for number in range(100))
    assert list(too_long(ast.parse(f"class Long:\n{methods}"))) == ["Long has 201 lines, of 200 at most"]


def test_nothing_reaches_into_a_module_object():
    offenders = {
        name
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "_module"
    }
    assert not offenders


@pytest.mark.parametrize("folder", ["module_utils", "plugin_utils"])
def test_private_code_says_so(folder):
    kind = folder.removesuffix("s").replace("_", " ")
    banner = f"# Note that this {kind} is PRIVATE to the collection: it may change in any release."
    private = [name for name in FILES if name.removeprefix("lab/").startswith(folder)]
    assert not [name for name in private if banner not in SOURCES[name].splitlines()[:8]]


def test_there_is_nothing_but_private_code_to_import():
    assert not [name for name in FILES if re.match(r"(lab/)?(module|plugin)_utils/[^_]", name)]
    assert not [name for name in FILES if name.endswith("__init__.py")]


def test_the_same_thing_has_the_same_file_name_in_every_subject():
    offenders = set()
    for name in FILES:
        root, subject, *rest = name.removesuffix(".py").split("/")
        if (
            root == "module_utils"
            and subject in SUBJECTS
            and "/".join(rest) not in FILE_NAMES | FURTHER_FILES.get(subject, set())
        ):
            offenders.add(f"{subject}/{'/'.join(rest)}")
    assert not offenders, f"Known are {sorted(FILE_NAMES)}; {FURTHER_FILES}"


CORE = "ansible_collections.kubernetes.core."
# What import-linter cannot tell from urllib.parse, or from other collections, and who may import it.
RESERVED = {
    CORE: {
        # The module class and the authentication options.
        "module_utils/_kernel/module.py": {
            f"{CORE}plugins.module_utils.args_common",
            f"{CORE}plugins.module_utils.args_common.AUTH_ARG_SPEC",
            f"{CORE}plugins.module_utils.k8s.core",
            f"{CORE}plugins.module_utils.k8s.core.AnsibleK8SModule",
        }
    },
    "urllib.request": {},
}


@pytest.mark.parametrize("prefix", RESERVED)
def test_adapters_alone_reach_beyond_the_process(prefix):
    offenders = {
        name: reserved
        for name in FILES
        if not name.startswith("module_utils/_adapters/")
        and (reserved := {found for found in imports(name) if found.startswith(prefix)} - RESERVED[prefix].get(name, set()))
    }
    assert not offenders


def plugins_in(folder: str) -> list[str]:
    return [
        f"ansible_collections.kubegpu.tenancy.plugins.{folder}.{path.stem}" for path in sorted((PLUGINS / folder).glob("*.py"))
    ]


def imported_by(names: list[str]) -> set[str]:
    """Return the names of all modules that a new process has once it has imported some."""
    code = f"import importlib, sys\nfor name in {names}: importlib.import_module(name)\nprint(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_the_controller_starts_without_the_client_of_kubernetes():
    """It takes half a second to import, and each of the processes that Ansible forks for a task costs more with it."""
    plugins = plugins_in("action") + plugins_in("filter")
    imported = imported_by(plugins)
    assert "kubernetes" not in imported
    assert imported.issuperset(plugins)


def test_the_filters_are_imported_before_ansible_forks_a_process_for_each_task():
    """The first task of the playbooks that use filters of the collection is of this plugin."""
    plugin = "ansible_collections.kubegpu.tenancy.plugins.action.tenancy_plan"
    assert imported_by([plugin]).issuperset(plugins_in("filter"))


def test_an_execution_environment_brings_what_modules_import():
    code = [name for name in FILES if name.startswith(("modules/", "module_utils/"))]
    foreign = {found.partition(".")[0] for name in code for found in imports(name)} - {*sys.stdlib_module_names, "__future__"}
    # They come with ansible-core and with kubernetes.
    brought = {"ansible", "ansible_collections", "yaml", "urllib3", "websocket"}
    declared = re.findall(r"^[a-z]+", (ROOT / "meta/ee-requirements.txt").read_text(), re.MULTILINE)
    # jsonpatch is imported by kubernetes.core.
    assert foreign - brought == set(declared) - {"jsonpatch"}


# The two in which numbers are made: of amounts, and of JSON.
READERS = {"module_utils/_common/quantity.py", "module_utils/_common/documents.py"}


def _reads_a_number(call: ast.Call) -> bool:
    """Tell whether a call makes a number of something that is no constant of the code, and no text of a given base."""
    name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr if isinstance(call.func, ast.Attribute) else ""
    constant = all(isinstance(arg, ast.Constant) or (isinstance(arg, ast.Name) and arg.id.isupper()) for arg in call.args)
    return name in ("int", "float", "Decimal") and not constant and len(call.args) == 1


@pytest.mark.parametrize("name", [name for name in FILES if name not in READERS])
def test_amounts_are_read_by_the_one_reader(name):
    """What an API or a person wrote may be 1k, NaN or a million digits; _common/quantity.py reads all of it, finite and bounded."""
    found = [f"line {node.lineno}" for node in ast.walk(TREES[name]) if isinstance(node, ast.Call) and _reads_a_number(node)]
    assert not found, f"use quantity, devices, whole, number or plain of _common/quantity.py, or math.floor: {found}"


@pytest.mark.parametrize("name", [name for name in FILES if name != "module_utils/_common/documents.py"])
def test_documents_are_read_within_a_size_and_a_depth(name):
    """Python's parser of JSON raises RecursionError, and libyaml's ends the process; _common/documents.py knows both."""
    calls = [node for node in ast.walk(TREES[name]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    parsers = {
        ("json", "loads"),
        ("json", "load"),
        ("yaml", "load"),
        ("yaml", "safe_load"),
        ("yaml", "load_all"),
        ("yaml", "safe_load_all"),
    }
    found = [
        f"line {call.lineno}"
        for call in calls
        if isinstance(call.func.value, ast.Name)
        and (call.func.value.id, call.func.attr) in parsers
        # With hooks of its own, as the editor of daemon.json has, which knows RecursionError; and what the program wrote a line before.
        and "object_pairs_hook" not in {keyword.arg for keyword in call.keywords}
        and not (call.args and isinstance(call.args[0], ast.Name) and call.args[0].id == "shape")
    ]
    assert not found, f"use parse_json, load_document or load_documents of _common/documents.py: {found}"


UNTESTED = [*(ROOT / "tests/bench").glob("*.py"), *(ROOT / "tools").glob("*.py")]


@pytest.mark.parametrize("path", UNTESTED, ids=lambda path: path.name)
def test_programs_that_no_test_runs_find_what_they_import(path):
    tree = ast.parse(path.read_text())
    ours = [
        node
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ansible_collections.kubegpu")
    ]
    for node in ours:
        module = importlib.import_module(node.module)
        for name in (alias.name for alias in node.names):
            assert hasattr(module, name) or importlib.util.find_spec(f"{node.module}.{name}"), f"{node.module} has no {name}"
