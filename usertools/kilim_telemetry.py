# SPDX-License-Identifier: BSD-3-Clause
"""The telemetry socket of a running program, as rte_telemetry.h and
dpdk-telemetry.py describe it: for kilim-exporter.py and kilim-top.py."""

import contextlib
import glob
import json
import os
import socket
import time

PAGE = 16   # queues of an answer of /kilim/queues
PATIENCE = 2.0   # seconds for all that is asked at one time: Prometheus gives up after ten
MOST_QUEUES = 1 << 16   # of a port; ethdev numbers them in 16 bits
MOST_BYTES = 1 << 20    # of an answer; DPDK's have 16 KiB


class TelemetryError(Exception):
    """A sentence for people."""


@contextlib.contextmanager
def understood(path):
    """What a program says may have any shape: one that is none of Kilim's is told in a sentence."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise TelemetryError(f"the program at {path} answers in a shape that is none of Kilim's "
                             f"({type(error).__name__}: {error})") from error


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
    """A connection; a command in, its answer out. All answers until the next begin() have PATIENCE together."""

    def __init__(self, prefix="rte", path=None, seconds=PATIENCE):
        self.path = path or path_of(prefix)
        self.seconds = seconds
        self.begin()
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.wait()
            self.socket.connect(self.path)
            self.wait()
            greeting = json.loads(self.socket.recv(1024))
            self.pid, self.version, self.room = (
                greeting[name] for name in ("pid", "version", "max_output_len"))
            if not 0 < self.room <= MOST_BYTES:
                raise ValueError("answers of no length that there is")
        except (OSError, LookupError, TypeError, ValueError, TelemetryError) as error:
            self.socket.close()
            there = ", ".join(sorted({name for name, path in sockets() if path != self.path}))
            raise TelemetryError(
                f"no program answers at {self.path} ({error}); start one without EAL's --no-telemetry and name "
                f"its --file-prefix" + (f"; there are: {there}" if there else "")) from error

    def close(self):
        self.socket.close()

    def begin(self):
        """What is asked from now on has its time anew."""
        self.end = time.monotonic() + self.seconds

    def wait(self):
        """The next call on the socket lasts as long as there is time left."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise TelemetryError(f"the program at {self.path} does not answer within {self.seconds:g} s")
        self.socket.settimeout(left)

    def ask(self, command):
        """The answer, an object; None where the program has no such command. TelemetryError: it is gone, or
        refuses, or answers with something else."""
        try:
            self.wait()
            self.socket.send(command.encode())
            self.wait()
            reply = self.socket.recv(self.room)
        except OSError as error:
            raise TelemetryError(f"the program at {self.path} does not answer ({error})") from error
        if not reply:
            raise TelemetryError(f"the program at {self.path} has ended")
        try:
            answer = json.loads(reply)
        except (ValueError, RecursionError) as error:
            raise TelemetryError(f"{command} is answered with something that is no JSON ({error})") from error
        if not isinstance(answer, dict) or len(answer) != 1:
            raise TelemetryError(f"the program at {self.path} answers {command} with no object of that name")
        answer = next(iter(answer.values()))
        if isinstance(answer, dict) and set(answer) == {"error"}:
            raise TelemetryError(f"{command}: {answer['error']}")
        if answer is not None and not isinstance(answer, list if command == "/" else dict):   # "/" lists commands
            raise TelemetryError(f"the program at {self.path} answers {command} with what is no object")
        return answer

    def queues(self, port):
        """All queues of a port, over as many pages as it takes."""
        all_queues, first = {}, 0
        while first is not None:
            page = dict(self.ask(f"/kilim/queues,{port},{first}") or {})
            after = page.pop("next_queue", None)
            if after is not None and not (isinstance(after, int) and first < after < MOST_QUEUES):
                raise TelemetryError(f"the program at {self.path} lists the queues of {port} without an end")
            first = after
            all_queues |= page
        return all_queues
