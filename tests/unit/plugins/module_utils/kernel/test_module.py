# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml
from ansible.module_utils.ansible_release import __version__
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.compat.version import LooseVersion
from ansible.module_utils.testing import patch_module_args
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.client import Client
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.helm import Helm
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.errors import ApiError, CommandFailed, TenancyError
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.secrets import digest
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.text import LONGEST_LINE
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.values import Write
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.host_module import run_host_module
from ansible_collections.kubegpu.tenancy.plugins.module_utils._kernel.module import run_module
from ansible_collections.kubegpu.tenancy.plugins.modules import rehearsal, rehearsal_record

SPEC = {"name": {"type": "str", "required": True}, "timeout": {"type": "int", "default": 7}, "speed": {"type": "float"}}
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


@pytest.mark.parametrize("run_module", [run_module, run_host_module])
@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("timeout", 0, "timeout: must be at least 1, not 0."),
        ("timeout", -5, "timeout: must be at least 1, not -5."),
        ("timeout", 2**64, "timeout: must be at most 2^63, not a number beyond 2^63."),
        ("speed", 0, "speed: must be at least 0.001, not 0.0."),
        ("speed", "nan", "speed: must be at least 0.001, not nan."),
        ("speed", "inf", "speed: must be at most 2^63, not inf."),
    ],
)
def test_a_number_out_of_range_is_refused_before_anything_runs(outcome, run_module, option, given, said):
    def reconcile(_run):
        pytest.fail("it ran")

    code, result = outcome(reconcile, options={option: given}, run_module=run_module, least={"speed": 0.001})
    assert (code, result["msg"], result["problems"]) == (1, said, [{"code": "out-of-range", "text": said}])


def test_an_error_with_pictures_is_shown_as_lines(outcome):
    """As kind prints them: with one in it, Ansible's YAML output quotes the whole text and shows no line breaks."""

    def fail(_run):
        raise CommandFailed("kind failed:\n \u2713 Preparing \U0001f4e6nodes", stderr="\U0001f5bc\ufe0f none", rc=1)

    _code, result = outcome(fail)
    assert [line.split() for line in result["msg"].splitlines()] == [["kind", "failed:"], ["\u2713", "Preparing", "nodes"]]
    assert (result["stderr"].split(), result["rc"]) == (["none"], 1)
    shown = yaml.dump(result["msg"], Dumper=yaml.CSafeDumper, allow_unicode=True, default_style="|")
    assert shown.startswith("|-\n  kind failed:\n   \u2713 Preparing")


@pytest.mark.parametrize(("verbosity", "shown"), [(0, False), (2, False), (3, True), (4, True)])
def test_where_an_error_comes_from_is_shown_from_vvv_on(outcome, verbosity, shown):
    _code, result = outcome(refuse, verbosity)
    assert ("in refuse" in result.get("traceback", "")) == shown


def deep(_run):
    return deep(_run)


def raise_it(exc):
    def reconcile(_run):
        raise exc

    return reconcile


@pytest.mark.parametrize(
    ("reconcile", "kind"),
    [
        (lambda _run: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda _run: {}["it\x1b[2Jem"], "KeyError: "),
        (deep, "RecursionError: "),
        (raise_it(MemoryError()), "MemoryError:"),
        (raise_it(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "odd")), "UnicodeDecodeError: "),
        (lambda run: run.result(shares=[1.0, float("nan")]), "ValueError: the result.shares[1] is nan"),
        (lambda run: run.result(tenants={"a": (float("-inf"),)}), "ValueError: the result.tenants.a[0] is -inf"),
        (lambda run: run.result(odd=object()), "TypeError: "),
        (lambda _run: None, "TypeError: "),
    ],
)
@pytest.mark.parametrize("verbosity", [0, 3])
def test_whatever_goes_wrong_is_a_failure_that_says_so_on_readable_lines(outcome, reconcile, kind, verbosity):
    code, result = outcome(reconcile, verbosity)
    assert (code, result["failed"]) == (1, True)
    first, second = result["msg"].split("\n")
    assert first.startswith(kind)
    assert first.isprintable()
    assert "defect of the collection" in second
    assert ("Traceback" in result.get("traceback", "")) == (verbosity == 3)


@pytest.mark.parametrize("exc", [SystemExit(3), KeyboardInterrupt()])
def test_what_ends_a_module_ends_it(capsys, exc):
    with patch_module_args({"name": "ml"}), pytest.raises(type(exc)):
        run_module(raise_it(exc), SPEC)
    assert capsys.readouterr().out == ""


