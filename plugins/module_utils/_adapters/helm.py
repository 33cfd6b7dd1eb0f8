# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The adapter to Helm: the only file that runs the helm program.

Values go to helm by its standard input, never into a file or an argument list: they may hold secrets.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import shutil
import tarfile
import tempfile
import typing as t

from .._common.documents import LARGEST, load_document, load_manifests
from .._common.errors import CommandFailed, TenancyError, refuse
from .._common.quantity import whole
from .._common.secrets import without_password
from .._common.text import shown
from .._common.values import Values
from .._common.wait import Deadline
from .helm_output import NOT_FOUND, UNKNOWN_KEYS, UPGRADE_ARGUMENTS, error_message, violations
from .programs import CUT_SHORT, Runner, last_lines

# Documented by the fragment kubegpu.tenancy._helm.
HELM_ARG_SPEC: dict[str, t.Any] = {
    "values": {"type": "dict", "default": {}},
    "chart_source": {"type": "str", "default": ""},
    "helm_binary": {"type": "str", "default": "helm"},
}

# A version as Helm takes one without searching (semver.org); others are ranges.
_EXACT = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", re.ASCII)

# Seconds that helm has once the change's time is up, and that it has beyond the timeout of its own.
LEAST_SECONDS = 60.0


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
    """Return the chart at the place that the user names.

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
    chart = _metadata(path)
    if (chart.get("name"), chart.get("version")) != (name, version):
        raise TenancyError(f"chart_source: {path} is {chart.get('name')} {chart.get('version')}, not {name} {version}.")
    return Chart(path)


def chart_versions(source: str, name: str) -> list[str] | None:
    """Return the versions of a chart in a folder of ``.tgz`` files; None where charts come from anywhere else."""
    folder = os.path.expanduser(source)
    if (
        not source
        or source.startswith("oci://")
        or not os.path.isdir(folder)
        or os.path.isfile(os.path.join(folder, "Chart.yaml"))
    ):
        return None
    files = (file for file in os.listdir(folder) if file.startswith(f"{name}-") and file.endswith(".tgz"))
    return [file[len(name) + 1 : -len(".tgz")] for file in files]


def exact_chart(chart: Chart) -> Chart:
    """Return a chart whose version is exact. A v before it stays: a tag of an OCI registry may begin with one.

    :raises TenancyError: where its version is a range, or its folder or file has another one.
    """
    version = chart.version.removeprefix("v")
    if not _EXACT.fullmatch(version):
        raise TenancyError(f"version: {shown(chart.version)!r} is no exact version of a chart, such as 1.12.0.")
    if chart.local:
        own = str(_metadata(os.path.expanduser(chart.ref), "chart").get("version", "")).removeprefix("v")
        if own != version:
            raise TenancyError(f"version: {chart.ref} is version {shown(own)}, not {version}.")
    return chart


def _metadata(path: str, option: str = "chart_source") -> dict[str, t.Any]:
    """Return the Chart.yaml in a chart's archive or folder."""
    try:
        if os.path.isdir(path):
            with open(os.path.join(path, "Chart.yaml"), encoding="utf-8") as file:
                return dict(load_document(file.read(LARGEST + 1)))
        with tarfile.open(path) as archive:
            member = next(member for member in archive if member.name.count("/") == 1 and member.name.endswith("/Chart.yaml"))
            return dict(load_document(t.cast(t.IO[bytes], archive.extractfile(member)).read(LARGEST + 1)))
    except (OSError, tarfile.TarError, StopIteration, TypeError, ValueError) as exc:
        raise TenancyError(without_password(f"{option}: {path} is no chart: {shown(exc) or 'it has no Chart.yaml'}.")) from exc


# Helm unpacks the records of a release without a bound, and a tenant can write them in its own cluster. A chart such as KAI Scheduler's takes it
# less than 100 MiB. In KiB, as ulimit(1) takes it; Go ends the program where it may not have more.
MEMORY = 512 * 1024
_WITHIN = ("sh", "-c", 'ulimit -d "$0" && exec "$@"')
_OUT_OF_MEMORY = "out of memory"


