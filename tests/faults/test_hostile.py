# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tenants can do to the operator's run from within: every report about others stays as it was, in the usual time.

Writes docs/contributing/hostile.md.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import decimal
import json
import os
import re
import subprocess
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
import yaml
from ansible_collections.kubegpu.tenancy.plugins.module_utils._adapters.kubernetes import Kube
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.names import GPU_RESOURCE, QUEUE_LABEL
from ansible_collections.kubegpu.tenancy.plugins.module_utils._common.wait import Deadline, wait_for
from ansible_collections.kubegpu.tenancy.tests.faults.attacks import HARMLESS, Attacker
from ansible_collections.kubegpu.tenancy.tests.faults.hostile import (
    HELD,
    HOSTILE,
    PROFILES,
    SERVED,
    STOPPED,
    SYNCED,
    Attack,
    Hostile,
    Liar,
    groups,
    precious,
)
from ansible_collections.kubegpu.tenancy.tests.faults.labs import KAI, ROOT, Cluster, Lab

Data = dict[str, Any]
VICTIM, OWN_KAI, SHARES = "victim", "own-kai", "beside"
# Devices of the node that is shared, and what each of its tenants may have of them.
BOUND = 2


def tenant(name: str, trust: str, **more: Any) -> Data:
    return {"name": name, "trust": trust, "vcluster": {"kubernetes_version": "v1.35.4"}} | more


def sharing(name: str, trust: str) -> Data:
    return tenant(
        name,
        trust,
        gpu_nodes={"names": ["kubegpu-worker"], "shared_gpus": BOUND},
        scheduler={"name": "kai", "shared": True},
        queues=[{"name": name, "gpu": {"quota": 1, "limit": BOUND}}],
    )


# Seconds for what is done for a tenant.
TIMEOUTS = ("vcluster_tenant_timeout", "kai_scheduler_timeout", "kai_scheduler_probe_timeout")
LAYOUT = {
    "lab_gpus": 7,
    "lab_network_policies": True,
    "lab_kai_versions": [KAI["version"]],
    # One is free on the shared node, even if its tenants use up their bounds: the victim's verification needs one.
    "nvkind_workers": [{"gpus": [0, 1, 2, 3]}, {"gpus": [4, 5]}, {"gpus": [6]}],
    "kubegpu_shared_scheduler": KAI,
    "kubegpu_tenants": [
        sharing(VICTIM, "high"),
        tenant(
            OWN_KAI,
            "high",
            gpu_nodes={"names": ["kubegpu-worker2"]},
            scheduler=KAI,
            queues=[{"name": "work", "gpu": {"quota": 2, "limit": 2}}],
        ),
        tenant("high", "high"),
        tenant("partial", "partial"),
        tenant("zero", "zero", gpu_nodes={"names": ["kubegpu-worker3"]}),
        sharing(SHARES, "partial"),
    ],
    # What bounds the run's work on a tenant that breaks itself.
    **dict.fromkeys(TIMEOUTS, 120),
}
# On an idle machine, a run takes at most so many times as long as without attacks, and so many seconds.
SLOWER, GRACE = 2, 15
# So many seconds it may wait, on any machine, where it reads tenants that broke themselves and tries to change them, or works on them.
READS, WORKS = 120, 240

# What changes a terminal, and what YAML makes of a text with a character that it does not print.
UNREADABLE = re.compile(r'[\x00-\x08\x0b-\x1f\x7f-\x9f]|^ +msg: "', re.MULTILINE)

# What differs from run to run: ages and times.
AGES = {"at", "began", "seconds", "since", "spans", "verified_at", "verified_before"}
# What a tenant's own pods change of what is said of it.
OF_PODS = {"pods", "queues", "gpus"}
# What is said of work that is due.
AGAIN = {"due", "preview", "reasons"}


