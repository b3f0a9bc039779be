# SPDX-License-Identifier: BSD-3-Clause
"""The telemetry socket of a running program, as rte_telemetry.h and
dpdk-telemetry.py describe it: for kilim-exporter.py and kilim-top.py."""

import glob
import json
import os
import socket

PAGE = 16   # queues of an answer of /kilim/queues


class TelemetryError(Exception):
    """A sentence for people."""


def runtime_dir():
    """Where EAL puts its files (DPDK lib/eal/unix/eal_filesystem.c, eal_create_runtime_dir())."""
    base = os.environ.get("RUNTIME_DIRECTORY")
    if not base:
        base = "/var/run" if os.getuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return os.path.join(base, "dpdk")


def sockets():
    """File prefix and path of every telemetry socket that there is."""
    found = glob.glob(os.path.join(runtime_dir(), "*", "dpdk_telemetry.v2*"))
    return sorted((os.path.basename(os.path.dirname(path)), path) for path in found)


def path_of(prefix):
    return os.path.join(runtime_dir(), prefix, "dpdk_telemetry.v2")


class Client:
    """A connection; a command in, its answer out."""

    def __init__(self, prefix="rte", path=None, seconds=5.0):
        self.path = path or path_of(prefix)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(seconds)
        try:
            self.socket.connect(self.path)
            greeting = json.loads(self.socket.recv(1024))
        except (OSError, ValueError) as error:
            self.socket.close()
            there = ", ".join(sorted({name for name, path in sockets() if path != self.path}))
            raise TelemetryError(
                f"no program answers at {self.path} ({error}); start one without EAL's --no-telemetry and name "
                f"its --file-prefix" + (f"; there are: {there}" if there else "")) from error
        self.pid = greeting["pid"]
        self.version = greeting["version"]
        self.room = greeting["max_output_len"]

    def close(self):
        self.socket.close()

    def ask(self, command):
        """The answer; None where the program has no such command. TelemetryError: it is gone, or refuses."""
        try:
            self.socket.send(command.encode())
            reply = self.socket.recv(self.room)
        except OSError as error:
            raise TelemetryError(f"the program at {self.path} does not answer ({error})") from error
        if not reply:
            raise TelemetryError(f"the program at {self.path} has ended")
        try:
            answer = json.loads(reply)
        except ValueError as error:
            raise TelemetryError(f"{command} is answered with something that is no JSON ({error})") from error
        answer = next(iter(answer.values()))
        if isinstance(answer, dict) and set(answer) == {"error"}:
            raise TelemetryError(f"{command}: {answer['error']}")
        return answer

    def queues(self, port):
        """All queues of a port, over as many pages as it takes."""
        all_queues, first = {}, 0
        while first is not None:
            page = dict(self.ask(f"/kilim/queues,{port},{first}") or {})
            first = page.pop("next_queue", None)
            all_queues |= page
        return all_queues
