# SPDX-License-Identifier: BSD-3-Clause
"""What rules of a port on `af_packet:IFACE+exclusive` take, the interface's kernel does not see: Debian's dpdk-testpmd
with its mlx5 driver, and the kernel of the same interface. Usage: exclusive_test.py KILIM_VHCA.

testpmd's 5tswap sends each packet back to where it came from. To TCP that is a peer: a SYN that comes back opens the
connection from both sides (RFC 9293, figure 8), and data that comes back is an echo."""

import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))

import pair
import processes
from pmd_bench import Bench
from two_stacks import TwoStacks, ip

ADDRESS, PORT = "198.18.0.9", 5000
ECHO = f"""
import os, socket
c = socket.create_connection(("{ADDRESS}", {PORT}), 10)
sent, got = os.urandom(200000), b""
for at in range(0, len(sent), 20000):
    c.sendall(sent[at:at + 20000])
    while len(got) < at + 20000:
        got += c.recv(1 << 16) or exit("it was closed")
print("echoed" if got == sent else "other bytes")
"""
TAKES_THE_PORT = f"flow create 0 ingress pattern eth / ipv4 / tcp dst is {PORT} / end actions queue index 0 / end"
TAKES_ALL = "flow create 0 ingress pattern eth / end actions queue index 0 / end"


class Exclusive(Bench):
    def setUp(self):
        super().setUp()
        try:
            self.stacks = TwoStacks("kilimx%d" % os.getpid())
        except PermissionError as why:
            self.skipTest(str(why))
        self.addCleanup(self.stacks.end)
        ip("-n", self.stacks.middle, "addr", "add", ADDRESS + "/24", "dev", "to0")

    def port(self, path, word="+exclusive"):
        """A port that receives what rules of its own say, and nothing else."""
        session = self.session(path, ["af_packet:to0" + word], ["--flow-isolate-all"],
                               inside=self.stacks.inside(self.stacks.middle))
        session.commands("set fwd 5tswap", "start")
        return session

    def afar(self, *words):
        return subprocess.run([*self.stacks.inside(self.stacks.homes[0]), *words], check=False, capture_output=True,
                              text=True, timeout=60)

    def pings(self):
        return self.afar("ping", "-c", "1", "-W", "1", ADDRESS).returncode == 0

    def connects(self):
        """What a client of TCP says at the end."""
        done = self.afar(sys.executable, "-c", ECHO)
        return (done.stdout + done.stderr).strip().rpartition("\n")[2]

    def kill(self, session):
        """The program that has the device; nothing is cleaned up. Its launcher ends as it did."""
        os.kill(processes.family(session.process.pid)[1], signal.SIGKILL)
        session.process.wait(60)

    def test_two_stacks(self):
        """TCP in a program and the kernel's ping share an interface, by rules of verbs and by match buffers; without
        the word the kernel resets the connection, and behind a program that was killed it does again"""
        plain = self.port("D", "")
        self.assertIn("created", plain.command(TAKES_THE_PORT))
        self.assertRegex(self.connects(), "refused|reset")
        plain.end()
        for path in ("A", "D"):
            with self.subTest(path=path):
                session = self.port(path)
                self.assertRegex(self.connects(), "refused")
                self.assertIn("created", session.command(TAKES_THE_PORT))
                self.assertEqual(self.connects(), "echoed")
                self.assertTrue(self.pings())
                session.command("flow flush 0")
                self.assertRegex(self.connects(), "refused")
                session.command(TAKES_THE_PORT)
                self.assertEqual(self.connects(), "echoed")
                self.kill(session)
                self.assertTrue(self.pings())
                self.assertRegex(self.connects(), "refused")

    def test_everything(self):
        """a rule that takes all leaves the kernel nothing, until the program is killed"""
        session = self.port("D")
        self.assertTrue(self.pings())
        self.assertIn("created", session.command(TAKES_ALL))
        session.commands("stop", "set fwd rxonly", "start")   # an echo request that comes back is answered from afar
        self.assertFalse(self.pings())
        self.kill(session)
        self.assertTrue(self.pings())

    def test_what_cannot_be_said(self):
        """a rule that no filter of the kernel can say is told, and works; so is a right that is missing"""
        session = self.port("D")
        said = session.command("flow create 0 ingress pattern eth / ipv4 / udp / vxlan vni is 5 / end "
                               "actions queue index 0 / end")
        self.assertIn("created", said)
        self.assertIn("cannot be said to the interface's kernel", session.text())
        self.assertEqual(session.end(), 0)
        done = subprocess.run(
            [*self.stacks.inside(self.stacks.middle), "setpriv", "--inh-caps=-net_admin", "--bounding-set=-net_admin",
             pair.LAUNCHER, "--wire", "af_packet:to0+exclusive", "--", "ibv_devinfo"],
            check=False, capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("exclusive: needs CAP_NET_ADMIN", done.stderr)


if __name__ == "__main__":
    pair.main()
