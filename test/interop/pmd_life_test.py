# SPDX-License-Identifier: BSD-3-Clause
"""What happens to ports of DPDK's mlx5 driver on virtual devices: faults, links, restarts, other
stacks and processes, a sleeping lcore. Usage: pmd_life_test.py KILIM_VHCA RX_INTERRUPTS. By default
five restarts and 8 MiB; KILIM_CHECK=long: a hundred and 256 MiB."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "net"))

import pair
import testpmd as pmd
from pmd_bench import PATHS, RETRY, SEEDED, Bench
from two_stacks import TwoStacks

INTERRUPTS = os.path.abspath(sys.argv[2])


def end_all(program):
    """A launcher and what it runs, in a session of their own."""
    if program.poll() is None:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()


class Life(Bench):
    def test_removal(self):
        """a device that dies under traffic ends with its program, which says so"""
        session, neighbour = self.dgram("D", options=["--fault", "fatal@3"])
        session.commands(*RETRY, "start")
        frames = [pmd.udp(i, 200) for i in range(200)]
        self.assertLess(len(neighbour.exchange(frames, patience=1)), len(frames))
        session.commands("stop", "port stop 0")
        self.assertEqual(session.end(), 0)

    def test_recovery(self):
        """a send request that fails ends its queue, which the driver resets: each frame is forwarded
        or counted, and traffic goes on"""
        frames = [pmd.udp(i, 60 + i * 11 % 1000) for i in range(9400)]
        sent, got = self.folder + "/in.pcap", self.folder + "/out.pcap"
        pmd.write(sent, frames)
        # Of single frames the driver counts each that is lost, of others their WQEs.
        for path, alone in (("A", True), ("D", True), ("D", False)):
            with self.subTest(path=path, alone=alone):
                more = ",max_dump_files_num=0" + (",txq_mpw_en=0" if alone else "")
                faults = "wqe@500+3000" if alone else "wqe@50+50"
                session = self.session(path, ["pcap:%s:%s" % (sent, got)], ["--txd=256"], more,
                                       ["--fault", faults])
                session.commands(*RETRY, "start")
                session.until("TX-packets", len(frames))
                session.command("stop")
                errors = session.count("TX-errors")
                self.assertEqual(session.end(), 0)
                back = pmd.read(got)
                places = {frame: i for i, frame in enumerate(frames)}
                order = [places[frame] for frame in back]
                self.assertEqual(order, sorted(set(order)))
                gaps = sum(b - a > 1 for a, b in zip(order, order[1:]))
                lost = len(frames) - len(back)
                if alone:
                    self.assertEqual((gaps, lost), (3, errors))
                else:
                    self.assertTrue(2 <= gaps <= errors <= lost, (gaps, errors, lost))

    def test_stacks(self):
        """TCP of the kernel goes through two ports: the same bytes arrive"""
        try:
            stacks = TwoStacks("kilim%d" % os.getpid())
        except PermissionError as why:
            self.skipTest(str(why))
        self.addCleanup(stacks.end)
        megabytes = 256 if pair.LONG else 8
        for path in ("A", "D") if pair.LONG else ("D",):
            with self.subTest(path=path):
                wires = ["af_packet:" + name for name in stacks.interfaces]
                session = self.session(path, wires, inside=stacks.inside(stacks.middle))
                session.command("start")
                stacks.exchange(megabytes, 3000 if pair.LONG else 60)
                session.command("stop")
                self.assertGreater(session.count("RX-bytes"), megabytes << 20)
                # The interface that is the wire tells the port's statistics, not a veth's.
                told = re.search(r"rx_unicast_bytes: (\d+)", session.command("show port xstats 0"))
                self.assertGreater(int(told[1]), megabytes << 20)
                self.assertEqual(session.end(), 0)

    def test_interrupts(self):
        """a sleeping lcore is woken once by each frame, by none that is not there, and loses none"""
        singles, many = 40, 300
        for path in ("A", "D"):
            with self.subTest(path=path):
                neighbour = pmd.Neighbour(tempfile.mkdtemp(dir=self.folder))
                self.addCleanup(neighbour.socket.close)
                profile, devargs = PATHS[path]
                before, words = pmd.begin(pair.LAUNCHER, [neighbour.wire],
                                          [*SEEDED, "--profile", profile], devargs)
                program = subprocess.Popen(
                    [*before, INTERRUPTS, *words, "--", "2", str(singles + many)],
                    stdout=subprocess.PIPE, text=True, start_new_session=True)
                self.addCleanup(program.stdout.close)
                self.addCleanup(end_all, program)
                # One that nothing wakes ends so.
                watchdog = threading.Timer(60, end_all, (program,))
                watchdog.start()
                self.addCleanup(watchdog.cancel)
                while program.stdout.readline() != "sleeps\n":
                    self.assertIsNone(program.poll())
                time.sleep(0.2)    # whatever woke it now would be counted
                woken = []
                for i in range(singles):
                    neighbour.exchange([pmd.udp(i, 64, ports=(1024 + i * 7, 9))], 0)
                    woken.append(program.stdout.readline())
                    self.assertTrue(woken[-1], "nothing woke it")
                self.assertEqual({line.split("packets")[1] for line in woken}, {" 1\n"})
                self.assertEqual({line.split()[1] for line in woken}, {"0", "1"})
                neighbour.exchange([pmd.udp(i, 64) for i in range(many)], 0)
                rest = program.stdout.readlines()
                self.assertEqual(program.wait(60), 0)
                self.assertEqual(sum(int(line.split()[3]) for line in rest), many)
                self.assertLessEqual(len(rest), many)

    def test_link(self):
        """a link that goes down and up again is an event, and frames pass afterwards"""
        before = set(os.listdir("/sys/class/net"))
        session, neighbour = self.dgram("D")
        made = {name for name in set(os.listdir("/sys/class/net")) - before if name.startswith("kilim")}
        if not made:
            self.skipTest("only who has CAP_NET_ADMIN sees the port's interface")
        session.commands(*RETRY, "start")
        for state in ("down", "up"):
            subprocess.run(["ip", "link", "set", min(made), state], check=True)
            session.wait_for("link state change event")
            self.assertIn("Link status: " + state, session.command("show port info 0"))
        frames = [pmd.udp(i, 100) for i in range(20)]
        self.assertEqual(neighbour.exchange(frames), frames)

    def test_two_adapters(self):
        """two programs with an adapter each meet on a wire: the same bytes arrive, in order"""
        frames = [pmd.udp(i, 60 + i * 11 % 1459) for i in range(3000)]
        wire = "unix:" + tempfile.mkdtemp(dir=self.folder)
        sent, none, got = (self.folder + name for name in ("/in.pcap", "/none.pcap", "/out.pcap"))
        pmd.write(sent, frames)
        pmd.write(none, [])
        for path in ("A", "D"):
            with self.subTest(path=path):
                hears = self.session(path, [wire, f"pcap:{none}:{got}"], ["--rxd=4096"])
                sends = self.session(path, ["pcap:" + sent, wire])
                for session in (hears, sends):
                    session.commands(*RETRY, "start")
                hears.until("TX-packets", len(frames), port=1)
                self.assertEqual([session.end() for session in (sends, hears)], [0, 0])
                self.assertEqual(pmd.read(got), frames)

    def test_processes(self):
        """a second process forwards by queues of its own, and may end before the first"""
        memory = pmd.huge_memory(self.folder)
        if memory is None:
            self.skipTest("64 huge pages and the right to mount them are needed")
        self.addCleanup(pmd.unmount, memory[1])
        sessions = []
        for number in range(2):
            session = pmd.Session(
                pair.LAUNCHER, ["cable:pmd", "cable:pmd"], eal=[*memory, "--proc-type=auto"], mbufs=4096,
                words=["--rxq=2", "--txq=2", "--num-procs=2", "--proc-id=%d" % number])
            self.addCleanup(session.end)
            sessions.append(session)
        first, second = sessions
        first.command("start")
        second.command("start tx_first")
        first.until("RX-packets", 2000)
        second.until("RX-packets", first.count("RX-packets") + 2000)
        for session in (second, first):
            said = session.command("stop")
            for got in re.findall(r"RX-packets: (\d+)", said.split("Accumulated")[1]):
                self.assertGreater(int(got), 2000)
            self.assertEqual(session.end(), 0)

    def test_restarts(self):
        """a port that is stopped and started goes on, with the MTU that it was given"""
        session, neighbour = self.dgram("D")
        session.commands(*RETRY, "start")
        frames = [pmd.udp(i, 200) for i in range(50)]
        for i in range(100 if pair.LONG else 5):
            self.assertEqual(neighbour.exchange(frames), frames)
            session.commands("stop", "port stop 0", "port config mtu 0 %d" % (1400 + i),
                             "port start 0", "start")
        self.assertEqual(neighbour.exchange(frames), frames)
        self.assertIn("MTU: %d" % (1400 + i), session.command("show port info 0"))


if __name__ == "__main__":
    pair.main()
