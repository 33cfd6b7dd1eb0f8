# Copyright: kubegpu.tenancy contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A DOUBLE of kubelet's side of the device plugins' API v1beta1: it lets a device plugin register, lists its devices, and allocates one.

Numbers of fields are those of kubernetes, staging/src/k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FOLDER = Path("/var/lib/kubelet/device-plugins")
PACKAGE = "v1beta1"
SECONDS = 60

# Fields by message: their numbers, whether they repeat, and the message that they hold, if not a text.
_FIELDS: dict[str, dict[str, tuple[int, bool, str]]] = {
    "RegisterRequest": {"version": (1, False, ""), "endpoint": (2, False, ""), "resource_name": (3, False, "")},
    "Device": {"ID": (1, False, ""), "health": (2, False, "")},
    "ListAndWatchResponse": {"devices": (1, True, "Device")},
    "ContainerAllocateRequest": {"devicesIDs": (1, True, "")},
    "AllocateRequest": {"container_requests": (1, True, "ContainerAllocateRequest")},
    "Pair": {"key": (1, False, ""), "value": (2, False, "")},
    "Mount": {"container_path": (1, False, ""), "host_path": (2, False, "")},
    "ContainerAllocateResponse": {"envs": (1, True, "Pair"), "mounts": (2, True, "Mount")},
    "AllocateResponse": {"container_responses": (1, True, "ContainerAllocateResponse")},
    "Empty": {},
}


def _messages() -> dict[str, Any]:
    """Return the classes of messages by name."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="device_plugin.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, repeats, of) in fields.items():
            message.field.add(
                name=field,
                number=number,
                label=kinds.LABEL_REPEATED if repeats else kinds.LABEL_OPTIONAL,
                type=kinds.TYPE_MESSAGE if of else kinds.TYPE_STRING,
                type_name=f".{PACKAGE}.{of}" if of else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}")) for name in _FIELDS}


MESSAGES = _messages()


class Plugin:
    """A device plugin that registered.

    :ivar registered: what it said of itself.
    """

    def __init__(self, registered: Any, channel: grpc.Channel) -> None:
        self.registered = registered
        self._channel = channel

    def devices(self) -> list[tuple[str, str]]:
        """Return its devices, and whether each is healthy, as it lists them first."""
        ask = self._channel.unary_stream(
            f"/{PACKAGE}.DevicePlugin/ListAndWatch",
            lambda message: message.SerializeToString(),
            MESSAGES["ListAndWatchResponse"].FromString,
        )
        stream = ask(MESSAGES["Empty"](), timeout=SECONDS)
        try:
            return [(device.ID, device.health) for device in next(stream).devices]
        finally:
            stream.cancel()

    def allocate(self, device: str) -> dict[str, str]:
        """Return the variables that a container gets with a device."""
        ask = self._channel.unary_unary(
            f"/{PACKAGE}.DevicePlugin/Allocate",
            lambda message: message.SerializeToString(),
            MESSAGES["AllocateResponse"].FromString,
        )
        request = MESSAGES["AllocateRequest"](container_requests=[{"devicesIDs": [device]}])
        (response,) = ask(request, timeout=SECONDS).container_responses
        return {pair.key: pair.value for pair in response.envs}


@contextlib.contextmanager
def registered(command: list[str], environment: dict[str, str], log: Path) -> Iterator[Plugin]:
    """Start a device plugin, and end it with the context.

    :raises queue.Empty: where it did not register in time; ``log`` has what it said.
    """
    made = not FOLDER.exists()
    FOLDER.mkdir(parents=True, exist_ok=True)
    plugins: queue.Queue[Any] = queue.Queue()

    def register(request: Any, _context: Any) -> Any:
        plugins.put(request)
        return MESSAGES["Empty"]()

    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(
        register, MESSAGES["RegisterRequest"].FromString, lambda message: message.SerializeToString()
    )
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(f"{PACKAGE}.Registration", {"Register": handler})])
    server.add_insecure_port(f"unix:{FOLDER}/kubelet.sock")
    server.start()
    with log.open("w") as said:
        process = subprocess.Popen(command, env=os.environ | environment, stdout=said, stderr=subprocess.STDOUT)
    try:
        plugin = plugins.get(timeout=SECONDS)
        with grpc.insecure_channel(f"unix:{FOLDER}/{plugin.endpoint}") as channel:
            yield Plugin(plugin, channel)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
        server.stop(0).wait()
        for socket in FOLDER.glob("*.sock"):
            socket.unlink()
        if made:
            FOLDER.rmdir()
            with contextlib.suppress(OSError):
                FOLDER.parent.rmdir()
