# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Helm: the only file that runs the helm program.

Values go to helm by its standard input, never into a file or an argument list: they may hold secrets.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import os
import re
import tarfile
import tempfile
import typing as t

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError, refuse
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Values

try:
    import yaml
except ImportError:
    # The kubernetes client needs it too, and kubernetes.core reports that one missing.
    yaml = None  # type: ignore[assignment]

# Documented by the fragment kubegpu.tenancy._helm.
HELM_ARG_SPEC: dict[str, t.Any] = {
    "values": {"type": "dict", "default": {}},
    "chart_source": {"type": "str", "default": ""},
    "helm_binary": {"type": "str", "default": "helm"},
}

# States helm leaves behind when it was killed; see `helm status --help`.
UNFINISHED = frozenset({"pending-install", "pending-upgrade", "pending-rollback", "uninstalling"})


class Runner(t.Protocol):
    """What this adapter needs of an Ansible module: AnsibleModule.run_command."""

    def __call__(
        self, args: list[str], *, data: str | None = None, environ_update: dict[str, str] | None = None
    ) -> tuple[int, str, str]: ...


@dataclasses.dataclass(frozen=True)
class Release:
    """A Helm release as recorded in the cluster.

    :ivar status: helm's word: deployed, failed, uninstalled, or one of UNFINISHED.
    :ivar values: what users supplied, without the chart's defaults.
    """

    name: str
    namespace: str
    status: str
    revision: int
    chart: str
    chart_version: str
    values: Values

    @property
    def record(self) -> str:
        """The Secret this revision is recorded in. helm refuses to act on a pending one; without it, it goes on from the last."""
        return f"sh.helm.release.v1.{self.name}.v{self.revision}"


@dataclasses.dataclass(frozen=True)
class Chart:
    """Where a chart comes from.

    :ivar ref: an ``oci://`` reference, a folder, a ``.tgz`` file, or a name within ``repo``.
    :ivar version: exact; empty for folders and files, which carry their own.
    :ivar repo: address of a classic chart repository.
    :ivar plain_http: talk to an OCI registry without TLS.
    """

    ref: str
    version: str = ""
    repo: str = ""
    plain_http: bool = False

    @property
    def local(self) -> bool:
        return not self.repo and not self.ref.startswith("oci://")

    def args(self) -> list[str]:
        args = [os.path.expanduser(self.ref) if self.local else self.ref]
        if self.version and not self.local:
            args += ["--version", self.version]
        if self.repo:
            args += ["--repo", self.repo]
        if self.plain_http:
            args.append("--plain-http")
        return args


def find_chart(source: str, name: str, version: str, upstream: Chart) -> Chart:
    """A chart at the place the user names.

    :arg source: empty for upstream, an ``oci://`` prefix, a folder of ``.tgz`` files, one such file, or a chart's folder.
    :raises TenancyError: when it is not there, or another chart or version than asked for.
    """
    if not source:
        return upstream
    if source.startswith("oci://"):
        return Chart(f"{source.rstrip('/')}/{name}", version)
    path = os.path.expanduser(source)
    if not path.endswith(".tgz") and not os.path.isfile(os.path.join(path, "Chart.yaml")):
        path = os.path.join(path, f"{name}-{version}.tgz")
    if not os.path.exists(path):
        raise TenancyError(f"chart_source: there is no {path}.")
    found = _described(path)
    if (found.get("name"), found.get("version")) != (name, version):
        raise TenancyError(f"chart_source: {path} is {found.get('name')} {found.get('version')}, not {name} {version}.")
    return Chart(path)