def test_errors_are_bounded_and_keep_their_own_lines(outcome):
    odd = "a\x1b[2Jb\u202e" + "c" * 10**5
    nested = []
    for _level in range(5000):
        nested = [nested]
    details = {
        "problems": [odd] * 1000,
        "last_seen": {odd: {"at": float("inf"), "ready": False}},
        "deep": nested,
        "stderr": "x\n" * 10**5,
    }
    _code, result = outcome(raise_it(TenancyError(f"2 problems:\nfirst: {odd}\n  second", **details)))
    first, second, third = result["msg"].split("\n")
    assert (first, second.split()[:3], third) == ("2 problems:", ["first:", "a", "b"], "  second")
    assert (second.isprintable(), len(second)) == (True, LONGEST_LINE)
    ((seen, last),) = result["last_seen"].items()
    assert (seen.isprintable(), last) == (True, {"at": "inf", "ready": False})
    assert (len(result["problems"]), len(json.dumps(result)) < 4 * 10**6) == (500, True)


# --- what may be secret --------------------------------------------------------------------------------------------

SECRET = "hunter2"
VALUES = {"global": {"registry": SECRET, "on": True}, "list": [{"name": SECRET}]}
OPTIONS = {
    "values": {"type": "dict"},
    "to": {"type": "dict"},
    "tenants": {"type": "list", "elements": "dict"},
    "server": {"type": "str"},
}
# From ansible-core 2.21 on, arguments are shown only on request.
ASKED = {"_ansible_inject_invocation": True} if LooseVersion(__version__) >= LooseVersion("2.21") else {}
GIVEN = {
    "values": VALUES,
    "to": {"version": "v1", "values": VALUES, "kai_scheduler_values": VALUES},
    "tenants": [{"name": "ml", "vcluster": {"values": VALUES}}],
    "server": f"http://me:{SECRET}@proxy.example:3128",
}


@pytest.fixture(name="logged")
def _logged(monkeypatch):
    """What a module writes to its host's log."""
    said = []
    monkeypatch.setattr(AnsibleModule, "log", lambda _self, msg, log_args=None: said.append(f"{msg} {log_args}"))
    return said


@pytest.mark.parametrize("ends", [lambda run: run.result(), refuse, lambda _run: 1 / 0])
@pytest.mark.parametrize("kernel", [run_module, run_host_module])
def test_arguments_are_shown_and_logged_without_values_and_passwords(capsys, monkeypatch, logged, kernel, ends):
    monkeypatch.setitem(SPEC, "name", {"type": "str"})
    with patch_module_args(GIVEN | ASKED), pytest.raises(SystemExit):
        kernel(ends, SPEC | OPTIONS)
    said = capsys.readouterr().out
    shown = json.loads(said)["invocation"]["module_args"]
    assert SECRET not in said + "".join(logged)
    assert (shown["server"], shown["to"]["version"], shown["values"]["global"]["on"]) == ("http://proxy.example:3128", "v1", True)
    assert shown["values"]["global"]["registry"] == shown["tenants"][0]["vcluster"]["values"]["global"]["registry"]
    assert "proxy.example" in logged[0]


def test_arguments_that_are_refused_are_shown_alike(capsys):
    wrong = ASKED | {"name": "ml", "sise": 1, "kubeconfig": {"users": [{"user": {"token": SECRET}}]}}
    with patch_module_args(GIVEN | wrong), pytest.raises(SystemExit):
        run_module(lambda _run: pytest.fail("done"), SPEC | OPTIONS)
    said = capsys.readouterr().out
    assert "Unsupported parameters" in said
    assert SECRET not in said


def test_the_content_of_a_kubeconfig_is_not_logged(outcome, logged):
    outcome(lambda run: run.result(), options={"kubeconfig": KUBECONFIG})
    assert len(logged) == 1
    assert TOKEN not in logged[0]


def test_a_result_and_its_diff_have_digests_of_values(outcome):
    def reconcile(run):
        run.change("version", "v1", "v2")
        run.change("values.registry", None, SECRET, Write("2026-11-26T10:00:00Z", "helm"))
        run.change("values", VALUES, None)
        return run.result(values=VALUES, notes=["as it is"])

    _code, result = outcome(reconcile, options={"_ansible_diff": True})
    assert SECRET not in json.dumps(result)
    assert (result["diff"]["before"].keys(), result["diff"]["prepared"]) == ({"version", "values"}, "as it is\n")
    assert result["diff"]["after"] == {"version": "v2", "values.registry": digest(SECRET)}
    assert result["values"] == result["diff"]["before"]["values"]
    assert result["diff"]["written"] == {"values.registry": {"since": "2026-11-26T10:00:00Z", "by": "helm"}}