# --- what is said ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Done:
    """A program that ended.

    :ivar stdout: what it printed there; ``code``, its exit status.
    :ivar seconds: it took; ``slower``, how many times as long as on an idle machine work took meanwhile.
    """

    stdout: str
    code: int
    seconds: float
    slower: float


@dataclasses.dataclass(frozen=True)
class Said:
    """What the operator's programs said.

    :ivar reports: by program, as data.
    :ivar done: the programs, alike.
    """

    reports: dict[str, Data]
    done: dict[str, Done]


class HostileLab(Lab):
    """The lab with its tenants, and the operator's programs on it."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, f"--extra-vars={json.dumps(LAYOUT)}")
        self.folder = folder
        self.kubeconfigs = Path(f"~/.kube/kubegpu/{name}").expanduser()
        self.inventory = folder / "lab.vclusters.yml"
        plugin = {"plugin": "kubegpu.tenancy.vclusters", "cluster": "lab", "kubeconfig": str(self.kubeconfigs / "cluster.yml")}
        self.inventory.write_text(yaml.safe_dump(plugin))

    def look(self) -> Said:
        """Ask for what a person looks at: the playbook info, the inventory, the ledger."""
        path = self.folder / "info.json"
        path.unlink(missing_ok=True)
        ledger = ["ansible", "localhost", "--module-name=kubegpu.tenancy.gpu_ledger_info", "--one-line"]
        ledger += [
            f"--args=kubeconfig={self.kubeconfigs}/cluster.yml",
            "--extra-vars=ansible_python_interpreter={{ansible_playbook_python}}",
        ]
        programs = {
            "info": self.command("info", f"--extra-vars=info_file={path}"),
            "inventory": ["ansible-inventory", f"--inventory={self.inventory}", "--list"],
            "ledger": ledger,
        }
        with concurrent.futures.ThreadPoolExecutor(len(programs)) as pool:
            done = dict(zip(programs, pool.map(timed, programs.values()), strict=True))
        texts = {
            "info": path.read_text() if path.exists() else "[]",
            "inventory": done["inventory"].stdout,
            "ledger": done["ledger"].stdout.partition("=> ")[2],
        }
        return Said({name: data_of(text) for name, text in texts.items()}, done)

    def run_all(self) -> Said:
        """Run what the operator's pipeline runs."""
        reports, done = {}, {}
        for book, more in (("site", []), ("drift", ["--check"]), ("verify", [])):
            path = self.folder / book / "tenancy.json"
            path.unlink(missing_ok=True)
            done[book] = timed(self.command(book, f"--extra-vars=kubegpu_evidence={path.parent}", *more))
            reports[book] = data_of(path.read_text() if path.exists() else "{}")
        return Said(reports, done)


class Pace(threading.Thread):
    """How many times as long as on an idle machine the same work takes, while this runs: by a little work of its own."""

    EVERY, WORK = 4.0, 0.2

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._over = threading.Event()
        self._took = self._worked = 0.0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        while not self._over.wait(self.EVERY):
            began, worked = time.monotonic(), time.thread_time()
            while time.thread_time() - worked < self.WORK:
                pass
            self._took += time.monotonic() - began
            self._worked += self.WORK

    @property
    def slower(self) -> float:
        return max(1.0, self._took / self._worked) if self._worked else 1.0


def timed(command: list[str]) -> Done:
    """Run a program to its end.

    :raises AssertionError: where what it printed would change a terminal, or is one quoted line.
    """
    start = time.monotonic()
    with Pace() as pace:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800, check=False)
    seconds = time.monotonic() - start
    print(f"{command[0]} {command[1]}: {done.returncode}, {seconds:.0f} s, {pace.slower:.1f} times as slow as idle", flush=True)
    print((done.stdout + done.stderr)[-3000:] if done.returncode else "", flush=True)
    assert not UNREADABLE.search(done.stdout + done.stderr), command
    return Done(done.stdout, done.returncode, seconds, pace.slower)


