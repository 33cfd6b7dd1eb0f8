# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the Helm adapter: where charts are found, and what it makes of the output of Helm 3 and Helm 4."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile

import pytest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import (
    LEAST_SECONDS,
    MEMORY,
    Chart,
    Helm,
    find_chart,
)
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline

UPSTREAM = Chart("oci://ghcr.io/kai/kai-scheduler", "v0.13.1")


@pytest.fixture
def charts(tmp_path):
    folder = tmp_path / "kai-scheduler"
    folder.mkdir()
    (folder / "Chart.yaml").write_text("name: kai-scheduler\nversion: v0.13.1\n")
    with tarfile.open(tmp_path / "kai-scheduler-v0.13.1.tgz", "w:gz") as archive:
        archive.add(folder, "kai-scheduler")
    return tmp_path


def find(source, version="v0.13.1"):
    return find_chart(str(source), "kai-scheduler", version, UPSTREAM)


def test_where_charts_are_found(charts):
    archive = charts / "kai-scheduler-v0.13.1.tgz"
    assert find("") is UPSTREAM
    assert find("oci://registry.example/charts/") == Chart("oci://registry.example/charts/kai-scheduler", "v0.13.1")
    assert find(charts) == find(archive) == Chart(str(archive))
    assert find(charts / "kai-scheduler") == Chart(str(charts / "kai-scheduler"))


@pytest.mark.parametrize(
    ("source", "version", "told"),
    [
        ("", "v0.12.0", r"there is no .*/kai-scheduler-v0\.12\.0\.tgz"),
        ("kai-scheduler-v0.13.1.tgz", "v0.12.0", r"is kai-scheduler v0\.13\.1, not kai-scheduler v0\.12\.0"),
        ("kai-scheduler", "v0.12.0", r"is kai-scheduler v0\.13\.1, not kai-scheduler v0\.12\.0"),
        ("gone.tgz", "v0.13.1", "there is no .*gone.tgz"),
        ("odd.tgz", "v0.13.1", "odd.tgz is no chart"),
        ("empty.tgz", "v0.13.1", "empty.tgz is no chart: it has no Chart.yaml"),
    ],
)
def test_what_is_not_there_or_another(charts, source, version, told):
    (charts / "odd.tgz").write_text("no archive")
    tarfile.open(charts / "empty.tgz", "w:gz").close()
    with pytest.raises(TenancyError, match=f"chart_source: .*{told}"):
        find(charts / source, version)


# --- running helm ------------------------------------------------------------------------------------------------

# By version, what each command printed: exit status, standard output, standard error. Recorded with the programs that the lab
# builds, against an API server v1.35.4.
FORBIDDEN = (
    'query: failed to query with labels: secrets is forbidden: User "system:serviceaccount:default:nobody" cannot list resource '
    '"secrets" in API group "" in the namespace "apps"\n'
)
RECORDED = {
    "3.19.5": {
        "version": (0, "v3.19", ""),
        "unreachable": (1, "", 'Error: Kubernetes cluster unreachable: context "nope" does not exist\n'),
    },
    "4.3.1": {
        "version": (0, "v4.3", ""),
        "unreachable": (1, "", 'Error: kubernetes cluster unreachable: context "nope" does not exist\n'),
    },
}
# The same in both.
ABSENT = (1, "", "Error: uninstall: Release not loaded: t: release: not found\n")
UNREADABLE = (1, "", f"Error: uninstall: Release not loaded: t: {FORBIDDEN}")
# For versions that do not matter.
SILENT = {"upgrade": (0, "", ""), "uninstall": (0, 'release "t" uninstalled\n', "")}

versions = pytest.mark.parametrize("version", RECORDED)


class Program:
    """Answers as a version of helm did; ``answers`` go before that, by command."""

    def __init__(self, recorded_version, /, **answers):
        recorded = RECORDED[recorded_version]
        self.answers = SILENT | {"version": recorded["version"]} | answers
        self.calls = []
        self.helm = Helm(self.run, "helm", "/etc/kubeconfig", "host")

    def run(self, args, *, data=None, environ_update=None):
        assert {"HELM_NAMESPACE", "HELM_DRIVER", "HELM_CACHE_HOME", "KUBECACHEDIR"} == environ_update.keys()
        # Without what bounds its memory.
        args = args[4:]
        self.calls.append((args, data))
        command = args[1:3] if args[1] == "get" else args[1:2]
        return next(self.answers[word] for word in reversed(command) if word in self.answers)

    @property
    def commands(self):
        return [args[1:] for args, _data in self.calls]


CLUSTER = ["--kubeconfig", "/etc/kubeconfig", "--kube-context", "host"]


def test_an_error_is_short_however_much_helm_said():
    err = "W1126 a warning\n" * 100_000 + "Error: admission webhook denied it: \x1b[2J" + "a" * 1_000_000 + "\n"
    with pytest.raises(TenancyError) as caught:
        Program("4.3.1", upgrade=(1, "", err)).helm.upgrade("t", "apps", Chart("/c"), {}, 10)
    assert caught.value.message.startswith("helm upgrade failed: ")
    for text in (caught.value.message, caught.value.details["stderr"]):
        assert "\x1b" not in text
        assert len(text) < 500_000


