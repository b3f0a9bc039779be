#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's own DPDK programs on Kilim ports: dpdk-testpmd, dpdk-proc-info, dpdk-pdump, dpdk-dumpcap,
dpdk-telemetry.py and DPDK's examples, none of them changed, with librte_net_kilim.so by -d.

Usage: run_ethdev.py PLUGIN SOURCE_ROOT CASE     CASE is a function below
       KILIM_CHECK=long: more packets, restarts and examples"""

import ctypes
import glob
import json
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import dpkt

LONG = os.environ.get("KILIM_CHECK") == "long"
PACKETS = 10_000_000 if LONG else 100_000
RESTARTS = 100 if LONG else 5
SECONDS = 600 if LONG else 60
NO_HUGE = ["--no-huge", "--no-shconf", "-m", "192"]
EXAMPLES = "/usr/share/dpdk/examples"
PROMPT = "testpmd> "


class Testpmd:
    """dpdk-testpmd at its prompt."""

    def __init__(self, bench, vdevs, *own, eal=None, lcores="0-1"):
        words = ["stdbuf", "-o0", "dpdk-testpmd", *(eal or NO_HUGE), *bench.eal(), "-l", lcores]
        for v in vdevs:
            words += ["--vdev", v]
        words += ["--", "-i", "--total-num-mbufs=8192", "--rxd=256", "--txd=256", *own]
        self.end = time.monotonic() + SECONDS
        self.text = ""
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, cwd=bench.folder)
        self.begin = self.read()

    def read(self):
        """What comes up to the next prompt."""
        while PROMPT not in self.text:
            left = self.end - time.monotonic()
            assert left > 0, f"no prompt of dpdk-testpmd: {self.text[-2000:]}"
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            if not ready:
                continue
            more = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace")
            assert more, f"dpdk-testpmd ended: {self.text[-3000:]}"
            self.text += more
        got, self.text = self.text.split(PROMPT, 1)
        return got

    def say(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
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
        self.process.stdin.write(b"quit\n")
        self.process.stdin.close()
        rest = self.process.stdout.read().decode(errors="replace")
        code = self.process.wait(timeout=SECONDS)
        assert code == 0 and "Bye..." in rest, (code, rest)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Bench:
    def __init__(self, plugin, root, folder):
        self.plugin = plugin
        self.folder = folder
        self.prefix = f"kilim{os.getpid()}"
        self.running = []
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


def account(t):
    """Every frame that one stopped port sent was received by the other, or it says what became of it."""
    for near, far in ((0, 1), (1, 0)):
        sent, got = t.stats(near), t.stats(far)
        lost = sum(v for k, v in got.items() if re.fullmatch(r"rx_q\d+_(discarded|errors)", k))
        arrived = got["rx_good_packets"] + got["rx_missed_errors"] + lost
        assert sent["tx_good_packets"] == arrived, (near, sent, got)
        assert sent["tx_errors"] == 0, sent


def halt(t, queues=1):
    """Stops forwarding and the ports, when everything sent has left."""
    assert "Done" in t.say("stop")
    for port in (0, 1):
        for queue in range(queues):
            for _ in range(2):
                t.say(f"port cleanup {port} txq {queue} 0")
    t.say("port stop all")
    account(t)


def modes(b):
    """Each mode of testpmd that needs no peer of its own kind; frames accounted; stopped and started."""
    t = b.testpmd(b.cabled())
    for mode in ("io", "mac", "macswap", "csum", "txonly", "rxonly", "flowgen", "icmpecho", "5tswap"):
        turns = mode not in ("txonly", "rxonly", "flowgen", "icmpecho")
        t.say("clear port xstats all")
        assert f"Set {mode} packet forwarding mode" in t.say(f"set fwd {mode}")
        t.say("start tx_first" if turns or mode in ("rxonly", "icmpecho") else "start")
        if turns or mode == "flowgen":
            t.wait(0, "rx_good_packets", PACKETS // 10 if not LONG else PACKETS)
        elif mode == "txonly":
            t.wait(0, "tx_good_packets", PACKETS // 10 if not LONG else PACKETS)
        else:
            t.wait(1, "rx_good_packets", 32)
        halt(t)
        assert "Done" in t.say("port start all")
    t.quit()


def queues(b):
    """Four queues a port, spread by RSS; the table changed; stopped and started while frames wait."""
    t = b.testpmd(b.cabled(), "--rxq=4", "--txq=4", "--rss-udp", "--forward-mode=flowgen", "--flowgen-flows=512")
    assert "RSS functions:" in t.say("show port 0 rss-hash")
    for _ in range(RESTARTS):
        t.say("start")
        t.wait(1, "rx_good_packets", t.stats(1)["rx_good_packets"] + PACKETS // 50)
        halt(t, 4)
        t.say("port start all")
    each = [t.stats(1)[f"rx_q{q}_packets"] for q in range(4)]
    assert min(each) > sum(each) / 16, each
    t.say("port config 1 rss reta (" + "),(".join(f"{i},2" for i in range(64)) + ")")
    t.say("port config 1 rss reta (" + "),(".join(f"{i},2" for i in range(64, 128)) + ")")
    t.say("clear port xstats all")
    t.say("start")
    t.wait(1, "rx_q2_packets", 1000)
    t.say("stop")
    now = t.stats(1)
    assert now["rx_q2_packets"] == now["rx_good_packets"], now
    for what in ("rxq", "txq"):
        assert "Burst mode" in t.say(f"show {what} info 0 3"), what
    t.say("port 1 rxq 2 stop")
    before = t.stats(1)["rx_good_packets"]
    t.say("start")
    t.wait(0, "tx_good_packets", t.stats(0)["tx_good_packets"] + 1000)
    t.say("stop")
    assert t.stats(1)["rx_good_packets"] - before <= 64, "a stopped queue received"
    t.say("port 1 rxq 2 start")
    t.say("start")
    t.wait(1, "rx_good_packets", before + 1000)
    t.say("stop")
    t.quit()


def udp(sport=1000, dport=2000, size=40, vlan=None, good=True):
    payload = bytes(range(size))
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


def offloads(b):
    """Checksums seen and written, tags taken off and put in, jumbo frames over several mbufs, rules."""
    good, bad = udp(), udp(good=False)
    write(b.path("in.pcap"), [good, bad, udp(vlan=7), udp(dport=5000)])
    own = ["--enable-rx-cksum", "--enable-hw-vlan-strip", "--forward-mode=rxonly", "--rxq=2", "--txq=2"]
    t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:out.pcap"], "--portmask=1", *own, "--disable-rss", "--max-pkt-len=1522")
    made = t.say("flow create 0 ingress pattern eth / ipv4 / udp dst is 5000 / end actions queue index 1 / mark id 77 / count / end")
    assert "Flow rule #0 created" in made, made
    for words, why in (("pattern eth / ipv4 ttl is 3 / end actions drop / end", "no rule of this port has"),
                       ("pattern eth / end actions drop / queue index 0 / end", "one of queue, rss and drop"),
                       ("pattern eth / end actions queue index 9 / end", "queue"),
                       ("pattern geneve / end actions drop / end", "items are")):
        text = t.say(f"flow create 0 ingress {words}")
        assert "Caught" in text and why in text, text
    t.say("set verbose 1")
    t.say("start")
    t.wait(0, "rx_good_packets", 4)
    text = t.say("stop")
    time.sleep(0.1)
    text += t.say("flow query 0 0 count")
    assert "hits: 1" in text, text
    text += t.say("flow flush 0")
    seen = re.findall(r"port 0/queue (\d): received.*?\n(?:.*\n)*?.*?ol_flags: (.*)\n", text)
    packets = re.findall(r"- length=(\d+) - nb_segs=(\d+)(.*?)ol_flags: ([^\n]*)", text.replace("\n", " ").replace("  src=", "\n  src="))
    lines = [m[3] for m in packets]
    assert len(lines) == 4, text
    flags = sorted(lines)
    assert sum("RTE_MBUF_F_RX_L4_CKSUM_GOOD" in f for f in flags) == 3, flags
    assert sum("RTE_MBUF_F_RX_VLAN_STRIPPED" in f for f in flags) == 1, flags
    assert sum("RTE_MBUF_F_RX_FDIR_ID" in f for f in flags) == 1 and "matched ID=0x4d" in text, text
    t.quit()


CASES = [modes, queues, offloads]


def main():
    plugin, root, name = sys.argv[1:4]
    case = {c.__name__: c for c in CASES}[name]
    if shutil.which("dpdk-testpmd") is None:
        print("Debian's package dpdk is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="kilim-ethdev-") as folder:
        bench = Bench(os.path.abspath(plugin), root, folder)
        try:
            case(bench)
        finally:
            for t in bench.running:
                t.kill()


if __name__ == "__main__":
    main()
