# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action plugin kubegpu.tenancy.fetch_kubeconfigs: one command on the host, where slurp and copy would take two tasks for each file."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import re
import shlex
import shutil
import typing as t
from collections.abc import Iterator

from ansible.plugins.action import ActionBase

from ..module_utils._adapters.kubeconfig_file import KubeconfigFile
from ..module_utils._common import verbatim
from ..module_utils._common.documents import LARGEST
from ..module_utils._common.errors import Problem, TenancyError, refuse
from ..module_utils._common.kubeconfig import program_of
from ..module_utils._common.run import Run
from ..module_utils._common.text import shown
from ..module_utils._gateway.facts import CLUSTER_NAME
from ..module_utils._gateway.values import reached, target_of
from ..module_utils._kubeconfig import current, plan
from ..module_utils._kubeconfig.values import expiry, iso, with_login

ARGUMENT_SPEC: dict[str, t.Any] = {
    # Of the host: the type path would take the home directory of the controller.
    "cluster": {"type": "str"},
    "tenants": {"type": "list", "elements": "str"},
    "tenants_dir": {"type": "str"},
    "absent": {"type": "list", "elements": "str", "default": []},
    "dest": {"type": "path", "required": True},
    "proxy_url": {"type": "str", "default": ""},
    "oidc": {"type": "dict", "default": {}},
    "gateway": {"type": "str", "default": ""},
    "gateway_cluster": {"type": "bool", "default": False},
}

# In front of each line that the host answers with, because logins and sudo may write lines of their own.
ANSWER = "kubeconfig:"
# What the host answers in the place of a file's content, none of which is base64, and why.
MISSING, NO_FILE, UNREADABLE = "-", ".", "?"
WITHOUT = {
    MISSING: "is missing on the host.",
    NO_FILE: "is no file on the host, but a folder, a pipe or a device.",
    UNREADABLE: "cannot be read on the host by the task's user.",
}

# What a shell replaces with a user's home directory, at the beginning of a path.
HOME = re.compile(r"~[A-Za-z0-9_.-]*")

# The name of the administrator's kubeconfig.
CLUSTER = "cluster.yml"

# What lets a tenant in, as the module vcluster_kubeconfig writes it. Other keys run a program here, or send a file of the controller.
CREDENTIALS = {"token", "client-certificate-data", "client-key-data"}