def data_of(text: str) -> Data:
    """Return what a program wrote as JSON, which knows no NaN; a cluster's record where it is a list of one."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    found = json.loads(text or "{}", parse_constant=refuse)
    return dict(found[0] if isinstance(found, list) and found else found or {})


# --- of whom -----------------------------------------------------------------------------------------------------


def without_ages(value: Any) -> Any:
    """Return data without times and ages, also in its sentences, and without what a quota had used when a pod was tried last.

    That is more while the tenant's own verification holds GPUs.
    """
    if isinstance(value, dict):
        return {key: without_ages(item) for key, item in value.items() if key not in AGES}
    if isinstance(value, list):
        return [without_ages(item) for item in value]
    return re.sub(r"\d+(\.\d+)? s\b|used: requests\S+=\d+", "N", value) if isinstance(value, str) else value


def about(name: str, text: str) -> bool:
    """Tell whether a sentence is about a tenant."""
    return re.search(rf"(?<![\w-])(tenant-|lab/)?{re.escape(name)}(?![\w-])", text) is not None


def of_others(program: str, data: Data, attackers: Iterable[str]) -> Data:
    """Return what a program says of all but the attackers."""
    return without_ages(_VIEWS[program](data, frozenset(attackers)))


def _of_info(data: Data, attackers: frozenset[str]) -> Data:
    gpus = data.get("gpus") or {"devices": [], "overlaps": []}
    shared = dict(data.get("shared_scheduler") or {})
    shared["queues"] = [row for row in shared.get("queues") or [] if row["name"] not in attackers]
    return {
        "tenants": {one["name"]: one for one in data.get("tenants", []) if one["name"] not in attackers},
        "shared_scheduler": shared,
        "held": [row for row in gpus["devices"] if row["pod"] and row["tenant"] not in attackers],
        # Each once, regardless of who has it.
        "devices": sorted({(row["node"], str(row["device"])) for row in gpus["devices"]}),
        "overlaps": gpus["overlaps"],
        "failures": sentences(data.get("failures", []), attackers),
    }


def _of_inventory(data: Data, attackers: frozenset[str]) -> Data:
    hosts = {f"lab/{name}" for name in attackers}
    theirs = {name: sorted({*group.get("hosts", [])} - hosts) for name, group in data.items() if name not in ("_meta", "all")}
    variables = data.get("_meta", {}).get("hostvars", {})
    return {
        "groups": {name: members for name, members in theirs.items() if members},
        "hosts": {host: found for host, found in variables.items() if host not in hosts},
    }


def _of_ledger(data: Data, attackers: frozenset[str]) -> Data:
    return {
        "tenants": [row for row in data.get("tenants", []) if row["tenant"] not in attackers],
        "nodes": [
            {key: row[key] for key in ("node", "tenants", "allocatable")}
            | {"theirs": [held for gpu in row["gpus"] if (held := {name: gpu[name] for name in gpu if name not in attackers})]}
            for row in data.get("nodes", [])
        ],
        "overlaps": data.get("overlaps"),
    }


def judged(record: Data, attackers: frozenset[str]) -> Data:
    """Return a record with its checks as verdicts alone: their reasons tell how many GPUs of the queues are used just then."""
    checks = [row for row in record.get("checks") or [] if row["queue"] not in attackers]
    # In the order in which they ended.
    return record | {"checks": sorted([row["name"], row["queue"] or "", row["verdict"]] for row in checks)}


def _of_evidence(data: Data, attackers: frozenset[str]) -> Data:
    (cluster, *_none) = data.get("clusters") or [{}]
    drift = data.get("drift") or {"differences": [], "steps": []}
    records = [one for one in cluster.get("tenants", []) if one["name"] not in attackers]
    return {
        "tenants": {one["name"]: judged(one, attackers) for one in records},
        "shared_scheduler": judged(cluster.get("shared_scheduler") or {}, attackers),
        "nodes": _of_ledger({"nodes": cluster.get("nodes") or []}, attackers)["nodes"],
        **{key: cluster.get(key) for key in ("overlaps", "removed", "unlisted")},
        **{key: sentences(data.get(key, []), attackers) for key in ("problems", "pending")},
        **{key: [row for row in drift[key] if row["tenant"] not in attackers] for key in ("differences", "steps")},
    }


def sentences(found: Iterable[str], attackers: Iterable[str]) -> list[str]:
    """Return the sentences that are not about an attacker."""
    return [text for text in found if not any(about(name, text) for name in attackers)]


_VIEWS = {
    "info": _of_info,
    "inventory": _of_inventory,
    "ledger": _of_ledger,
    **dict.fromkeys(("site", "drift", "verify"), _of_evidence),
}


def of_one(program: str, data: Data, name: str, left_out: Iterable[str]) -> Data:
    """Return what a program says of one tenant, without the keys that are left out."""
    if program == "inventory":
        return dict(data.get("_meta", {}).get("hostvars", {}).get(f"lab/{name}", {}))
    (cluster, *_none) = data.get("clusters") or [data]
    (record, *_none) = [one for one in cluster.get("tenants", []) if one.get("name") == name] or [{}]
    return dict(without_ages({key: value for key, value in record.items() if key not in left_out}))


# --- whether it is true ------------------------------------------------------------------------------------------


def differing(before: Data, after: Data, where: str = "") -> list[str]:
    """Return what of some data is another one now, each as a path with both."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            line for key in sorted({*before, *after}) for line in differing(before.get(key), after.get(key), f"{where}.{key}")
        ]
    return [] if before == after else [f"{where}: {json.dumps(before)[:2000]} is now {json.dumps(after)[:2000]}"]


