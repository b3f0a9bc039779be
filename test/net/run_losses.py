#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each frame that was sent is received or in a counter: a receiver is stopped (SIGSTOP) while its neighbour
sends, and goes on (SIGCONT). Without hugepages; cases of interfaces skip without root.

Usage: run_losses.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
from prompt_bench import words  # noqa: E402
from prompt_session import Session  # noqa: E402
from run_testpmd import main, vdev  # noqa: E402

FRAMES = 40_000
BYTES = 1442
ALL_OF_IT = 220  # seconds, where the machine is busy


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Space:
    """A network namespace without IPv6, whose kernel would send frames of its own; None without root."""

    def __init__(self):
        self.name = f"kilim-losses-{os.getpid()}"

    def __enter__(self):
        if subprocess.run(["ip", "netns", "add", self.name], check=False, capture_output=True).returncode != 0 or \
                subprocess.run(self.inside("true"), check=False, capture_output=True).returncode != 0:
            print("skipped: no network namespace can be made here (root is needed)")
            sys.exit(77)
        subprocess.run(self.inside("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"), check=False)
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], check=False)

    def inside(self, *words):
        return ["ip", "netns", "exec", self.name, *words]


class Receiver:
    """kilim-testpmd in mode rxonly; what its last report said. JSON names the counters."""

    def __init__(self, b, wire, prefix=()):
        line = b.command([vdev(0, wire)], "--fwd=rxonly", "--stats-period=1", "--json=losses.json")
        self.stats = b.path("losses.json")
        self.process = subprocess.Popen([*prefix, *line], cwd=b.folder, text=True, stdout=subprocess.PIPE)
        self.counts, self.reports = {}, 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()
        self.wait(lambda: self.reports >= 1)

    def read(self):
        total, drops = False, None
        for line in self.process.stdout:
            total = total and not line.startswith("----") or line.startswith("all ports")
            if total and (m := re.match(r"  RX-packets +(\d+)", line)):
                counts = {"RX-packets": int(m.group(1))}
            elif total and line.startswith("  drops:"):
                drops = line
            elif drops is not None and line.startswith(" " * 16):   # a line of causes goes on in the next one
                drops += line
                continue
            if drops is not None and drops.rstrip()[-1] != ",":
                counts |= {k: int(v) for k, v in re.findall(r"([RT]X-[a-z-]+) (\d+)", drops)}
                self.counts, drops = counts, None
                self.reports += 1

    def wait(self, done):
        end = time.monotonic() + ALL_OF_IT
        while not done() and time.monotonic() < end and self.process.poll() is None:
            time.sleep(0.05)

    def accounted(self):
        c = self.counts
        return c["RX-packets"] + sum(c[f"RX-{n}"] for n in
                                     ("missed", "errors", "discarded", "damaged", "undersize", "oversize"))

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, sent):
        """Waits until all is accounted for, and gives the final counts."""
        self.wait(lambda: self.accounted() >= sent)
        self.signal(signal.SIGINT)
        self.process.wait(timeout=20)
        self.reader.join()
        assert self.process.returncode == 0, self.process.returncode
        assert self.accounted() == sent, (sent, self.counts)
        with open(self.stats, encoding="ascii") as f:
            total = json.load(f)["total"]
        assert total["rx_packets"] == self.counts["RX-packets"], total
        assert total["drops"]["rx_missed"] == self.counts["RX-missed"], total
        return self.counts


def send(b, wire, prefix, again):
    """A second program sends; after a while `again` is called, which lets the receiver go on. What it sent: its
    last frames are under way when it has made all of them."""
    line = words(b.program, [f"net_kilim0,hca=vhca0,wire={wire}"], f"--txpkts={BYTES}", f"--num-packets={FRAMES}",
                 "--fwd=txonly", "--eth-peer=0,02:4b:4c:00:00:01")
    session = Session([*prefix, *line], b.folder, ALL_OF_IT)
    try:
        session.read()
        session.say("start")
        time.sleep(3)
        again()
        counts = {}
        while counts.get("tx_completed", 0) < FRAMES or counts["tx_completed"] < counts["tx_good_packets"]:
            time.sleep(0.1)
            counts = {k: int(v) for k, v in re.findall(r"(\w+): (\d+)", session.say("show port xstats 0"))}
        session.write("quit")
        session.rest()
    finally:
        session.kill()
    return counts["tx_completed"] - counts["tx_phy_discard_packets"]


