# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A Helm in memory, with the verbs of the Helm adapter; tests/contract holds it against Helm 3 and Helm 4."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
from collections.abc import Callable
from typing import Any

from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Chart
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._helm.values import Release, release_of
from ansible_collections.kubegpu.tenancy.tests.unit.api import InMemoryApi

PENDING = frozenset({"pending-install", "pending-upgrade", "pending-rollback"})


def packed(release: dict[str, Any]) -> str:
    """Return a release as helm keeps it, before the API encodes it once more."""
    return base64.b64encode(gzip.compress(json.dumps(release).encode())).decode()


def kept(release: Release) -> dict[str, Any]:
    """Return what helm keeps of a revision, without the chart's files."""
    return {
        "name": release.name,
        "namespace": release.namespace,
        "version": release.revision,
        "info": {"status": release.status, "last_deployed": release.deployed_at},
        "chart": {"metadata": {"name": release.chart, "version": release.chart_version}},
        "config": release.values or None,
        "manifest": release.manifest,
    }


def record_of(release: Release) -> dict[str, Any]:
    """Return the Secret in which helm keeps a revision."""
    metadata = {
        "name": release.record,
        "namespace": release.namespace,
        "labels": {"owner": "helm", "name": release.name, "version": str(release.revision), "status": release.status},
    }
    content = {"release": packed(kept(release))}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": content}


class InMemoryHelm:
    """Releases recorded as Secrets of an InMemoryApi, one for each revision, as helm's own are.

    :arg refusal: what every chart refuses of its values; empty for nothing.
    :ivar calls: (verb, release) of every call that changes something, in order, with "--no-hooks" where hooks do not run.
    :ivar manifests: what the charts of releases make, as YAML by their names.
    :ivar rendered: the values and API versions that each call of ``template`` was given.
    :ivar on_change: called after an installation or upgrade with the release, after a removal with None.
    """

    def __init__(self, api: InMemoryApi, refusal: str = "") -> None:
        self.api = api
        self.refusal = refusal
        self.calls: list[tuple[str, ...]] = []
        self.manifests: dict[str, str] = {}
        self.rendered: list[tuple[dict[str, Any], tuple[str, ...]]] = []
        self.on_change: Callable[[Release | None], object] = lambda _release: None

    # --- for tests ---

    def record(self, release: Release) -> Release:
        """Have a revision of a release, without it counting as a call of the code under test."""
        self.api.put(record_of(dataclasses.replace(release, manifest=self.manifests.get(release.name, ""))))
        return release

    def set_status(self, name: str, namespace: str, status: str) -> None:
        """Have the last revision in another state, as a kill leaves it."""
        self.record(dataclasses.replace(self._history(name, namespace)[-1], status=status))

    def last(self, name: str, namespace: str) -> Release | None:
        """Return a release in its last revision; None where there is none."""
        history = self._history(name, namespace)
        return history[-1] if history else None

    def _history(self, name: str, namespace: str) -> list[Release]:
        secrets = self.api.list("v1", "Secret", namespace, f"owner=helm,name={name}")
        return sorted((release_of(secret, name, namespace) for secret in secrets), key=lambda release: release.revision)

    # --- the adapter's verbs ---

    def major(self) -> int:
        return 4

    def template(
        self, name: str, namespace: str, chart: Chart, values: dict[str, Any], api_versions: tuple[str, ...] = ()
    ) -> str:
        self.rendered.append((values, tuple(api_versions)))
        if self.refusal:
            raise TenancyError(self.refusal)
        return ""

    def upgrade(self, name: str, namespace: str, chart: Chart, values: dict[str, Any], timeout: int, hooks: bool = True) -> str:
        self.calls.append(("upgrade", name, *([] if hooks else ["--no-hooks"])))
        history = self._history(name, namespace)
        last = history[-1] if history else None
        if last and last.status in PENDING:
            raise TenancyError("helm upgrade failed: another operation (install/upgrade/rollback) is in progress")
        if last and last.status == "uninstalling":
            raise TenancyError(f'helm upgrade failed: "{name}" has no deployed releases')
        for release in history:
            if release.status == "deployed":
                self.record(dataclasses.replace(release, status="superseded"))
        title = chart.ref.rstrip("/").rpartition("/")[2]
        revision = last.revision + 1 if last else 1
        self.on_change(self.record(Release(name, namespace, "deployed", revision, title, chart.version, values)))
        return ""

    def uninstall(self, name: str, namespace: str, timeout: int, hooks: bool = True) -> str:
        self.calls.append(("uninstall", name, *([] if hooks else ["--no-hooks"])))
        for release in self._history(name, namespace):
            self.api.drop("v1", "Secret", release.record, namespace)
        self.on_change(None)
        return ""

    def crds(self, chart: Chart) -> list[dict[str, Any]]:
        return []