class ActionModule(ActionBase):
    """See the module's documentation."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        super().run(tmp, task_vars)
        _result, args = self.validate_argument_spec(
            argument_spec=ARGUMENT_SPEC,
            required_one_of=[("cluster", "tenants", "absent")],
            required_by={"tenants": ("tenants_dir",)},
        )
        args["dest"] = os.path.abspath(args["dest"])
        self._expires: dict[str, str | None] = {}
        run = Run(args, self._task.check_mode)
        try:
            args |= {option: self._expanded(args[option]) for option in ("cluster", "tenants_dir") if args[option]}
            wanted = sources(args)
            lines = self._read(wanted) if wanted else {}
            # What there is, is brought all the same.
            problems = [problem for name, path in wanted.items() for problem in self._bring(run, name, path, lines[name])]
            for file in files_to_remove(args):
                self._remove(run, os.path.join(args["dest"], file))
        except TenancyError as exc:
            return {"failed": True, "msg": exc.message}
        except OSError as exc:
            return {"failed": True, "msg": f"dest: {exc}"}
        result = run.result(dest=args["dest"], expires=self._expires) | ({"warnings": run.warnings} if run.warnings else {})
        return result | {"failed": True, "msg": "\n".join(problems)} if problems else result

    def _read(self, wanted: dict[str, str]) -> dict[str, str]:
        """Return the files' contents in base64 by the names that they get, or a key of ``WITHOUT``.

        :arg wanted: paths on the host, by these names.
        :raises TenancyError: when the host does not answer for each of them.
        """
        lines = self._answers(command(wanted.values()))
        if len(lines) != len(wanted):
            raise TenancyError(f"The host answered with {len(lines)} of {len(wanted)} kubeconfigs.")
        return dict(zip(wanted, lines, strict=True))

    def _expanded(self, path: str) -> str:
        """Return a path with the home directory of the user whom tasks have on the host, in the place of ~.

        :raises TenancyError: when the host does not say it.
        """
        home, slash, below = path.partition("/")
        if not HOME.fullmatch(home):
            return path
        answers = self._answers(f'for home in {home}; do echo "{ANSWER}$home"; done')
        if len(answers) != 1:
            raise TenancyError(f"The host does not say which folder {home} is.")
        return f"{answers[0]}{slash}{below}"

    def _answers(self, command: str) -> list[str]:
        """Return the lines that a command on the host answers with.

        :raises TenancyError: when it fails.
        """
        with self._unlogged():
            answer = self._low_level_execute_command(command)
        if answer["rc"] != 0:
            raise TenancyError(f"The kubeconfigs cannot be read: {shown(answer['stderr'])}")
        return [line.strip().removeprefix(ANSWER) for line in answer["stdout"].splitlines() if line.startswith(ANSWER)]

    @contextlib.contextmanager
    def _unlogged(self) -> Iterator[None]:
        """Have the connection not show what a command answers; that of SSH does from -vvv on, unless the task says no_log."""
        context = self._connection._play_context
        before, context.no_log = context.no_log, True
        try:
            yield
        finally:
            context.no_log = before

    def _bring(self, run: Run, name: str, path: str, line: str) -> list[str]:
        """Have a file for the controller, and return what is wrong with that one.

        :arg path: on the host.
        :arg line: its content in base64, or a key of ``WITHOUT``.
        """
        # In check mode, what is missing on the host is what earlier tasks would have made.
        expected = line == MISSING and run.check_mode
        if line in WITHOUT and not expected:
            return [f"{path} {WITHOUT[line]}"]
        try:
            text = None if expected else decoded(line, path)
            if text is not None and name != CLUSTER:
                users = users_of(text, path)
                check_credentials(users, path)
                self._expires[tenant_of(name)] = iso(expiry(users[0] if users else {}))
            elif text is not None:
                text = self._for_here(run, text, path)
            text = None if text is None else self._reached(run, text, name, path)
            written = self._write(run, os.path.join(run.params["dest"], name), text)
            if written and name == CLUSTER and text is not None and self._connection.transport != "local":
                # Once, because the API of a cluster on a GPU host may be closed on purpose.
                run.warnings += loopback_warnings(plan.read(text.encode(), path) or {}, path)
            if oidc := issuer_of(name, run.params):
                self._write(
                    run, os.path.join(run.params["dest"], login_file(name)), None if text is None else by_login(text, oidc, path)
                )
        except TenancyError as exc:
            return [problem.text for problem in exc.problems]
        return []

    def _for_here(self, run: Run, text: str, path: str) -> str:
        """Return the administrator's kubeconfig as the controller can use it: its current context alone, with what its files hold.

        A file with a token, which another program renews, is still named where the controller itself has it.

        :raises TenancyError: where one of them is missing on the host, empty or too large.
        """
        config = plan.read(text.encode(), path) or {}
        alone = current.alone(config, path)
        here = self._connection.transport == "local"
        brought = [file for file in current.files_of(alone, path) if not (here and file.key == current.BEARER_FILE)]
        files = {str(place): file for place, file in enumerate(brought)}
        lines = self._read({place: file.path for place, file in files.items()}) if files else {}
        refuse(
            Problem("missing", f"{file.path}, which {path} names as {file.key}, {WITHOUT[lines[place]]}")
            for place, file in files.items()
            if lines[place] in WITHOUT
        )
        for place, file in files.items():
            check_size(lines[place], file.path)
        whole = current.with_contents(alone, {file: lines[place] for place, file in files.items()})
        for item in whole["users"]:
            run.warnings += program_warnings(item["user"])
        # Without a difference, its comments stay, too.
        return text if whole == config else verbatim.dump(whole)

    def _reached(self, run: Run, text: str, name: str, path: str) -> str:
        """Return a kubeconfig that leads through the host's gateway, else through the proxy."""
        gateway = run.params["gateway"]
        if gateway and (name != CLUSTER or run.params["gateway_cluster"]):
            return by_gateway(text, gateway, CLUSTER_NAME if name == CLUSTER else "", run.params["proxy_url"], path)
        return via(text, run.params["proxy_url"], path)

    def _write(self, run: Run, path: str, text: str | None) -> bool:
        """Have a file with this content, and tell whether it had to be written; None for one that check mode does not know yet."""
        file = KubeconfigFile(path)
        content = None if text is None else text.encode()
        before = file.read()
        if content is not None and before == content and file.mode == "0600":
            return False
        differs = f"mode {file.mode}" if before == content else "another content"
        run.change(path, None if before is None else differs, "as on the host", file.last_write)

        def write() -> None:
            file.make_folder(0o700)
            file.write(content or b"")

        run.perform(f"write {path}", "it does not exist" if before is None else "it differs from the host's", write)
        return True

    def _remove(self, run: Run, path: str) -> None:
        file = KubeconfigFile(path)
        if file.read() is not None:
            run.change(path, "there", None, file.last_write)
            run.perform(f"remove {path}", "absent is wanted", file.remove)