def stopped(b, to, by, prefix=()):
    """Between two programs; what the receiver counted."""
    receiver = Receiver(b, to, prefix)
    try:
        receiver.signal(signal.SIGSTOP)
        sent = send(b, by, prefix, lambda: receiver.signal(signal.SIGCONT))
        return receiver.end(sent)
    finally:
        receiver.signal(signal.SIGCONT)
        receiver.process.kill()


def af_packet(b):
    """The packet socket of the receiver runs over: the kernel counts, and so does everything above."""
    with Space() as space:
        ip("-n", space.name, "link", "add", "va", "type", "veth", "peer", "name", "vb")
        for end in ("va", "vb"):
            ip("-n", space.name, "link", "set", end, "up")
        counts = stopped(b, "af_packet:va", "af_packet:vb", space.inside())
        assert counts["RX-missed"] > 1000, counts


def udp(b):
    """The socket of the receiver runs over."""
    counts = stopped(b, "udp:127.0.0.1:47941:127.0.0.1:47942", "udp:127.0.0.1:47942:127.0.0.1:47941")
    assert counts["RX-missed"] > 1000, counts


def udp_leaving(b):
    """The sender's kernel has no room on the way out: frames that it drops are counted where they were sent."""
    with Space() as space:
        ip("-n", space.name, "link", "set", "lo", "up")
        slow = (["qdisc", "add", "dev", "lo", "root", "handle", "1:", "htb", "default", "1"],
                ["class", "add", "dev", "lo", "parent", "1:", "classid", "1:1", "htb", "rate", "40mbit"],
                ["qdisc", "add", "dev", "lo", "parent", "1:1", "pfifo", "limit", "1"])
        for line in slow:
            if subprocess.run(space.inside("tc", *line), check=False, capture_output=True).returncode != 0:
                print("skipped: this kernel has no queues of kinds htb and pfifo")
                sys.exit(77)
        receiver = Receiver(b, "udp:127.0.0.1:47943:127.0.0.1:47944", space.inside())
        try:
            sent = send(b, "udp:127.0.0.1:47944:127.0.0.1:47943", space.inside(), lambda: None)
            counts = receiver.end(sent)
            assert sent < FRAMES - 1000, f"of {FRAMES} frames {FRAMES - sent} were lost on the way out, too few to see"
            # How many pass depends on how fast they were sent: htb's burst passes at once, the rest at 40 Mbit/s.
            assert counts["RX-packets"] > 0, counts
        finally:
            receiver.process.kill()


def waits(b):
    """On wires that hold their sender back nothing is lost on the way."""
    for to, by in (("unix:u", "unix:u"), ("shm:s", "shm:s")):
        stopped(b, to, by)
    os.mkdir(b.path("d"), 0o700)
    stopped(b, "dgram:d/one:d/two", "dgram:d/two:d/one")


def tap(b):
    """The kernel's queue of a TAP runs over."""
    with Space() as space:
        receiver = Receiver(b, "tap:kl0", space.inside())
        try:
            receiver.signal(signal.SIGSTOP)
            sender = [sys.executable, "-c", SEND_RAW, "kl0", str(FRAMES), str(BYTES)]
            sent = int(subprocess.run(space.inside(*sender), check=True, text=True, capture_output=True).stdout)
            receiver.signal(signal.SIGCONT)
            counts = receiver.end(sent)
            assert sent == FRAMES and counts["RX-missed"] > 1000, (sent, counts)
        finally:
            receiver.signal(signal.SIGCONT)
            receiver.process.kill()


# PACKET_QDISC_BYPASS (20 of SOL_PACKET, 263): what finds the interface full is lost there, not held back.
SEND_RAW = """
import socket, sys
name, frames, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((name, 0))
s.setsockopt(263, 20, 1)
frame = bytes.fromhex("02000000000102000000000288b5").ljust(size, b"x")
sent = 0
for i in range(frames):
    try:
        s.send(frame)
    except OSError:
        pass
    sent += 1
print(sent)
"""


def too_short(b):
    """A neighbour that sends what is no frame: counted by cause."""
    os.mkdir(b.path("d"), 0o700)
    receiver = Receiver(b, "dgram:d/one:d/two")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            os.chdir(b.folder)
            s.bind("d/two")
            for size in (13, 5, 9023, 60):
                s.sendto(bytes(size), "d/one")
        counts = receiver.end(4)
        assert (counts["RX-undersize"], counts["RX-oversize"], counts["RX-packets"]) == (2, 1, 1), counts
    finally:
        receiver.process.kill()


if __name__ == "__main__":
    main(globals(), *sys.argv[1:5])
