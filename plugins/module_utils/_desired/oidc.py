# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""An OpenID Connect issuer that a tenant's API server trusts: what is wrong with it, and the values of the virtual cluster by which it does.

Flags are those of kube-apiserver (kubernetes.io, Authenticating). The authority's certificates get into the pod by its annotations, so that
nothing beside the chart's own objects is made or left. The binding is a manifest that the virtual cluster's syncer applies, and deletes once
it is no longer listed (pkg/controllers/deploy of loft-sh/vcluster).
"""

from __future__ import annotations

import json
import re
import typing as t

from .._common.ownership import OWNED_LABELS
from .._common.schema import Problems, quoted
from .._common.values import JsonObject, deep_merge, value_at
from .._vcluster.validation import usable_parts
from . import facts

if t.TYPE_CHECKING:
    from .._common.values import Values

BINDING = "kubegpu-tenancy-oidc-admins"
_VOLUME, _FOLDER, _FILE, _NOTE = "kubegpu-oidc", "/etc/kubegpu-oidc", "ca.crt", "kubegpu.tenancy/oidc-ca"
_FLAGS = "controlPlane.distro.k8s.apiServer.extraArgs"
_VOLUMES, _MOUNTS = (f"controlPlane.statefulSet.persistence.{key}" for key in ("addVolumes", "addVolumeMounts"))
# Ports of all addresses that the chart's network policy lets a control plane reach (templates/networkpolicy.yaml), and what adds to them.
_PORTS, _EGRESS = (443, 6443, 8443), "policies.networkPolicy.controlPlane.egress"
_MANIFESTS = "experimental.deploy.vcluster.manifests"
# What kube-apiserver takes in another place, and what would pass for one of Kubernetes' own users.
_CLAIM, _CERTIFICATES = (
    re.compile(r"[A-Za-z0-9_.:/-]{1,253}"),
    re.compile(r"\s*(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)+"),
)
_TEXT = re.compile(r"[!-~]{1,253}")


def read(given: t.Any, path: str, values: Values, problems: Problems) -> JsonObject:
    """Return what an entry says of an issuer, every key filled in; empty for none.

    :arg values: the user's, for the virtual cluster.
    """
    if not given:
        return {}
    entry = problems.mapping(given, facts.OIDC, path)
    oidc = {key: entry.get(key, field.default) for key, field in facts.OIDC.items()}
    before = len(problems)
    _check(oidc, path, problems)
    # The chart refuses anything else, too, but items are added to these here.
    for added in (_FLAGS, _VOLUMES, _MOUNTS):
        problems.typed(value_at(values, added) or [], list, f"{path.removesuffix('oidc')}vcluster.values.{added}")
    if len(problems) > before:
        return {}
    others = [flag for flag in value_at(values, _FLAGS) or [] if str(flag).startswith(("--oidc-", "--authentication-config"))]
    if set(others) - set(_flags(oidc)):
        problems.add(
            "given-twice",
            path,
            f"the tenant's values have {quoted(others[0])} already, in {_FLAGS}. Write the issuer in one place.",
        )
    return oidc if len(problems) == before else {}


def _check(oidc: JsonObject, path: str, problems: Problems) -> None:
    url = oidc["issuer_url"]
    # The parts leave out what an address must not have, such as a newline.
    if url is not None and (not _TEXT.fullmatch(url) or not usable_parts(url, ("https",)) or set(url) & set("?#@")):
        example = "https://login.example/realms/gpu"
        problems.add("not-an-issuer", f"{path}.issuer_url", f"{quoted(url)} is no address such as {example}.")
    if oidc["client_id"] == "":
        problems.add("missing", f"{path}.client_id", "is missing.")
    for key, form in (("client_id", _TEXT), ("username_claim", _CLAIM), ("groups_claim", _CLAIM), ("prefix", _TEXT)):
        if oidc[key] and not form.fullmatch(str(oidc[key])):
            problems.add("not-a-claim", f"{path}.{key}", f"{quoted(oidc[key])} holds blanks, or is too long.")
    if _is_kubernetes(oidc["prefix"]):
        problems.add(
            "prefix-of-kubernetes",
            f"{path}.prefix",
            "must not be empty or '-', nor begin with system: or be the begin of that, because users of the issuer could pass for the "
            "cluster's own.",
        )
    if oidc["ca"] and not _CERTIFICATES.fullmatch(str(oidc["ca"])):
        problems.add("not-a-certificate", f"{path}.ca", "is no certificate in PEM.")
    for key, what in (("admins", "group"), ("scopes", "scope")):
        for index, name in enumerate(oidc[key]):
            if not isinstance(name, str) or not _TEXT.fullmatch(name):
                problems.add("not-a-claim", f"{path}.{key}[{index}]", f"{quoted(name)} is no name of a {what}.")
    if oidc["admins"] and not oidc["groups_claim"]:
        problems.add(
            "missing", f"{path}.groups_claim", "is missing: say which claim holds the groups of which admins names some."
        )


def _is_kubernetes(prefix: str) -> bool:
    """Tell whether a name behind this prefix can be one of Kubernetes' own, such as system:masters; "-" is kube-apiserver's word for none."""
    return prefix == "-" or prefix.startswith("system:") or "system:".startswith(prefix)


def check_issuer_port(oidc: JsonObject, values: Values, path: str, problems: Problems) -> None:
    """Refuse an issuer that the network policy of a tenant with trust ``partial`` or ``zero`` keeps its control plane from.

    :arg values: the user's, for the virtual cluster.
    """
    url = usable_parts(oidc.get("issuer_url") or "", ("https",))
    if url is not None and (url.port or 443) not in _PORTS and not value_at(values, _EGRESS):
        listed = ", ".join(str(port) for port in _PORTS)
        problems.add(
            "issuer-out-of-reach",
            f"{path}.issuer_url",
            f"the network policy of this trust lets the control plane reach ports {listed} of any address, and not {url.port}. Give the issuer "
            f"one of them, or allow its address by vcluster.values.{_EGRESS}.",
        )


def with_issuer(values: Values, oidc: JsonObject) -> Values:
    """Return a tenant's values with what has its API server trust an issuer; done twice, it changes nothing more."""
    if not oidc:
        return values
    result = _with_items(values, _FLAGS, _flags(oidc))
    if oidc["ca"]:
        items = [{"path": _FILE, "fieldRef": {"fieldPath": f"metadata.annotations['{_NOTE}']"}}]
        result = _with_items(result, _VOLUMES, [{"name": _VOLUME, "downwardAPI": {"items": items}}])
        result = _with_items(result, _MOUNTS, [{"name": _VOLUME, "mountPath": _FOLDER, "readOnly": True}])
        result = deep_merge(result, {"controlPlane": {"statefulSet": {"pods": {"annotations": {_NOTE: oidc["ca"]}}}}})
    manifest, had = json.dumps(_binding(oidc), sort_keys=True), str(value_at(result, _MANIFESTS) or "")
    if not oidc["admins"] or manifest in had:
        return result
    return _at(result, _MANIFESTS, f"{had.rstrip()}\n---\n{manifest}\n" if had.strip() else f"{manifest}\n")


def _flags(oidc: JsonObject) -> list[str]:
    flags = {
        "issuer-url": oidc["issuer_url"],
        "client-id": oidc["client_id"],
        "username-claim": oidc["username_claim"],
        "username-prefix": oidc["prefix"],
        "groups-claim": oidc["groups_claim"],
        "groups-prefix": oidc["prefix"] if oidc["groups_claim"] else "",
        "ca-file": f"{_FOLDER}/{_FILE}" if oidc["ca"] else "",
    }
    return [f"--oidc-{name}={value}" for name, value in flags.items() if value]


def _binding(oidc: JsonObject) -> JsonObject:
    api = "rbac.authorization.k8s.io"
    subjects = [{"kind": "Group", "name": f"{oidc['prefix']}{group}", "apiGroup": api} for group in oidc["admins"]]
    return {
        "apiVersion": f"{api}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": BINDING, "labels": OWNED_LABELS},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": subjects,
    }


def _with_items(values: Values, path: str, items: list[t.Any]) -> Values:
    had = value_at(values, path) or []
    return _at(values, path, [*had, *(item for item in items if item not in had)])


def _at(values: Values, path: str, value: t.Any) -> Values:
    for key in reversed(path.split(".")):
        value = {key: value}
    return deep_merge(values, value)
