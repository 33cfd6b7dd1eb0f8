# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""KAI Scheduler's releases as they really are: installed, probed, upgraded, taken back and removed, one row each.

python tests/bench/matrix.py [--releases v0.12.0 v0.13.1] [--ways v0.9.3:v0.16.8] [--kubeconfig FILE --charts SOURCE] [--page FILE]

Without --kubeconfig it makes a lab, which has the charts and images of two releases. With it, it works on that cluster, which
has to be one without users: everything of KAI Scheduler in it is removed, again and again. It fails unless every change came to
its end, every check passed or is accepted by name, a second run changes nothing, the pod at work runs on, and nothing is left.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import itertools
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.run import Run
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai import validation as kai
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kai.facts import HAZARD_NAMES
from ansible_collections.kubegpu.tenancy.plugins.modules import kai_scheduler_info, probe
from ansible_collections.kubegpu.tenancy.tests.faults.labs import Lab, defaults
from ansible_collections.kubegpu.tenancy.tests.faults.test_kai import NEW, OLD, QUEUES, VARIABLES, Scheduler
from gap import Stream
from report import DOCS, now

COLUMNS = ("from", "to", "seconds", "checks", "longest wait for a place", "pods refused", "left after removal", "date", "remark")
HEAD = """# KAI Scheduler's releases, tried

`make matrix` writes a row for each change that it made on a real cluster with GPUs that are simulated: how long it took, which checks of
the probe passed afterwards, how long a new pod waited for a place meanwhile, how many of a pod a second were refused because KAI
Scheduler's webhook did not answer, and what was left once KAI Scheduler was removed. A row from `none` is an installation. The remark
says what did not go as it should, and which hazards were accepted and met; without one, a second run changed nothing and the pod at work
ran on. Rows of releases that were not tried again stay. The machine had two cores, and for some rows other work beside: seconds and waits are
what to expect at most, [benchmark.md](benchmark.md) has them measured alone.

"""
RESIDUE = COLUMNS.index("left after removal")
CHECKS = ["cpu", "gpu", "gang", "gang_too_large", "over_limit", "fraction", "burst"]
# Checks that a hazard makes fail, here because NVIDIA's runtime is not the nodes' default one.
EXPLAINED = {"#340": ("fraction", "burst")}
# Where KAI Scheduler or a user of it could leave something.
KINDS = (
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("scheduling.k8s.io/v1", "PriorityClass"),
    ("v1", "Namespace"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("apps/v1", "Deployment"),
)


@dataclasses.dataclass
class Row:
    """One change of the scheduler, and what came of it."""

    start: str
    end: str
    seconds: str = ""
    checks: str = ""
    wait: str = ""
    refused: str = ""
    residue: str = ""
    date: str = ""
    remark: str = ""

    def cells(self) -> list[str]:
        return [text.replace("|", "/").replace("\n", " ") for text in dataclasses.astuple(self)]


class Matrix(Scheduler):
    """KAI Scheduler in one cluster, changed again and again.

    :ivar rows: what was tried.
    :ivar failures: what did not go as it should, and where.
    """

    def __init__(self, lab: Lab, cache: Path, kubeconfig: str, charts: str) -> None:
        super().__init__(lab, cache, kubeconfig)
        self.source = charts or str(self.charts)
        self.rows: list[Row] = []
        self.failures: list[str] = []
        self.work = ""

    def scheduler(self, version: str, check_mode: bool = False, **changes: Any) -> dict[str, Any]:
        accepted = {"accept_hazards": list(HAZARD_NAMES), "chart_source": self.source, "timeout": 300}
        return super().scheduler(version, check_mode, **(accepted | changes))

    def change(self, start: str, end: str) -> bool:
        """Go from one release, or from none, to another; return whether that came to its end."""
        row = Row(start or "none", end, date=f"{now():%Y-%m-%d}")
        self.rows.append(row)
        stream = Stream(self.kubeconfig) if start else None
        remarks: list[str] = []
        results: list[dict[str, Any]] = []
        began = time.monotonic()
        try:
            if stream:
                stream.start()
            self.scheduler(end)
            row.seconds = f"{time.monotonic() - began:.1f}"
            self.queues()
            if stream:
                stream.finish(60)
                row.wait = f"{max(stream.waits):.0f} s" if stream.waits else "none placed"
                row.refused = str(len(stream.refused))
            else:
                self.start_work()
            results = self.checked(end)
            row.checks = f"{sum(one['verdict'] == 'passed' for one in results)} of {len(results)}"
            remarks += [f"{one['name']}: {one['reason']}" for one in results if one["verdict"] not in ("passed", "accepted")]
            remarks += self.unsettled(end)
        except TenancyError as exc:
            remarks.append(exc.message)
        finally:
            if stream:
                stream.finish(1)
        self.failures += [f"{row.start} to {row.end}: {remark}" for remark in remarks]
        accepted = [f"{one['name']}: {one['reason']}" for one in results if one["verdict"] == "accepted"]
        row.remark = "; ".join(remarks + accepted)
        print(" | ".join(row.cells()), flush=True)
        return bool(row.checks)

    def unsettled(self, version: str) -> list[str]:
        """Return what shows that the release is not as it was asked for, or that the change was noticed by who did not ask for it."""
        again = self.scheduler(version)
        params = defaults(kai_scheduler_info)
        info = kai_scheduler_info.reconcile(Run(params, kube=self.kube, helm=self.helm))
        work = self.kube.get("v1", "Pod", "work", "default")
        runs_on = work is not None and work["metadata"]["uid"] == self.work and work["status"]["phase"] == "Running"
        restarts = [one for one in work["status"]["containerStatuses"] if one["restartCount"]] if work else []
        found = {
            f"a second run did: {', '.join(step['step'] for step in again['steps'])}": again["changed"],
            f"it is {info['version']}, {'ready' if info['ready'] else 'not ready'}": (info["version"], info["ready"])
            != (version, True),
            "the pod at work did not run on": not runs_on or bool(restarts),
        }
        return [remark for remark, true in found.items() if true]

    def checked(self, version: str) -> list[dict[str, Any]]:
        """Run the probe; return the results, failures too. One that a hazard of the release explains is accepted."""
        params = defaults(probe, kind="kai_scheduling", queues=QUEUES, checks=CHECKS, accept_hazards=["#1103"], timeout=240)
        try:
            report = probe.reconcile(Run(params, kube=self.kube))
        except TenancyError as exc:
            if "results" not in exc.details:
                raise
            report = exc.details
        why = {check: hazard for hazard in kai.release(version).hazards for check in EXPLAINED.get(hazard.name, ())}
        return [
            one | {"verdict": "accepted", "reason": str(why[one["name"]])}
            if one["verdict"] == "failed" and one["name"] in why
            else one
            for one in report["results"]
        ]

    def remove(self, before: set[tuple[str, str, str]]) -> None:
        """Remove KAI Scheduler and the pod at work, and note with the last row what is left."""
        row = self.rows[-1]
        try:
            self.scheduler("", state="absent", purge=True)
            left = self.objects(KINDS) - before
            # A control plane notes who leads, and the like, in objects of its own.
            row.residue = ", ".join(" ".join(filter(None, one)) for one in sorted(left) if one[1] != "kube-system") or "nothing"
        except TenancyError as exc:
            row.residue = exc.message
        if row.residue != "nothing":
            self.failures.append(f"left after {row.end}: {row.residue}")
        self.kube.delete("v1", "Pod", "work", "default")

    def way(self, releases: list[str], back: bool) -> None:
        """Install the first release, upgrade to each that follows and, where asked, go back the same way; then remove it."""
        before = self.objects(KINDS)
        there = list(itertools.pairwise(["", *releases]))
        steps = there + [(end, start) for start, end in reversed(there[1:])] if back else there
        for start, end in steps:
            if not self.change(start, end):
                break
        self.remove(before)


def write(page: Path, rows: list[Row]) -> None:
    """Put rows into the page, in place of earlier ones of the same change."""
    known: dict[tuple[str, str], list[str]] = {}
    if page.exists():
        table = re.findall(r"^\| (v[^|]*|none) \| (v[^|]*) \|(.*)\|$", page.read_text("utf-8"), re.M)
        known = {
            (start.strip(), end.strip()): [start.strip(), end.strip(), *map(str.strip, rest.split("|"))]
            for start, end, rest in table
        }
    for row in rows:
        earlier = known.get((row.start, row.end))
        cells = row.cells()
        # What is left is known of a way's last row alone.
        cells[RESIDUE] = cells[RESIDUE] or (earlier[RESIDUE] if earlier else "")
        known[row.start, row.end] = cells
    ordered = sorted(known.values(), key=lambda cells: [[int(part) for part in re.findall(r"\d+", text)] for text in cells[:2]])
    lines = [COLUMNS, ["---"] * len(COLUMNS), *ordered]
    page.write_text(HEAD + "".join(f"| {' | '.join(line)} |\n" for line in lines), "utf-8")


@contextlib.contextmanager
def cluster(kubeconfig: str) -> Iterator[Lab]:
    """Have a cluster: the one that is named, or a lab's."""
    lab = Lab("kubegpu-matrix", f"--extra-vars={json.dumps(VARIABLES)}")
    if kubeconfig:
        yield lab
        return
    with lab:
        lab.site()
        yield lab


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--releases", nargs="*", default=[OLD, NEW], help="each is installed, upgraded to the next and taken back"
    )
    parser.add_argument("--ways", nargs="*", default=[], help="further upgrades, such as v0.7.11:v0.9.3:v0.12.0")
    parser.add_argument("--kubeconfig", default="", help="of a cluster without users, in place of a lab")
    parser.add_argument("--charts", default="", help="folder of .tgz files, or oci:// prefix")
    parser.add_argument("--page", type=Path, default=DOCS / "contributing/kai-matrix.md", help="where the rows are written")
    asked = parser.parse_args()
    with cluster(asked.kubeconfig) as lab:
        matrix = Matrix(lab, Path(os.environ["KUBEGPU_CACHE"]), asked.kubeconfig, asked.charts)
        ways = [(list(pair), True) for pair in itertools.pairwise(asked.releases)]
        # Each pair begins with an installation; the last release has none of its own yet.
        ways += [([asked.releases[-1]], False)] if asked.releases else []
        ways += [(way.split(":"), False) for way in asked.ways]
        for releases, back in ways:
            try:
                matrix.way(releases, back)
            finally:
                write(asked.page, matrix.rows)
    if matrix.failures:
        raise SystemExit("\n".join(matrix.failures))


if __name__ == "__main__":
    main()