class Helm:
    """Verbs over one cluster, by Helm 3 or Helm 4. Every method raises TenancyError with helm's own message.

    What a release holds is a Secret in its cluster, which a tenant may write. So nothing of it is taken as it comes.

    :arg deadline: of the whole change; helm is ended soon after it. None for no bound.
    """

    def __init__(
        self, run: Runner, binary: str, kubeconfig: str, context: str | None = None, deadline: Deadline | None = None
    ) -> None:
        self._run = run
        self._deadline = deadline
        self._binary = binary
        # Helm would leave what it learns of the API server, and the charts it downloads, in the user's home.
        self._cache = tempfile.TemporaryDirectory(prefix="kubegpu-helm-")
        self._cluster = ["--kubeconfig", os.path.expanduser(kubeconfig)] + (["--kube-context", context] if context else [])
        self._major = 0

    @classmethod
    def connect(cls, run: Runner, params: t.Mapping[str, t.Any], deadline: Deadline | None = None) -> Helm:
        """Make the adapter from ``helm_binary`` and the authentication options; helm itself finds the kubeconfig if none is given."""
        kubeconfig = params["kubeconfig"] or os.environ.get("K8S_AUTH_KUBECONFIG", "")
        if not isinstance(kubeconfig, str):
            raise TenancyError("kubeconfig: has to be the path of a file here, because helm reads it too.")
        # A service's PATH often lacks the folder that helm's own installer uses.
        binary = os.path.expanduser(params["helm_binary"])
        found = shutil.which(binary) or shutil.which(binary, path="/usr/local/bin")
        if found is None:
            raise TenancyError(
                f"helm_binary: there is no program {binary}. Install Helm 3.14 or newer on the host, or name its path."
            )
        return cls(run, found, kubeconfig, params["context"] or os.environ.get("K8S_AUTH_CONTEXT"), deadline)

    def _helm(self, *args: str, data: str | None = None) -> str:
        # HELM_DRIVER: the records of releases are read as Secrets, which are helm's default.
        environment = {"HELM_NAMESPACE": "", "HELM_DRIVER": "secret"}
        environment |= {"KUBECACHEDIR": self._cache.name, "HELM_CACHE_HOME": self._cache.name}
        seconds = round(self._deadline.left(0) + LEAST_SECONDS) if self._deadline else 0
        bound = ["timeout", "--kill-after=10", str(seconds)] if seconds else []
        rc, out, err = self._run([*_WITHIN, str(MEMORY), *bound, self._binary, *args], data=data, environ_update=environment)
        if rc != 0:
            said = last_lines(err)
            if _OUT_OF_MEMORY in err:
                raise CommandFailed(
                    f"helm {args[0]} needs more than {MEMORY // 1024} MiB of memory. A release's record in the cluster may be larger than any "
                    "chart makes it.",
                    rc=rc,
                    stderr=said,
                )
            ended = f" after {seconds} s" if bound and rc in CUT_SHORT else ""
            message = error_message(said) or last_lines(out).strip() or f"exit status {rc}"
            raise CommandFailed(f"helm {args[0]} failed{ended}: {message}", rc=rc, stderr=said)
        return out

    def major(self) -> int:
        """Return the program's major version, which is asked for once.

        :raises TenancyError: when the collection does not know that major.
        """
        if not self._major:
            version = self._helm("version", "--template", "{{.Version}}").strip()
            major = re.match(r"v(\d{1,4})\.", version, re.ASCII)
            number = whole(major[1]) if major else 0
            if number not in UPGRADE_ARGUMENTS:
                known = " or ".join(f"Helm {number}" for number in UPGRADE_ARGUMENTS)
                raise TenancyError(
                    f"helm_binary: {self._binary} is version {shown(version)!r}, and this collection needs {known}."
                )
            self._major = number
        return self._major

    def upgrade(self, name: str, namespace: str, chart: Chart, values: Values, timeout: int, hooks: bool = True) -> str:
        """Install or upgrade with exactly these values; never --reuse-values, which breaks across versions.

        :arg timeout: seconds for each of the chart's hooks, which run unless ``hooks`` is false; nothing else is waited for.
        """
        args = ["upgrade", "--install", name, *chart.args(), "--namespace", namespace, "--create-namespace"]
        args += ["--reset-values", "--values", "-", "--timeout", f"{timeout}s", *([] if hooks else ["--no-hooks"])]
        args += [*UPGRADE_ARGUMENTS[self.major()], *self._cluster]
        return self._helm(*args, data=json.dumps(values))

    def uninstall(self, name: str, namespace: str, timeout: int, hooks: bool = True) -> str:
        """Uninstall the release with its history; do nothing where there is none.

        :arg timeout: seconds for each of the chart's hooks, which run unless ``hooks`` is false.
        """
        args = ["uninstall", name, "--namespace", namespace, "--timeout", f"{timeout}s", *([] if hooks else ["--no-hooks"])]
        try:
            return self._helm(*args, *self._cluster)
        except TenancyError as exc:
            if _is_not_found(exc):
                return ""
            raise

    def template(self, name: str, namespace: str, chart: Chart, values: Values, api_versions: t.Sequence[str] = ()) -> str:
        """Return the chart's manifests; fail as an installation would on values that its schema or its templates refuse.

        :arg api_versions: kinds that the chart finds served, besides those of helm's own list.
        """
        # A program that cannot be used is refused here, too, because nothing was written yet.
        self.major()
        served = [f"--api-versions={kind}" for kind in api_versions]
        args = ["template", name, *chart.args(), "--namespace", namespace, *served, "--values", "-"]
        try:
            return self._helm(*args, data=json.dumps(values))
        except CommandFailed as exc:
            refuse(violations(exc.stderr, self._defaults(chart) if UNKNOWN_KEYS in exc.stderr else {}))
            raise

    def _defaults(self, chart: Chart) -> Values:
        with _readable(f"helm show values {chart.ref}"):
            return load_document(self._helm("show", "values", *chart.args())) or {}

    def crds(self, chart: Chart) -> list[Values]:
        """Return the chart's CRDs, which helm installs once and never upgrades."""
        with _readable(f"helm show crds {chart.ref}"):
            return [crd for crd in load_manifests(self._helm("show", "crds", *chart.args())) if crd]


@contextlib.contextmanager
def _readable(what: str) -> t.Iterator[None]:
    """Raise TenancyError for what cannot be read of helm's output."""
    try:
        yield
    except ValueError as exc:
        raise TenancyError(f"{what} printed what cannot be read: {shown(exc)}.") from exc


def _is_not_found(error: TenancyError) -> bool:
    return isinstance(error, CommandFailed) and error.stderr.rstrip().endswith(NOT_FOUND)