def test_a_diff_of_a_text_stays_as_it_is(outcome):
    diff = {"before": "values: x", "after": None}
    assert outcome(lambda _run: {"changed": True, "diff": diff})[1]["diff"] == diff


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
        run.perform("make it", "it is not there", lambda: pytest.fail("made"))
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
        raise ApiError("Connecting to the Kubernetes API failed: refused", status=None)

    monkeypatch.setattr(Kube, "connect", connect)
    code, result = outcome(lambda run: run.kube)
    assert (code, result["msg"]) == (1, "Connecting to the Kubernetes API failed: refused")


def test_programs_are_found_on_the_host(outcome):
    def reconcile(run):
        return run.result(found=[run.find_program("sh"), run.find_program("kubegpu-no-such-program")])

    found = outcome(reconcile, run_module=run_host_module)[1]["found"]
    assert found[0].endswith("/sh")
    assert found[1] is None


@pytest.mark.parametrize("kernel", [run_module, run_host_module])
def test_a_program_that_cannot_be_started_is_named_with_the_reason(outcome, tmp_path, kernel):
    program = tmp_path / "helm"
    program.write_bytes(b"\x00")
    program.chmod(0o755)
    code, result = outcome(lambda run: run.run_program([str(program)]), run_module=kernel)
    assert (code, result["msg"]) == (1, f"{program} cannot be started: Exec format error.")


# --- parts of the work -------------------------------------------------------------------------------------------


def test_parts_share_the_connection_and_have_options_time_and_results_of_their_own(outcome, monkeypatch, shown):
    connected = []

    def connect(module=None, deadline=None, **auth):
        connected.append(auth)
        return Kube(Client(None, deadline))

    monkeypatch.setattr(Kube, "connect", connect)

    def reconcile(run):
        ours, theirs = run.part({"timeout": 30}), run.part({"timeout": 40}, "/k/ml.yml")
        for one in (run, ours, theirs, ours):
            assert one.kube.client.deadline is one.deadline
        ours.change("n", None, 1)
        theirs.warn("look")
        return {
            "seconds": [ours.deadline.seconds, theirs.deadline.seconds],
            "changed": bool(run.changes),
            "check": ours.check_mode,
        }

    code, result = outcome(reconcile, check_mode=True)
    assert (code, result["seconds"], result["changed"], result["check"]) == (0, [30, 40], False, True), result
    assert connected == [{}, {"kubeconfig": "/k/ml.yml"}]
    assert shown == ["look"]


def test_helm_of_a_part_reads_the_kubeconfig_of_that_part(outcome, monkeypatch):
    monkeypatch.setattr(Helm, "connect", lambda _run, params, _deadline: params)

    def reconcile(run):
        return {"changed": False, "ways": [run.part({}, path).helm for path in (None, "/k/ml.yml")]}

    options = {"kubeconfig": "/host.yml", "context": "c", "helm_binary": "/h"}
    monkeypatch.setitem(SPEC, "helm_binary", {"type": "str"})
    code, result = outcome(reconcile, options=options)
    assert (code, result["ways"]) == (
        0,
        [options, {"kubeconfig": "/k/ml.yml", "context": None, "helm_binary": "/h"}],
    ), result


SCHEDULERS = {side: {"version": "v0.16.8"} for side in ("baseline", "candidate")}


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        (rehearsal, SCHEDULERS | {"rounds": 0}, "rounds: must be at least 1, not 0."),
        (rehearsal, SCHEDULERS | {"speed": 0}, "speed: must be at least 0.001, not 0.0."),
        (rehearsal, SCHEDULERS | {"span": 0}, "span: must be at least 1, not 0.0."),
        (rehearsal_record, {"interval": 0}, "interval: must be at least 1, not 0."),
        (rehearsal_record, {"seconds": -1}, "seconds: must be at least 0, not -1."),
    ],
)
def test_what_would_end_never_or_with_a_traceback_is_refused(module, given, said, capsys):
    with patch_module_args(given), pytest.raises(SystemExit):
        module.main()
    result = json.loads(capsys.readouterr().out)
    assert (result["failed"], result["msg"]) == (True, said)
