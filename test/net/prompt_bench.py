# SPDX-License-Identifier: BSD-3-Clause
"""What tests of kilim-testpmd's prompt share: a session of lines, cabled ports, frames, captures. No test."""

import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import dpkt

sys.dont_write_bytecode = True
from run_testpmd import Bench, vdev  # noqa: E402

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--log-level", "error", "-m", "192"]
SECONDS = 60
DEBIAN = shutil.which("dpdk-testpmd")


def lcores():
    cpus = sorted(os.sched_getaffinity(0))
    return ["--lcores", f"0@{cpus[0]},1@{cpus[-1]}"]


def words(program, vdevs, *own):
    line = [program, *EAL, *lcores()]
    for v in vdevs:
        line += ["--vdev", v]
    return [*line, "--", "-i", "--total-num-mbufs=16384", *own]


def say(b, program, vdevs, script, *own, wait=0.0, errors=subprocess.STDOUT):
    """What the program prints for the lines of a script; None is a pause of `wait` seconds."""
    with subprocess.Popen(words(program, vdevs, *own), cwd=b.folder, text=True, bufsize=1,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=errors) as p:
        for line in script:
            if line is None:
                time.sleep(wait)
            else:
                p.stdin.write(line + "\n")
        try:
            out, _ = p.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            p.kill()
            raise
    assert p.returncode == 0, (p.returncode, out)
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