def tenant_file(name: str) -> str:
    """Return the path of a tenant's kubeconfig below the folder on the controller."""
    return f"tenants/{name}.yml"


def tenant_of(path: str) -> str:
    """Return the name of the tenant of a file, the other way round."""
    return os.path.basename(path).removesuffix(".yml")


def login_file(path: str) -> str:
    """Return the path of a tenant's kubeconfig for users of its issuer, by that of the administrator's."""
    return path.removesuffix(".yml") + ".oidc.yml"


def issuer_of(path: str, args: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the issuer of the tenant of a file; empty where it has none."""
    return {} if path == CLUSTER else dict(args["oidc"].get(tenant_of(path)) or {})


def files_to_remove(args: dict[str, t.Any]) -> list[str]:
    """Return the files of tenants that are gone, and those for users of issuers that are no longer trusted."""
    without = [name for name in args["tenants"] or [] if not args["oidc"].get(name)]
    gone = [tenant_file(name) for name in args["absent"]]
    return [*gone, *(login_file(tenant_file(name)) for name in (*args["absent"], *without))]


def by_login(kubeconfig: str, oidc: dict[str, t.Any], path: str) -> str:
    """Return the same kubeconfig for users of an issuer, who log in.

    :raises TenancyError: where it is none.
    """
    config = plan.read(kubeconfig.encode(), path)
    if not config or not config.get("current-context"):
        raise TenancyError(f"{path} is no kubeconfig with a current context.")
    return verbatim.dump(with_login(config, oidc))


def sources(args: dict[str, t.Any]) -> dict[str, str]:
    """Return the paths on the host, by the paths that the files get below the folder on the controller.

    :raises TenancyError: for names that are no names of files.
    """
    tenants = args["tenants"] or []
    refuse(
        Problem("not-a-name", f"{option}: {name!r} is not the name of a tenant.")
        for option in ("tenants", "absent")
        for name in args[option] or []
        if not name or "/" in name or name.startswith(".")
    )
    refuse(Problem("listed-twice", f"absent: {name} is one of tenants, too.") for name in args["absent"] if name in tenants)
    cluster = {CLUSTER: args["cluster"]} if args["cluster"] else {}
    return cluster | {tenant_file(name): f"{args['tenants_dir']}/{name}.yml" for name in tenants}


def command(paths: t.Iterable[str]) -> str:
    """Return the shell command that writes a line for each file: its content in base64, or a key of ``WITHOUT``.

    What is no file is not opened: a pipe would not end.
    """
    files = " ".join(map(shlex.quote, paths))
    read = f'content=$(base64 -w 0 < "$file") || content="{UNREADABLE}"'
    kinds = f'if [ ! -e "$file" ]; then content="{MISSING}"; elif [ ! -f "$file" ]; then content="{NO_FILE}"; else {read}; fi'
    return f'for file in {files}; do {kinds}; echo "{ANSWER}$content"; done'


def check_size(line: str, path: str) -> None:
    """Refuse a file that is empty or too large, from its content in base64.

    :raises TenancyError: without a part of it, which may be a key.
    """
    if not line:
        raise TenancyError(f"{path} is empty.")
    if len(line) > LARGEST * 4 / 3:
        raise TenancyError(f"{path} is larger than {LARGEST} bytes, which are read at most.")


def decoded(line: str, path: str) -> str:
    """Return the text of a file.

    :raises TenancyError: where it is none, empty or too large; without a part of it, which may be a key.
    """
    check_size(line, path)
    try:
        return base64.b64decode(line, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise TenancyError(f"{path} is no kubeconfig, because it is no text.") from None


def users_of(kubeconfig: str, path: str) -> list[dict[str, t.Any]]:
    """Return the credentials of each user of a kubeconfig.

    :raises TenancyError: where it is none; without a part of it, which may be a key.
    """
    return [item.get("user") or {} for item in (plan.read(kubeconfig.encode(), path) or {}).get("users") or []]


def check_credentials(users: list[dict[str, t.Any]], path: str) -> None:
    """Refuse a tenant's kubeconfig that would run a program on the controller, or send one of its files to a server.

    :arg users: of it, as ``users_of`` returns them.
    :raises TenancyError: where it has such users; without a part of it, which may be a key.
    """
    if foreign := sorted({shown(key, 40) for user in users for key in user if key not in CREDENTIALS}):
        raise TenancyError(
            f"{path} is not brought here: its users have {', '.join(foreign)}, by which the host could run programs here, or read files. "
            f"A tenant's kubeconfig has only {', '.join(sorted(CREDENTIALS))}."
        )


def program_warnings(user: dict[str, t.Any]) -> list[str]:
    """Return what to say of the program that gives an administrator's credentials, where the controller cannot run it."""
    program = program_of(user)
    command = program.get("command")
    if not user.get("exec") or (isinstance(command, str) and shutil.which(command)):
        return []
    if not command or not isinstance(command, str):
        return [
            "The cluster's kubeconfig has exec without a command. Its copy here does not work before that is mended on the host."
        ]
    hint = f" Its kubeconfig says: {shown(program['installHint'])}" if program.get("installHint") else ""
    why = "which is not executable" if "/" in command and os.path.isfile(command) else "which is not there"
    lacking = f"gets its credentials from the program {shown(command)}, {why} on the controller"
    return [f"The cluster's kubeconfig {lacking}. Its copy here works once it is.{hint}"]


def loopback_warnings(config: dict[str, t.Any], path: str) -> list[str]:
    """Return what to say of a copy that leads to a host's loopback, which is that of the controller here.

    :arg path: of the kubeconfig on the host.
    """
    servers = [current.loopback(item.get("cluster") or {}) for item in config.get("clusters") or []]
    return [
        f"The copy of {path} leads to {shown(server)}, which is the controller itself here. For use from here, write an address into {path} "
        "that the controller reaches, or set kubegpu_kubeconfig_proxy. On a GPU host, kubegpu_gateway.cluster_api opens it."
        for server in servers
        if server
    ]


def via(kubeconfig: str, proxy_url: str, path: str) -> str:
    """Return the same kubeconfig, reaching every cluster through a proxy; unchanged where none is given.

    :raises TenancyError: where it is none; without a part of it, which may be a key.
    """
    if not proxy_url:
        return kubeconfig
    config = with_clusters(kubeconfig, path)
    # Ansible's strings know where they come from, and YAML takes plain ones only.
    proxy = {"proxy-url": str(proxy_url)}
    return verbatim.dump(config | {"clusters": [item | {"cluster": item["cluster"] | proxy} for item in config["clusters"]]})


def by_gateway(kubeconfig: str, host: str, server_name: str, proxy_url: str, path: str) -> str:
    """Return the same kubeconfig, reaching every cluster by the port that it names, at the host's gateway and without a proxy.

    A server without a port of its own, such as that of a load balancer, has none there and stays as it is.

    :arg server_name: which the server's certificate has, where it does not name the gateway.
    :raises TenancyError: where it is none; without a part of it, which may be a key.
    """
    config = with_clusters(kubeconfig, path)
    targets = [target_of(str(item["cluster"].get("server"))) for item in config["clusters"]]
    if not all(targets):
        return via(kubeconfig, proxy_url, path)
    clusters = [
        item | {"cluster": reached(item["cluster"], str(host), target.port, server_name)}
        for item, target in zip(config["clusters"], targets, strict=True)
        if target
    ]
    return verbatim.dump(config | {"clusters": clusters})


def with_clusters(kubeconfig: str, path: str) -> dict[str, t.Any]:
    """Return what a kubeconfig with clusters holds.

    :raises TenancyError: where it is none; without a part of it, which may be a key.
    """
    config = plan.read(kubeconfig.encode(), path) or {}
    clusters = config.get("clusters") or []
    if not clusters or not all(item.get("cluster") for item in clusters):
        raise TenancyError(f"{path} is no kubeconfig with clusters.")
    return config
