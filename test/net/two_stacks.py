# SPDX-License-Identifier: BSD-3-Clause
"""Two of the kernel's network stacks, in namespaces of their own, and a namespace between them with an
interface to either, where a program under test forwards."""

import os
import subprocess
import sys

SERVER = """
import hashlib, socket
s = socket.create_server(("198.18.0.2", 8000))
print("listens", flush=True)
c, _ = s.accept()
h, n = hashlib.sha256(), 0
while data := c.recv(1 << 20):
    h.update(data)
    n += len(data)
print(n, h.hexdigest())
"""
CLIENT = """
import hashlib, os, socket, sys
c = socket.create_connection(("198.18.0.2", 8000), 30)
h, n = hashlib.sha256(), 0
for _ in range(int(sys.argv[1])):
    data = os.urandom(1 << 20)
    h.update(data)
    c.sendall(data)
    n += len(data)
print(n, h.hexdigest())
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


class TwoStacks:
    """`middle` is the namespace between them, `interfaces` lead to them. PermissionError: no right to
    make namespaces."""

    def __init__(self, prefix):
        self.middle, self.homes = f"{prefix}m", (f"{prefix}a", f"{prefix}b")
        self.interfaces = ("to0", "to1")
        if subprocess.run(["ip", "netns", "add", self.middle], check=False, capture_output=True).returncode != 0:
            raise PermissionError("namespaces of the network take the right to make them")
        try:
            for n, home in enumerate(self.homes):
                ip("netns", "add", home)
                ip("-n", home, "link", "add", "eth", "type", "veth", "peer", "name", f"to{n}", "netns", self.middle)
                ip("-n", self.middle, "link", "set", f"to{n}", "up")
                ip("-n", home, "addr", "add", f"198.18.0.{n + 1}/24", "dev", "eth")
                ip("-n", home, "link", "set", "eth", "up")
        except BaseException:
            self.end()
            raise

    @staticmethod
    def inside(name):
        """What is put before a program's words to run it in a namespace."""
        return ["ip", "netns", "exec", name]

    def exchange(self, megabytes, patience):
        """A connection of TCP carries so much: its SHA-256. AssertionError: other bytes arrived."""
        server = subprocess.Popen([*self.inside(self.homes[1]), sys.executable, "-c", SERVER],
                                  stdout=subprocess.PIPE, text=True)
        try:
            assert server.stdout.readline() == "listens\n"
            client = subprocess.run([*self.inside(self.homes[0]), sys.executable, "-c", CLIENT, str(megabytes)],
                                    check=True, capture_output=True, text=True, timeout=patience)
            got, _ = server.communicate(timeout=patience)
        finally:
            server.kill()
            server.wait()
        sent, got = client.stdout.split(), got.split()
        assert sent == got and int(sent[0]) == megabytes << 20, (sent, got)
        return sent[1]

    def end(self):
        for name in (self.middle, *self.homes):
            if os.path.exists(f"/run/netns/{name}"):
                subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
