# SPDX-License-Identifier: BSD-3-Clause
"""Two processes that connect through rdma_cm: on a folder of their own, or in a network namespace
each with a cable of the kernel's between them."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import pair
import processes

NAMESPACE_IPS = "10.11.0.1", "10.11.0.2"
SERVER, CLIENT = "127.0.0.1", "127.0.0.2"   # programs have a TCP connection beside it, by the same


def preloaded(library, words):
    """The words with a library in front of the program, behind the launcher's own."""
    return ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{library}" exec "$@"', "sh", *words.split()]


class CmPair:
    """A server and a client of librdmacm, on a folder of their own."""

    def __init__(self, server, client, ready=None, port=None, client_part=""):
        self.folder = tempfile.mkdtemp(prefix="kilim-cm")
        self.outputs = []
        self.port = port
        self.parts = "", client_part   # of the wires' specs
        self.server = self.run(0, server)
        self.wait_until(ready)
        self.client = self.run(1, client)

    def launcher(self, which):
        wire = f"unix:{self.folder}/w+ip:{(SERVER, CLIENT)[which]}/8+ip:fd07::{which + 1}/64"
        wire += self.parts[which]
        return [pair.LAUNCHER, "--wire", wire, "--"]

    def run(self, which, words):
        self.outputs.append(tempfile.TemporaryFile("w+"))
        words = words.split() if isinstance(words, str) else words
        return subprocess.Popen([*self.launcher(which), *words], stdin=subprocess.DEVNULL,
                                stdout=self.outputs[-1], stderr=subprocess.STDOUT,
                                cwd=self.folder)

    def text(self, which):
        self.outputs[which].seek(0)
        return self.outputs[which].read()

    def wait_until(self, ready):
        """Until the server listens on its TCP port, or says that it is about to; most do neither, and
        have opened rdma_cm by then. Between these words and rdma_listen() lies nothing to wait for."""
        end = time.monotonic() + pair.PATIENCE
        while self.server.poll() is None and time.monotonic() < end:
            if self.port is not None and self.port.listened():
                return
            if ready is not None and ready in self.text(0):
                time.sleep(0.2)
                return
            if self.port is None and ready is None and self.listens():
                time.sleep(0.5)
                return
            time.sleep(0.02)

    def listens(self):
        folder = f"{self.folder}/w"
        return os.path.exists(folder) and any(n.startswith("slot-") for n in os.listdir(folder))

    def end(self, server_stays=False):
        """Both exit codes and both texts."""
        try:
            client = self.client.wait(pair.PATIENCE)
            if server_stays or client != 0:
                self.server.terminate()   # the launcher hands it on: no server is left behind
            server = self.server.wait(pair.PATIENCE)
        except subprocess.TimeoutExpired:
            client = server = None    # the texts say more
        finally:
            for process in (self.client, self.server):
                if process.poll() is None:
                    processes.kill_family(process.pid)   # no program of a killed launcher spins on
                    process.wait()
            if self.port is not None:
                self.port.socket.close()
        text = self.text(0) + "\n-- client:\n" + self.text(1)
        for file in self.outputs:
            file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        return client, 0 if server_stays else server, text


class Namespaces:
    """Two network namespaces, one end of a cable of the kernel's (veth(4)) in each."""

    def __init__(self):
        self.holders = [subprocess.Popen(["unshare", "--net", "sleep", "600"],
                                         stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                        for _ in range(2)]
        ours = os.readlink("/proc/self/ns/net")
        end = time.monotonic() + pair.PATIENCE
        while any(h.poll() is None and os.readlink(f"/proc/{h.pid}/ns/net") == ours
                  for h in self.holders) and time.monotonic() < end:
            time.sleep(0.01)
        if any(h.poll() is not None for h in self.holders):
            raise unittest.SkipTest("no network namespace can be made here")
        made = subprocess.run("ip link add cm0 netns {} type veth peer name cm1 netns {}".format(
            *(h.pid for h in self.holders)).split(), stderr=subprocess.PIPE, text=True)
        if "Unknown device type" in made.stderr or "not supported" in made.stderr:
            self.end()
            raise unittest.SkipTest("this kernel has no veth: " + made.stderr.strip())
        made.check_returncode()
        for which, address in enumerate(NAMESPACE_IPS):
            for words in (f"addr add {address}/24 dev cm{which}", f"link set cm{which} up",
                          "link set lo up"):
                self.call("ip " + words, which)

    def enter(self, which):
        return ["nsenter", f"--net=/proc/{self.holders[which].pid}/ns/net"]

    def call(self, words, which=None):
        subprocess.run([*([] if which is None else self.enter(which)), *words.split()], check=True)

    def listened(self, port):
        """Whether somebody waits for TCP there in the server's."""
        lines = []
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{self.holders[0].pid}/net/{table}", encoding="ascii") as file:
                lines += file.readlines()
        return any(line.split()[1].endswith(f":{port:04X}") for line in lines)

    def has_socket(self, which):
        """Whether somebody is on the interface by af_packet."""
        with open(f"/proc/{self.holders[which].pid}/net/packet", encoding="ascii") as lines:
            return len(lines.readlines()) > 1

    def end(self):
        for holder in self.holders:
            holder.kill()
            holder.wait()


class NamespacePort:
    """A TCP port of the server's namespace, where nobody else is."""

    def __init__(self, namespaces, number):
        self.namespaces, self.number, self.socket = namespaces, number, socket.socket()

    def listened(self):
        return self.namespaces.listened(self.number)


class NamespacePair(CmPair):
    """Server and client in a namespace each: the interfaces' own addresses, found by ARP."""

    def __init__(self, namespaces, server, client, ready=None, port=None, client_part=""):
        self.namespaces = namespaces
        super().__init__(server, client, ready, port and NamespacePort(namespaces, port),
                         client_part)

    def launcher(self, which):
        wire = f"af_packet:cm{which}{self.parts[which]}"
        return [*self.namespaces.enter(which), pair.LAUNCHER, "--wire", wire,
                "--mac", f"02:00:00:00:00:0{which + 1}", "--"]

    def listens(self):
        return self.namespaces.has_socket(0)
