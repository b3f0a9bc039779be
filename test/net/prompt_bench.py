# SPDX-License-Identifier: BSD-3-Clause
"""What tests of kilim-testpmd's prompt share: a session of lines, cabled ports, frames, captures. No test."""

import dataclasses
import itertools
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import typing

import dpkt

sys.dont_write_bytecode = True
from prompt_session import PROMPT, Session  # noqa: E402
from run_testpmd import Bench, vdev  # noqa: E402

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--log-level", "error", "-m", "192"]
SECONDS = 60
DEBIAN = shutil.which("dpdk-testpmd")
NUMBERS = itertools.count()


def lcores():
    cpus = sorted(os.sched_getaffinity(0))
    return ["--lcores", f"0@{cpus[0]},1@{cpus[-1]}"]


def words(program, vdevs, *own):
    line = [program, *EAL, *lcores()]
    for v in vdevs:
        line += ["--vdev", v]
    return [*line, "--", "-i", "--total-num-mbufs=16384", *own]


@dataclasses.dataclass
class Until:
    """A pause of a script: its line is said until the answer is `enough`. What is said so is left out of the session."""
    line: str
    enough: typing.Callable[[str], bool]

    def wait(self, session):
        while not self.enough(answer := self.ask(session)):
            in_time = time.monotonic() < session.end - 1   # else it is the next answer that is missed
            assert in_time, f"{self.line}, not enough: {answer}\n{session.log}"
            time.sleep(0.01)

    def ask(self, session):
        """Its lines carry a number, so that no other's echo is taken for theirs."""
        line = f"{self.line} # {next(NUMBERS)}"
        session.write(line)
        while not (answer := session.read()).startswith(line + "\n"):
            pass
        session.log = session.log[:-len(answer + PROMPT)]
        return answer


@dataclasses.dataclass
class Seen:
    """A pause of a script, where lcores print: until they have printed the pattern so often since the last pause."""
    pattern: str
    count: int = 1

    def wait(self, session):
        session.seen(self.pattern, self.count)


def forwarded(out):
    """(port or all, RX-packets, TX-packets, TX-dropped) of all forward statistics, in their order."""
    rows = re.findall(r"(?:Forward statistics for port (\d+)|Accumulated).*\n\s+RX-packets: (\d+) .*\n"
                      r"(?:.*-?csum.*\n)*\s+TX-packets: (\d+) +TX-dropped: (\d+)", out)
    return [(port or "all", int(rx), int(tx), int(dropped)) for port, rx, tx, dropped in rows]


def moved(rx=(), tx=(), total=0):
    """A pause until the forwarding ports have received and sent so many packets each, and have received so many."""
    def enough(answer):
        *ports, everything = forwarded(answer)
        ways = [([row[way] for row in ports], least) for way, least in ((1, rx), (2, tx)) if least]
        assert all(len(counts) == len(least) for counts, least in ways), (rx, tx, answer)
        return everything[1] >= total and all(n >= m for counts, least in ways for n, m in zip(counts, least))
    return Until("show fwd stats all", enough)


def say(b, program, vdevs, script, *own, errors=subprocess.STDOUT):
    """What the program prints for the lines of a script, which has pauses too."""
    session = Session(["stdbuf", "-oL", *words(program, vdevs, *own)], b.folder, SECONDS, errors)
    try:
        for line in script:
            if isinstance(line, str):
                session.write(line)
            else:
                line.wait(session)
        out = session.log + session.rest()
    finally:
        session.kill()
    assert session.process.returncode == 0, (session.process.returncode, out)
    return out


def pair(number):
    cable = f"cable:prompt{os.getpid()}"
    return [vdev(0, cable + number), vdev(1, cable + number)]


def ether(kind, payload, dst=b"\2\0\0\0\0\1", tag=b""):
    return dst + b"\2\0\0\0\0\2" + tag + struct.pack(">H", kind) + payload


def ipv4(proto, payload, dst="10.0.0.2"):
    p = dpkt.ip.IP(src=bytes([10, 0, 0, 1]), dst=bytes(int(n) for n in dst.split(".")), p=proto,
                   data=payload)
    p.len = len(p)
    return p


def frames():
    """Frames with wrong and right checksums, tags, groups, requests, and pieces of headers."""
    rng = random.Random(7)

    def wrong(packet):
        raw = bytearray(bytes(packet))
        raw[10] ^= 0x55
        return bytes(raw)

    out = []
    for size in (18, 19, 100, 1200):
        udp = dpkt.udp.UDP(sport=5, dport=6, data=rng.randbytes(size))
        udp.ulen = len(udp)
        udp.sum = 0x1234
        tcp = dpkt.tcp.TCP(sport=7, dport=8, data=rng.randbytes(size))
        out.append(ether(0x800, wrong(ipv4(17, udp))))
        out.append(ether(0x800, bytes(ipv4(6, tcp)), tag=struct.pack(">HH", 0x8100, 5)))
        six = dpkt.ip6.IP6(src=rng.randbytes(16), dst=rng.randbytes(16), nxt=17, hlim=64, data=udp)
        six.plen = len(udp)
        raw = bytearray(bytes(six))
        raw[46:48] = b"\x43\x21"  # of UDP
        out.append(ether(0x86DD, bytes(raw)))
    for dst in ("10.0.0.9", "224.0.0.1"):
        echo = dpkt.icmp.ICMP(type=8, data=dpkt.icmp.ICMP.Echo(id=1, seq=2, data=rng.randbytes(40)))
        out.append(ether(0x800, bytes(ipv4(1, echo, dst))))
    arp = dpkt.arp.ARP(op=1, sha=b"\2\0\0\0\0\2", spa=bytes([10, 0, 0, 1]), tpa=bytes([10, 0, 0, 9]))
    out.append(ether(0x806, bytes(arp) + bytes(18), dst=b"\xff" * 6))
    no_sum = dpkt.udp.UDP(sport=9, dport=9, data=bytes(30))
    raw = bytearray(bytes(ipv4(17, no_sum)))
    raw[26:28] = b"\0\0"
    out.append(ether(0x800, bytes(raw)))
    out.append(ether(0x88CC, rng.randbytes(60)))
    return out * 5


def write(path, list_of_frames):
    with open(path, "wb") as f:
        writer = dpkt.pcap.Writer(f, snaplen=65535)
        for number, frame in enumerate(list_of_frames):
            writer.writepkt(frame, number / 1000000)


def main(cases, program, root, launch, name):
    """Runs a case of those in a folder of its own."""
    by_name = {f.__name__: f for f in cases}
    with tempfile.TemporaryDirectory(prefix="kilim-prompt-") as folder:
        bench = Bench(os.path.abspath(program), os.path.abspath(root), folder)
        bench.launch = launch
        by_name[name](bench)
    print(f"{name}: {by_name[name].__doc__}")