def untrue(before: Said, after: Said, attackers: Iterable[str], broken: float = 0) -> list[str]:
    """Return what is said of others than the attackers that was not before, and what took too long.

    :arg broken: seconds that the run may wait for tenants that broke themselves, for which it fails then.
    """
    found = []
    for program, said in after.reports.items():
        were, are = (of_others(program, one.reports[program], attackers) for one in (before, after))
        found += [f"{program}{line}" for line in differing(were, are)]
        then, now = before.done[program], after.done[program]
        # What fails for one tenant fails for the run, which then names that one.
        if now.code != then.code and not (broken and blamed(said, attackers)):
            found.append(f"{program}: exit status {now.code}, before {then.code}")
        if now.seconds > (allowed := (then.seconds / then.slower * SLOWER + GRACE) * now.slower + broken):
            found.append(f"{program}: {now.seconds:.0f} s, allowed {allowed:.0f} s")
    return found


def blamed(data: Data, attackers: Iterable[str]) -> bool:
    """Tell whether something failed, or differs, that is said to be an attacker's."""
    drift = data.get("drift") or {"differences": []}
    said = [text for key in ("failures", "problems", "pending") for text in data.get(key) or []]
    said += [f"lab/{row['tenant']}" for row in drift["differences"]]
    return len(sentences(said, attackers)) < len(said)


def forged(before: Said, after: Said, attacker: str) -> list[str]:
    """Return what is said of an attacker that was not before, beside its pods and GPUs.

    One with KAI Scheduler, of its own or shared, can have itself verified again: its pods are part of what that rests on, and hold the GPUs
    that it needs.
    """
    left_out = OF_PODS | (AGAIN if attacker in (OWN_KAI, SHARES) else set())
    return [
        f"{program} of {attacker}{line}"
        for program in after.reports
        if program != "ledger"
        for line in differing(*(of_one(program, one.reports[program], attacker, left_out) for one in (before, after)))
    ]


