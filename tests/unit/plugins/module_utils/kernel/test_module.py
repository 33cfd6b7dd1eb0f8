# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.host_module import run_host_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.module import run_module

SPEC = {"name": {"type": "str", "required": True}, "timeout": {"type": "int", "default": 7}}
TOKEN = "eyJhbGciOiJSUzI1NiJ9"
KUBECONFIG = {"users": [{"name": "x", "user": {"token": TOKEN}}]}


@pytest.fixture(name="shown")
def _shown(monkeypatch):
    """The warnings of a module; ansible-core puts them elsewhere where a test has loaded the controller's code."""
    warnings = []
    monkeypatch.setattr(AnsibleModule, "warn", lambda _self, text: warnings.append(text))
    return warnings


@pytest.fixture(name="outcome")
def _outcome(capsys):
    """Run a module as Ansible does, and return its exit code and its result."""

    def run(reconcile, verbosity=0, check_mode=False, options=None, run_module=run_module, **kwargs):
        internal = {"_ansible_verbosity": verbosity, "_ansible_check_mode": check_mode, "_ansible_tracebacks_for": []}
        with patch_module_args({"name": "ml"} | (options or {}) | internal), pytest.raises(SystemExit) as caught:
            run_module(reconcile, SPEC, **kwargs)
        return caught.value.code, json.loads(capsys.readouterr().out)

    return run


def refuse(_run):
    raise TenancyError("name: ml is taken.", status=409, last_seen="ml")


def test_a_result_is_that_of_the_run(outcome):
    def reconcile(run):
        run.change("name", None, run.params["name"])
        return run.result(seconds_given=run.deadline.seconds)

    code, result = outcome(reconcile)
    assert (code, result["changed"], result["seconds_given"]) == (0, True, 7)
    assert result["diff"] == {"before": {}, "after": {"name": "ml"}}


def test_an_error_is_a_failure_with_its_details(outcome):
    code, result = outcome(refuse)
    assert code == 1
    # Before ansible-core 2.21, the module's arguments as well.
    result.pop("invocation", None)
    assert result == {"failed": True, "msg": "name: ml is taken.", "status": 409, "last_seen": "ml"}


def test_an_error_with_pictures_is_shown_as_lines(outcome):
    """As kind prints them: with one in it, Ansible's YAML output quotes the whole text and shows no line breaks."""

    def fail(_run):
        raise TenancyError("kind failed:\n \u2713 Preparing \U0001f4e6nodes", stderr="\U0001f5bc\ufe0f none", rc=1)

    _code, result = outcome(fail)
    assert (result["msg"], result["stderr"], result["rc"]) == ("kind failed:\n \u2713 Preparing nodes", "\ufe0f none", 1)
    shown = yaml.dump(result["msg"], Dumper=yaml.CSafeDumper, allow_unicode=True, default_style="|")
    assert shown == "|-\n  kind failed:\n   \u2713 Preparing nodes\n"


@pytest.mark.parametrize(("verbosity", "shown"), [(0, False), (2, False), (3, True), (4, True)])
def test_where_an_error_comes_from_is_shown_from_vvv_on(outcome, verbosity, shown):
    _code, result = outcome(refuse, verbosity)
    assert ("in refuse" in result.get("traceback", "")) == shown


def test_what_is_no_error_for_the_user_is_no_result(capsys):
    with patch_module_args({"name": "ml"}), pytest.raises(ZeroDivisionError):
        run_module(lambda _run: 1 / 0, SPEC)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("fails", [False, True])
def test_warnings_are_shown_once_whether_it_fails_or_not(outcome, shown, fails):
    def reconcile(run):
        run.warn("odd")
        run.warn("odd")
        return refuse(run) if fails else run.result()

    assert outcome(reconcile)[0] == fails
    assert shown == ["odd"]


def test_check_mode_is_that_of_the_run(outcome):
    def reconcile(run):
        run.take("make it", "it is not there", lambda: pytest.fail("made"))
        return run.result(check_mode=run.check_mode)

    _code, result = outcome(reconcile, check_mode=True)
    assert result["check_mode"] is True
    assert result["steps"] == [{"step": "make it", "why": "it is not there"}]


def test_what_a_kubeconfig_holds_is_shown_nowhere(outcome, shown):
    def reconcile(run):
        run.warn(f"Token {TOKEN} is old.")
        raise TenancyError(f"Token {TOKEN} is refused.", token=TOKEN)

    _code, result = outcome(reconcile, verbosity=3, options={"kubeconfig": KUBECONFIG})
    assert "is refused" in result["msg"]
    assert TOKEN not in json.dumps(result)
    assert len(shown) == 1
    assert "is old" in shown[0]
    assert TOKEN not in shown[0]


def test_options_that_do_not_fit_are_refused_before_anything_is_done(outcome):
    def reconcile(_run):
        pytest.fail("done")

    for options, match in ({"size": 1}, "Unsupported parameters"), ({"timeout": "soon"}, "timeout"):
        code, result = outcome(reconcile, options=options)
        assert code == 1
        assert match in result["msg"]
    assert "chart_source" in outcome(reconcile, helm=True, options={"size": 1})[1]["msg"]
    assert "kubeconfig" not in outcome(reconcile, run_module=run_host_module, options={"size": 1})[1]["msg"]


def test_adapters_are_made_when_they_are_used_and_once(outcome, monkeypatch):
    made = []
    monkeypatch.setattr(Kube, "connect", lambda module, deadline: made.append((module.params["context"], deadline)) or len(made))

    def reconcile(run):
        assert not made
        assert run.kube == run.kube == 1
        assert made == [("far", run.deadline)]
        return run.result()

    assert outcome(reconcile, options={"context": "far"})[0] == 0


def test_a_server_that_cannot_be_reached_is_a_failure(outcome, monkeypatch):
    def connect(_module, _deadline):
        raise TenancyError("Connecting to the Kubernetes API failed: refused", status=None)

    monkeypatch.setattr(Kube, "connect", connect)
    code, result = outcome(lambda run: run.kube)
    assert (code, result["msg"]) == (1, "Connecting to the Kubernetes API failed: refused")


def test_programs_are_found_on_the_host(outcome):
    def reconcile(run):
        return run.result(found=[run.find_program("sh"), run.find_program("kubegpu-no-such-program")])

    found = outcome(reconcile, run_module=run_host_module)[1]["found"]
    assert found[0].endswith("/sh")
    assert found[1] is None