def _described(path: str) -> dict[str, t.Any]:
    """What a chart's archive or folder says of itself."""
    try:
        if os.path.isdir(path):
            with open(os.path.join(path, "Chart.yaml"), encoding="utf-8") as file:
                return dict(yaml.safe_load(file))
        with tarfile.open(path) as archive:
            member = next(member for member in archive if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"))
            return dict(yaml.safe_load(t.cast(t.IO[bytes], archive.extractfile(member))))
    except (OSError, tarfile.TarError, StopIteration, TypeError, ValueError, yaml.YAMLError) as exc:
        raise TenancyError(f"chart_source: {path} is no chart: {str(exc) or 'it has no Chart.yaml'}.") from exc


# How helm 3.18 and later tell what a chart's schema refuses, with a JSON pointer, and what its templates `fail` of.
_VIOLATION = re.compile(r"^ *- at '((?:[^'\\]|\\.)*)': (.+)$", re.MULTILINE)
_UNKNOWN_KEYS = "additional properties "
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")
_WRONG_TYPE = re.compile(r"got (\w+), want (.+)")
# The lines below these say it.
_HEADING = re.compile(r"validation failed|'\w+' failed, .*")
_FAILED = re.compile(r"^Error: execution error at \(.*?\): (.+)$", re.MULTILINE)


def violations(words: str, known: Values) -> list[str]:
    """What a chart has against its values, each with the value's path; empty where helm failed for another reason.

    :arg words: helm's.
    :arg known: the chart's own values, to guess what an unknown key was meant to be.
    """
    problems = [f"values: {said.rstrip('.')}." for said in _FAILED.findall(words)]
    types: dict[tuple[str, str], list[str]] = {}
    for pointer, said in _VIOLATION.findall(words):
        keys = [_plain(key).replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]
        path = "values" + "".join(f"[{key}]" if key.isdigit() else f".{key}" for key in keys)
        if said.startswith(_UNKNOWN_KEYS):
            problems += [_unknown(path, _plain(key), _keys_at(known, keys)) for key in _QUOTED.findall(said)]
        elif wrong := _WRONG_TYPE.fullmatch(said):
            types.setdefault((path, wrong[1]), []).append(wrong[2])
        elif not _HEADING.fullmatch(said):
            problems.append(f"{path}: {said}.")
    return problems + [f"{path}: must be of type {' or '.join(wanted)}, not {got}." for (path, got), wanted in types.items()]


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _unknown(path: str, key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    return f"{path}.{key}: the chart has no such key." + (f" Did you mean {close[0]}?" if close else "")


def _keys_at(values: t.Any, keys: list[str]) -> list[str]:
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return list(values) if isinstance(values, dict) else []


class Helm:
    """Verbs over one cluster. Every method raises TenancyError with helm's own words."""

    def __init__(self, run: Runner, binary: str, kubeconfig: str, context: str | None = None) -> None:
        self._run = run
        self._binary = binary
        # It would leave what it learns of the API server, and charts it gets, in the user's home.
        self._cache = tempfile.TemporaryDirectory(prefix="kubegpu-helm-")
        self._cluster = ["--kubeconfig", os.path.expanduser(kubeconfig)] + (["--kube-context", context] if context else [])

    @classmethod
    def connect(cls, run: Runner, params: t.Mapping[str, t.Any]) -> Helm:
        """From a module's ``helm_binary`` and authentication options; helm itself finds the kubeconfig when none is given."""
        kubeconfig = params["kubeconfig"] or os.environ.get("K8S_AUTH_KUBECONFIG", "")
        if not isinstance(kubeconfig, str):
            raise TenancyError("kubeconfig: has to be the path of a file here, because helm reads it too.")
        return cls(run, params["helm_binary"], kubeconfig, params["context"] or os.environ.get("K8S_AUTH_CONTEXT"))

    def _helm(self, *args: str, data: str | None = None) -> str:
        environment = {"HELM_NAMESPACE": "", "KUBECACHEDIR": self._cache.name, "HELM_CACHE_HOME": self._cache.name}
        rc, out, err = self._run([self._binary, *args], data=data, environ_update=environment)
        if rc != 0:
            words = err.strip() or out.strip()
            raise TenancyError(f"helm {args[0]} failed: {words}", rc=rc, stderr=err)
        return out

    def release(self, name: str, namespace: str) -> Release | None:
        """The release whatever its state, or None."""
        listed = json.loads(
            self._helm("list", "--all", "--filter", f"^{name}$", "--namespace", namespace, "--output", "json", *self._cluster)
        )
        if not listed:
            return None
        found = listed[0]
        values = json.loads(self._helm("get", "values", name, "--namespace", namespace, "--output", "json", *self._cluster))
        chart, _dash, version = found["chart"].rpartition("-")
        # A pre-release (1.2.3-rc.1) has a dash of its own: the version starts at the first part with a dot.
        if "." not in version or not version.lstrip("v")[0].isdigit() or "." in chart:
            head = next(i for i, part in enumerate(found["chart"].split("-")) if "." in part)
            parts = found["chart"].split("-")
            chart, version = "-".join(parts[:head]), "-".join(parts[head:])
        return Release(name, namespace, found["status"], int(found["revision"]), chart, version, values or {})

    def upgrade(self, name: str, namespace: str, chart: Chart, values: Values, timeout: int, wait: bool = False) -> str:
        """Install or upgrade with exactly these values; never --reuse-values, which breaks across versions.

        :arg timeout: seconds for hooks, and for resources when ``wait``.
        """
        args = ["upgrade", "--install", name, *chart.args(), "--namespace", namespace, "--create-namespace"]
        args += ["--reset-values", "--values", "-", "--timeout", f"{timeout}s", *(["--wait"] if wait else []), *self._cluster]
        return self._helm(*args, data=json.dumps(values))

    def uninstall(self, name: str, namespace: str, timeout: int, hooks: bool = True) -> str:
        args = ["uninstall", name, "--namespace", namespace, "--timeout", f"{timeout}s", "--ignore-not-found"]
        return self._helm(*args, *([] if hooks else ["--no-hooks"]), *self._cluster)

    def template(self, name: str, namespace: str, chart: Chart, values: Values) -> str:
        """The chart's manifests; fails as an installation would on values that its schema or its templates refuse."""
        try:
            return self._helm("template", name, *chart.args(), "--namespace", namespace, "--values", "-", data=json.dumps(values))
        except TenancyError as exc:
            words: str = exc.details["stderr"]
            refuse(violations(words, self._defaults(chart) if _UNKNOWN_KEYS in words else {}))
            raise

    def _defaults(self, chart: Chart) -> Values:
        return yaml.safe_load(self._helm("show", "values", *chart.args())) or {}

    def crds(self, chart: Chart) -> list[Values]:
        """The chart's CRDs, which helm installs once and never upgrades."""
        return [crd for crd in yaml.safe_load_all(self._helm("show", "crds", *chart.args())) if crd]
