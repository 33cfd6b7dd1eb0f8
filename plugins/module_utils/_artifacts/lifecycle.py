# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""The charts and images of installations: found by rendering their charts, as an installation does."""

from __future__ import annotations

import typing as t

from .._common.errors import TenancyError
from .._common.parallel import concurrently
from .._common.values import JsonObject
from .._kai.values import parse_manifests
from .._vcluster.facts import CHART as VCLUSTER
from .plan import Installation
from .values import Reference, images_named, merged, syncer_images

if t.TYPE_CHECKING:
    from .._adapters.helm import Chart, Helm


class Artifacts:
    """Charts and images, each listed once, with everyone who needs it.

    :arg find_chart: returns where the chart of an installation is upstream, and where it is taken from.
    """

    def __init__(self, helm: Helm, find_chart: t.Callable[[Installation], tuple[Chart, Chart]]) -> None:
        self._helm = helm
        self._find_chart = find_chart
        self._charts: dict[str, JsonObject] = {}
        self._images: dict[str, JsonObject] = {}

    def add_release(self, item: Installation) -> None:
        """Add the chart of an installation, and the images that it leads to.

        :raises TenancyError: where the chart is not there, or refuses its values.
        """
        upstream, chart = self._find_chart(item)
        arguments = " ".join(upstream.args())
        record: JsonObject = {
            "name": item.chart,
            "version": item.version,
            "pull": arguments,
            "source": chart.ref,
            "digest": None,
            "for": [],
        }
        _note(self._charts, arguments, record, item.user)
        try:
            manifests = parse_manifests(self._helm.template(item.release, item.namespace, chart, item.values, item.api_versions))
        except TenancyError as exc:
            raise exc.saying(f"{item.user}: {item.chart} {item.version}: {exc.message}") from exc
        found = [*images_named(manifests, item.hooks).items()]
        if item.chart == VCLUSTER:
            found += syncer_images(manifests, item.version).items()
        self.add_images(found, item.user)

    def add_images(self, found: t.Iterable[tuple[str, bool]], user: str) -> None:
        """Add images, each with whether an installation starts it."""
        for image, starts in merged(found).items():
            record = _note(self._images, image, {"image": image, "optional": True, "digest": None, "for": []}, user)
            record["optional"] = record["optional"] and not starts

    def charts(self) -> list[JsonObject]:
        """Return the charts, by name and version."""
        return sorted(self._charts.values(), key=lambda record: (record["name"], record["version"]))

    def images(self) -> list[JsonObject]:
        """Return the images, by name."""
        return [self._images[key] for key in sorted(self._images)]

    def ask_digests(self, digest: t.Callable[[str], str], mirrors: t.Mapping[str, str]) -> list[str]:
        """Ask registries for the digests of images and of charts in registries, several at once; return why needed ones have none.

        :arg digest: returns the digest of the manifest at an address, or raises TenancyError.
        :arg mirrors: addresses of mirrors, by registry.
        :returns: a sentence for each, with its name in front.
        """
        asked = [(record["image"], record) for record in self.images()]
        asked += [(name, record) for record in self.charts() if (name := _in_registry(record))]

        def ask(one: tuple[str, JsonObject]) -> str:
            name, record = one
            try:
                record["digest"] = digest(Reference.parse(name).manifest_url(mirrors))
            except TenancyError as exc:
                return "" if record.get("optional") else f"{name}: {exc.message}"
            return ""

        return [problem for problem in concurrently(ask, asked) if problem]


def _in_registry(chart: JsonObject) -> str:
    """Return the name of a chart in a registry; empty for one that comes from elsewhere (helm.sh/docs/topics/registries)."""
    scheme, _separator, name = chart["source"].partition("oci://")
    return f"{name}:{chart['version'].replace('+', '_')}" if name and not scheme else ""


def _note(records: dict[str, JsonObject], key: str, new: JsonObject, user: str) -> JsonObject:
    """Return the record of something, made if there is none, with one who needs it added."""
    record = records.setdefault(key, new)
    if user not in record["for"]:
        record["for"].append(user)
    return record