def test_warnings_before_it_do_not_hide_that_there_is_no_release():
    err = "W1126 a warning\n" * 1000 + ABSENT[2]
    assert Program("4.3.1", uninstall=(1, "", err)).helm.uninstall("t", "apps", 10) == ""


def test_helm_ends_soon_after_the_deadline():
    calls = []

    def run(args, **_more):
        calls.append(args)
        return 124, "", ""

    with pytest.raises(TenancyError, match=f"helm uninstall failed after {10 + LEAST_SECONDS:.0f} s: exit status 124"):
        Helm(run, "helm", "", None, Deadline(10, lambda: 0.0)).uninstall("t", "apps", 10)
    assert calls[0][4:8] == ["timeout", "--kill-after=10", f"{10 + LEAST_SECONDS:.0f}", "helm"]


def test_helm_has_a_bound_of_memory(tmp_path):
    program = tmp_path / "helm"
    program.write_text(
        f"""#!{sys.executable}
import sys
try:
    bytearray({2 * MEMORY} * 1024)
except MemoryError:
    sys.exit("fatal error: runtime: out of memory")
"""
    )
    program.chmod(0o755)

    def run(args, **_more):
        done = subprocess.run(args, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    with pytest.raises(TenancyError, match=r"helm uninstall needs more than 512 MiB of memory\. A release's record"):
        Helm(run, str(program), "").uninstall("t", "apps", 10)


@pytest.mark.parametrize("printed", ["[" * 100_000, "a: b: c", "&a [*a"])
def test_what_a_chart_shows_is_read_within_bounds(printed):
    with pytest.raises(TenancyError, match="helm show crds /c printed what cannot be read"):
        Program("4.3.1", show=(0, printed, "")).helm.crds(Chart("/c"))


@versions
def test_nothing_is_uninstalled_where_there_is_no_release(version):
    assert Program(version, uninstall=ABSENT).helm.uninstall("t", "apps", 10) == ""


@versions
def test_a_release_that_cannot_be_read_is_an_error(version):
    program = Program(version, uninstall=UNREADABLE)
    with pytest.raises(TenancyError, match="secrets is forbidden"):
        program.helm.uninstall("t", "apps", 10)
    # It would take the one for the other.
    assert not [args for args in program.commands if "--ignore-not-found" in args]
    with pytest.raises(TenancyError, match="cluster unreachable"):
        Program(version, uninstall=RECORDED[version]["unreachable"]).helm.uninstall("t", "apps", 10)


@versions
def test_both_apply_a_chart_in_the_same_way(version):
    program = Program(version)
    program.helm.upgrade("t", "apps", Chart("/charts/tiny.tgz"), {"secret": "x"}, 30)
    program.helm.upgrade("t", "apps", Chart("oci://r/tiny", "1.2.3", plain_http=True), {}, 30)
    asked, (first, data), (second, _data) = program.calls
    assert asked[0][1:] == ["version", "--template", "{{.Version}}"]
    common = ["--namespace", "apps", "--create-namespace", "--reset-values", "--values", "-", "--timeout", "30s"]
    common += {"3.19.5": [], "4.3.1": ["--server-side=false"]}[version] + CLUSTER
    assert first[1:] == ["upgrade", "--install", "t", "/charts/tiny.tgz", *common]
    assert second[1:] == ["upgrade", "--install", "t", "oci://r/tiny", "--version", "1.2.3", "--plain-http", *common]
    # Never in the list of arguments, which everyone on the host can read.
    assert json.loads(data) == {"secret": "x"}


@versions
def test_hooks_are_left_out_where_asked(version):
    program = Program(version)
    program.helm.uninstall("t", "apps", 30)
    program.helm.uninstall("t", "apps", 30, hooks=False)
    common = ["uninstall", "t", "--namespace", "apps", "--timeout", "30s"]
    assert program.commands == [[*common, *CLUSTER], [*common, "--no-hooks", *CLUSTER]]


def test_a_chart_is_rendered_with_the_kinds_that_the_cluster_serves():
    program = Program("4.3.1", template=(0, "kind: X\n", ""))
    assert program.helm.template("t", "apps", Chart("/c"), {}, ["resource.k8s.io/v1/DeviceClass"]) == "kind: X\n"
    assert "--api-versions=resource.k8s.io/v1/DeviceClass" in program.commands[-1]


@pytest.mark.parametrize("printed", ["v2.17.0", "v5.0.1", "unknown", ""])
def test_other_majors_are_refused_before_anything_is_written(printed):
    program = Program("3.19.5", version=(0, printed, ""))
    for call in (
        lambda: program.helm.template("t", "apps", Chart("/c"), {}),
        lambda: program.helm.upgrade("t", "apps", Chart("/c"), {}, 1),
    ):
        with pytest.raises(TenancyError, match=f"helm_binary: helm is version '{printed}', and this collection needs Helm 3 or "):
            call()
    assert program.commands == [["version", "--template", "{{.Version}}"]] * 2


def test_a_missing_program_is_named(tmp_path):
    params = {"kubeconfig": "/etc/kubeconfig", "context": None, "helm_binary": str(tmp_path / "helm5")}
    with pytest.raises(TenancyError, match=r"helm_binary: there is no program .*/helm5\. Install Helm 3\.14 or newer"):
        Helm.connect(lambda *_args, **_kwargs: pytest.fail("it was run"), params)