def miscounted(host: Kube, said: Said, attacker: str) -> list[str]:
    """Return how the ledger's count of a tenant's GPUs differs from that of its pods on the host cluster."""
    pods = [
        pod for pod in host.list("v1", "Pod", f"tenant-{attacker}") if pod["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    asked = sum(asked_by(pod["spec"]) for pod in pods)
    placed = sum(asked_by(pod["spec"]) for pod in pods if pod["spec"].get("nodeName"))
    (row, *_none) = [row for row in said.reports["ledger"].get("tenants", []) if row["tenant"] == attacker] or [{}]
    wanted = {"requested": asked, "in_use": placed, "shares": placed}
    return [
        f"ledger: {attacker} has {key} {row.get(key)}, and its pods {count}"
        for key, count in wanted.items()
        if row.get(key) != count
    ]


def asked_by(spec: Data) -> int:
    """Return the GPUs that Kubernetes books for a pod."""

    def asked(container: Data) -> int:
        text = str(container.get("resources", {}).get("limits", {}).get(GPU_RESOURCE, 0))
        return int(decimal.Decimal(text.removesuffix("k")) * (1000 if text.endswith("k") else 1))

    first = spec.get("initContainers", [])
    sidecars = sum(asked(one) for one in first if one.get("restartPolicy") == "Always")
    return max([sidecars + sum(map(asked, spec["containers"])), *map(asked, first)])


# --- tried -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Field:
    """The lab with everybody in it, and what was said before the attacks.

    :ivar seen: whether attempts came where the operator's programs read, in the order of the profiles, by what they do; ``reasons`` alike.
    """

    lab: HostileLab
    host: Kube
    attackers: list[Hostile]
    before: Said
    run_before: Said
    seen: dict[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    reasons: dict[str, list[str]] = dataclasses.field(default_factory=dict)


@pytest.fixture(scope="module", name="field")
def _field(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    folder = tmp_path_factory.mktemp("hostile")
    with HostileLab("kubegpu-faults-hostile", folder) as lab:
        # All tenants at once take longer than any of them later.
        lab.site(f"--extra-vars={json.dumps(dict.fromkeys(TIMEOUTS, 600))}")
        cluster = Cluster(lab, Path(os.environ["KUBEGPU_CACHE"]))
        at_work(Attacker(cluster, VICTIM))
        cluster.kube.create(precious(f"tenant-{VICTIM}"))
        liar = Liar(folder, gateway(lab))
        before = lab.look()
        held = [row["device"] for row in before.reports["info"]["gpus"]["devices"] if row["tenant"] == VICTIM]
        attackers = [Hostile(cluster, name, Attacker(cluster, VICTIM)) for name in PROFILES]
        for attacker in attackers:
            attacker.liar, attacker.shares = liar, attacker.name == SHARES
            attacker.prey = held[0]
        # Drift and verification write what they found, and the next ones find it so.
        yield Field(lab, cluster.kube, attackers, before, lab.run_all())
        liar.close()


def at_work(victim: Attacker) -> None:
    """Have the victim hold a GPU, and then wait for more than it may have."""
    (harmless,) = HARMLESS["containers"]

    def create(name: str, gpus: int) -> None:
        limits = harmless["resources"]["limits"] | {GPU_RESOURCE: str(gpus)}
        container = harmless | {"command": ["sleep", "86400"], "resources": {"limits": limits}}
        metadata = {"name": name, "namespace": "default", "labels": {QUEUE_LABEL: VICTIM}}
        spec = HARMLESS | {"schedulerName": "kai-scheduler", "containers": [container]}
        victim.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def runs() -> tuple[bool | None, str]:
        status = (victim.kube.get("v1", "Pod", "holds", "default") or {"status": {}})["status"]
        return True if status.get("phase") == "Running" else None, json.dumps(status)

    create("holds", 1)
    wait_for("the victim's pod", runs, Deadline(120))
    # KAI Scheduler would place this one first if it saw both at once.
    create("waits", BOUND)


def gateway(lab: Lab) -> str:
    """Return this machine's address as the lab's host reaches it."""
    form = "{{range .NetworkSettings.Networks}}{{.Gateway}}{{end}}"
    done = subprocess.run(["docker", "inspect", "--format", form, lab.name], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def try_all(field: Field, attack: Attack, own: bool) -> list[str]:
    """Let all attackers try an attack, and run all of the operator's programs with it in place; return what is not true then.

    :arg own: whether something else may be said of the attackers themselves by now.
    """
    with concurrent.futures.ThreadPoolExecutor(len(field.attackers)) as pool:
        found = list(pool.map(attack.try_as, field.attackers))
    field.seen[attack.does] = tuple(HELD if reached else STOPPED for reached, _reason in found)
    field.reasons[attack.does] = [reason[:300] for _reached, reason in found]
    print(attack.attempt.__name__, field.seen[attack.does], field.reasons[attack.does], flush=True)
    after = field.lab.look()
    names = list(PROFILES)
    wrong = untrue(field.before, after, names, READS if own else 0)
    for name in names:
        wrong += miscounted(field.host, after, name) + ([] if own else forged(field.before, after, name))
    return wrong + run_all(field)


def run_all(field: Field) -> list[str]:
    """Run what the operator's pipeline runs; return what is not true then."""
    kubeconfig = field.lab.kubeconfigs / "tenants" / f"{VICTIM}.yml"
    kubeconfig.unlink(missing_ok=True)
    wrong = untrue(field.run_before, field.lab.run_all(), PROFILES, WORKS)
    # Kubeconfigs are handed over all the same.
    if not kubeconfig.exists():
        wrong.append("site: the victim's kubeconfig was not handed over")
    if field.host.get("v1", "ConfigMap", "precious", f"tenant-{VICTIM}") is None:
        wrong.append("site: it removed what is no business of the attackers'")
    return wrong


@pytest.mark.parametrize("group", [SYNCED, SERVED])
def test_what_is_said_of_others_stays_true(field: Field, group: str) -> None:
    """Attempts of one group stay, each beside the ones before it."""
    wrong: dict[str, list[str]] = {}
    own = False
    for attack in groups()[group]:
        own = own or attack.own
        known = {line for lines in wrong.values() for line in lines}
        if found := [line for line in try_all(field, attack, own) if line not in known]:
            wrong[attack.attempt.__name__] = found
            print(json.dumps(found, indent=1), flush=True)
    for attacker in field.attackers:
        attacker.undo()
    assert not wrong, json.dumps(wrong, indent=1)


def test_all_is_as_before_once_they_are_gone(field: Field) -> None:
    field.lab.site()
    assert not untrue(field.before, field.lab.look(), ())


def test_each_attempt_came_as_far_as_is_known(field: Field) -> None:
    (ROOT / "docs/contributing/hostile.md").write_text(page(field.seen))
    assert field.seen == {one.does: one.reaches for one in HOSTILE}, json.dumps(field.reasons, indent=1)


def page(seen: dict[str, tuple[str, ...]]) -> str:
    head = f"""\
        # What a tenant can do to the operator's run

        Tried in the lab by the administrators of five tenants at once, with nothing but their kubeconfigs, beside one who does nothing. After each
        attempt, `kubegpu.tenancy.info`, the inventory plugin, the GPU ledger, `site`, `drift` and `verify` say of everybody else what they said
        before, with the same exit status. They take at most {SLOWER} times as long and {GRACE} s, and where tenants broke themselves {READS} s more
        to read them and {WORKS} s more to work on them.

        `held`: it came where these programs read, and they told the truth. `stopped`: it did not come there. Made by
        `tests/faults/test_hostile.py`; what tenants can do to each other is in [attacks.md](attacks.md).

        | attempt | {" | ".join(PROFILES.values())} | what holds |
        |---|{"---|" * len(PROFILES)}---|
        """
    rows = [f"| {one.does} | {' | '.join(seen.get(one.does, ()))} | {one.by} |" for one in HOSTILE]
    return textwrap.dedent(head) + "\n".join(rows) + "\n"
