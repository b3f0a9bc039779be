#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's DPDK programs as the tests of run_ethdev.py start them: in a folder of their own, with the
plugin by -d, and dpdk-testpmd at its prompt."""

import os
import re
import struct
import subprocess
import sys
import time

import dpkt

from prompt_session import Session

LONG = os.environ.get("KILIM_CHECK") == "long"
SECONDS = 3000 if LONG else 60
PACKETS = 10_000_000 if LONG else 100_000
RESTARTS = 100 if LONG else 5
NO_HUGE = ["--no-huge", "--no-shconf", "-m", "192"]
WITH_ITS_TEST = ["setpriv", "--pdeathsig", "KILL"]  # a test that is killed leaves no program behind that polls


class Testpmd(Session):
    """dpdk-testpmd at its prompt."""

    def __init__(self, bench, vdevs, *own, eal=None, lcores="0-1", inside=()):
        words = [*WITH_ITS_TEST, *inside, "stdbuf", "-o0", "dpdk-testpmd", *(eal or NO_HUGE), *bench.eal(), "-l", lcores]
        for v in vdevs:
            words += ["--vdev", v]
        words += ["--", "-i", "--total-num-mbufs=8192", "--rxd=256", "--txd=256", *own]
        super().__init__(words, bench.folder, SECONDS)
        self.begin = self.read()

    def say_among(self, line, pattern, count):
        """As say() where lcores print too, also amid a prompt: waits until they have printed the pattern so often."""
        self.write(line)
        self.seen(pattern, count)
        self.write("set verbose 0")
        self.seen("Change verbose level from .*\n")
        return self.read()

    def stats(self, port):
        """Of the driver: standard ones by ethdev's names, the others by the driver's."""
        text = self.say(f"show port xstats {port}")
        return {k: int(v) for k, v in re.findall(r"^(\w+): (\d+)$", text, re.M)}

    def wait(self, port, name, least):
        while (now := self.stats(port)[name]) < least:
            assert time.monotonic() < self.end, f"{name} of port {port} is {now}, not {least}"
            time.sleep(0.02)
        return now

    def quit(self):
        self.write("quit")
        rest = self.rest()
        assert self.process.returncode == 0 and "Bye..." in rest, (self.process.returncode, rest)


class Bench:
    def __init__(self, plugin, root, folder):
        self.plugin = plugin
        self.root = root
        self.folder = folder
        self.prefix = f"kilim{os.getpid()}"
        self.running = []
        self.processes = []  # others, which end with the test
        sys.path.insert(0, os.path.join(root, "usertools"))
        sys.dont_write_bytecode = True
        import pcap_file
        self.pcap = pcap_file

    def eal(self):
        return ["--no-pci", "--file-prefix", self.prefix, "-d", self.plugin]

    def path(self, name):
        return os.path.join(self.folder, name)

    def cabled(self, more=""):
        return [f"net_kilim{n},wire=cable:{self.prefix}{more}" for n in (0, 1)]

    def testpmd(self, *args, **kwargs):
        t = Testpmd(self, *args, **kwargs)
        self.running.append(t)
        return t

    def run(self, *words, check=True, seconds=SECONDS, **kwargs):
        done = subprocess.run(words, cwd=self.folder, text=True, capture_output=True, timeout=seconds, **kwargs)
        assert not check or done.returncode == 0, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout + done.stderr


def udp(sport=1000, dport=2000, size=40, vlan=None, good=True):
    payload = bytes(n % 251 for n in range(size))
    u = dpkt.udp.UDP(sport=sport, dport=dport, ulen=8 + size, data=payload)
    ip = dpkt.ip.IP(src=b"\xc6\x12\0\1", dst=b"\xc6\x12\0\2", p=17, data=u)
    ip.len = len(ip)
    frame = bytes(dpkt.ethernet.Ethernet(dst=b"\2\0\0\0\0\2", src=b"\2\0\0\0\0\1", data=ip))
    if not good:
        frame = frame[:-1] + bytes([frame[-1] ^ 1])
    return frame if vlan is None else frame[:12] + struct.pack(">HH", 0x8100, vlan) + frame[12:]


def write(path, frames):
    with open(path, "wb") as f:
        writer = dpkt.pcap.Writer(f, snaplen=65535)
        for n, frame in enumerate(frames):
            writer.writepkt(frame, n / 1e6)


def write_often(path, frames, times):
    """A capture of these frames again and again."""
    write(path, frames)
    with open(path, "rb") as f:
        head, again = f.read(24), f.read()
    with open(path, "wb") as f:
        f.write(head)
        for _ in range(times):
            f.write(again)
