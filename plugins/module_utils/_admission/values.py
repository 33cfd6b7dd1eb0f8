# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Note that this module util is PRIVATE to the collection: it may change in any release.
"""Gatekeeper's constraints with the rules of the API server's policies. Pure.

Its webhook evaluates an expression as the API server does. Its audit evaluates it for an object as it is stored, of which it knows neither
operation nor account nor former object. There, an object counts as one that is created now, without the rules that ask for more.
"""

from __future__ import annotations

import json
import typing as t

from .._common.names import TENANT_LABEL
from .._common.values import JsonObject
from .facts import BINDING, CONSTRAINT_VERSION, ENGINE, KINDS, POINTS, POLICY, TARGET, TEMPLATE, UNKNOWN_TO_AUDIT

# Whether the audit asks: each request to the API server has an operation.
_BY_AUDIT = "request.operation == ''"


class Constraint(t.NamedTuple):
    """A ConstraintTemplate and its only constraint.

    :ivar unknown: what its rules ask for and the audit does not know, as of UNKNOWN_TO_AUDIT.
    """

    template: JsonObject
    constraint: JsonObject
    unknown: list[str]


def constraints(objects: t.Sequence[JsonObject]) -> list[Constraint]:
    """Return a constraint for each policy.

    :arg objects: policies, and a binding for each.
    """
    bindings = {item["spec"]["policyName"]: item for item in objects if item["kind"] == BINDING}
    return [_constraint(item, bindings[item["metadata"]["name"]]) for item in objects if item["kind"] == POLICY]


def _constraint(policy: JsonObject, binding: JsonObject) -> Constraint:
    kind, spec = _kind(policy["metadata"]), policy["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    code = {"engine": ENGINE, "source": _source(spec, rule)}
    template = {"crd": {"spec": {"names": {"kind": kind}}}, "targets": [{"target": TARGET, "code": [code]}]}
    expressions = " ".join(one["expression"] for one in spec["validations"])
    # Not the policy's name, which can be longer than the 63 characters of a constraint's.
    metadata = policy["metadata"] | {"name": kind}
    # The API server refuses. Gatekeeper reports: a second refusal could only differ from the first.
    action = {"action": "dryrun", "enforcementPoints": [{"name": point} for point in POINTS]}
    reported = {"enforcementAction": "scoped", "scopedEnforcementActions": [action], "match": _match(rule, binding)}
    return Constraint(
        _object(TEMPLATE, metadata, template),
        _object((CONSTRAINT_VERSION, kind), metadata, reported),
        [told for term, told in UNKNOWN_TO_AUDIT.items() if term in expressions],
    )


def _object(kind: tuple[str, str], metadata: JsonObject, spec: JsonObject) -> JsonObject:
    return {"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec}


def _kind(metadata: JsonObject) -> str:
    """Return the kind of a policy's constraint, which is also its name and its template's; no two policies have the same."""
    what = metadata["name"].partition(".")[2] or "pods"
    return f"kubegpu-{what}-{metadata['labels'][TENANT_LABEL]}"


def _match(rule: JsonObject, binding: JsonObject) -> JsonObject:
    kinds = sorted({KINDS[resource.partition("/")[0]] for resource in rule["resources"]})
    return {
        "kinds": [{"apiGroups": rule["apiGroups"], "kinds": kinds}],
        "namespaceSelector": binding["spec"]["matchResources"]["namespaceSelector"],
        "scope": "Namespaced",
        # The pods of a workload are judged when they are made, and not before, as Gatekeeper's expansion would make them.
        "source": "Original",
    }


def _source(spec: JsonObject, rule: JsonObject) -> JsonObject:
    """Return the code of a template.

    :arg spec: of the policy; ``rule``, its resources and operations, by which constraints choose nothing.
    """
    subresources = [resource.partition("/")[2] for resource in rule["resources"] if "/" in resource]
    asked = f"request.operation in {json.dumps(rule['operations'])} && (!has(request.subResource) || request.subResource in {subresources})"
    conditions = [{"name": "requests", "expression": asked}, *spec.get("matchConditions", [])]
    return {
        "failurePolicy": spec["failurePolicy"],
        # Otherwise, Gatekeeper would make a policy of the API server from it.
        "generateVAP": False,
        "matchCondition": [one | {"expression": _or_by_audit(one["expression"])} for one in conditions],
        "variables": [_variable(one) for one in spec.get("variables", [])],
        "validations": [
            {"expression": _judged(one["expression"]), "messageExpression": one["messageExpression"]}
            for one in spec["validations"]
        ],
    }


def _variable(variable: JsonObject) -> JsonObject:
    created = variable["name"] == "created"
    return variable | {"expression": _or_by_audit(variable["expression"])} if created else variable


def _judged(expression: str) -> str:
    return _or_by_audit(expression) if any(term in expression for term in UNKNOWN_TO_AUDIT) else expression


def _or_by_audit(expression: str) -> str:
    return f"{_BY_AUDIT} || ({expression})"
