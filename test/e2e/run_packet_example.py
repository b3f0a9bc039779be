#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An example around kilim/app, from one file of frames to another; dpkt says what has to come out.

Usage: run_packet_example.py FOLDER EXAMPLE     FOLDER: where the examples are built"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import dpkt

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "--log-level", "error", "-m", "256"]
MAC = b"\x02\0\0\0\0\x77"
SECONDS = 60


def udp(to, ttl=64, dport=4661, size=100, options=b""):
    payload = bytes(i & 0xff for i in range(size))
    inner = dpkt.udp.UDP(sport=4660, dport=dport, ulen=8 + size, data=payload)
    ip = dpkt.ip.IP(src=socket.inet_aton("198.18.0.1"), dst=socket.inet_aton(to), ttl=ttl, p=17, data=inner, opts=options)
    ip.hl += len(options) // 4
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(dst=b"\x02\0\0\0\0\2", src=b"\x02\0\0\0\0\1", data=ip))


def broken(frame, at):
    """One bit of it is wrong, and no checksum knows."""
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1:]


def tagged(frame):
    return frame[:12] + b"\x81\0\0\5" + frame[12:]


def arp():
    return bytes(dpkt.ethernet.Ethernet(dst=b"\xff" * 6, src=b"\x02\0\0\0\0\1", type=0x806,
                                        data=dpkt.arp.ARP())).ljust(60, b"\0")


def forward():
    frames = [udp("198.18.0.2", size=s) for s in range(18, 1400, 7)] + [arp(), tagged(udp("1.2.3.4"))]
    return [], [(f, f) for f in frames]


def routed(frame, mac):
    """One hop further, every checksum computed anew. The router's own address is learnt from what came out."""
    e = dpkt.ethernet.Ethernet(frame)
    e.dst = mac
    e.data.ttl -= 1
    e.data.sum = 0
    return bytes(e)


def router():
    second = b"\x02\0\0\0\0\x78"
    words = ["198.18.0.0/15:0:" + MAC.hex(":"), "198.18.7.0/24:0:" + second.hex(":"), "203.0.113.9/32:0:" + MAC.hex(":")]
    pairs = [(udp(f"198.18.{i % 7}.{i}", ttl=2 + i, size=50 + i), MAC) for i in range(200)]
    pairs += [(udp("198.18.7.1"), second), (udp("203.0.113.9"), MAC), (udp("198.19.255.255"), MAC)]
    pairs += [(udp("198.18.0.2", options=b"\x01\x01\x01\0"), MAC)]
    pairs = [(frame, routed(frame, mac)) for frame, mac in pairs]
    gone = [udp("198.18.0.2", ttl=1), udp("203.0.113.8"), broken(udp("198.18.0.2"), 16), arp(), tagged(udp("198.18.0.2"))]
    return words, pairs + [(frame, None) for frame in gone]


def answered(frame):
    e = dpkt.ethernet.Ethernet(frame)
    e.src, e.dst = e.dst, e.src
    e.data.src, e.data.dst = e.data.dst, e.data.src
    e.data.ttl, e.data.sum = 64, 0
    u = e.data.data
    u.sport, u.dport, u.sum = u.dport, u.sport, 0
    return bytes(e)


def echo():
    frames = [udp("198.18.0.2", ttl=9, dport=4661, size=s) for s in range(18, 1400, 13)]
    gone = [udp("198.18.0.2", dport=4662), broken(udp("198.18.0.2"), 60), broken(udp("198.18.0.2"), 20), arp()]
    return ["4661"], [(f, answered(f)) for f in frames] + [(f, None) for f in gone]


def write(path, frames):
    with open(path, "wb") as f:
        writer = dpkt.pcap.Writer(f, snaplen=65535)
        for frame in frames:
            writer.writepkt(frame, 0)


def read(path):
    with open(path, "rb") as f:
        return [data for _, data in dpkt.pcap.Reader(f)]


def run(program, folder, words, count, arrived):
    """What the program says of itself, having been stopped when all that has to come out is there."""
    vdev = "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap"
    process = subprocess.Popen([program, *EAL, "-l", "0", "--vdev", vdev, "--", *words], cwd=folder,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    end = time.monotonic() + SECONDS
    out = os.path.join(folder, "out.pcap")
    while process.poll() is None and time.monotonic() < end:
        if os.path.exists(out) and os.path.getsize(out) >= arrived:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    assert f"received {count}," in said, said
    return said


def check(program, case, folder):
    words, pairs = case()
    write(os.path.join(folder, "in.pcap"), [sent for sent, _ in pairs])
    expected = [got for _, got in pairs if got is not None]
    said = run(program, folder, words, len(pairs), 24 + sum(16 + len(f) for f in expected))
    got = read(os.path.join(folder, "out.pcap"))
    assert len(got) == len(expected), f"{len(got)} of {len(expected)} frames came out\n{said}"
    for number, (frame, want) in enumerate(zip(got, expected)):
        if case is router:   # its own address, which differs from device to device, is local
            assert frame[6] & 3 == 2 and frame[6:12] == got[0][6:12], f"frame {number}: source {frame[6:12].hex(':')}"
            want = want[:6] + frame[6:12] + want[12:]
        assert frame == want, f"frame {number}: {frame.hex()}\n   wanted: {want.hex()}"
    dropped = len(pairs) - len(expected)
    assert f"sent {len(expected)}, dropped {dropped}, transmit full 0, missed 0" in said, said
    print(f"{len(expected)} frames came out as they should, {dropped} did not")


def refuses(program, words, sentence):
    done = subprocess.run([program, *EAL, "-l", "0", "--vdev", "net_kilim0,hca=vhca0", "--", *words], capture_output=True,
                          text=True, timeout=SECONDS, check=False)
    assert done.returncode == 1 and sentence in done.stderr, (done.returncode, done.stderr)


CASES = {"01_forward": (forward, (["word"], "unknown word behind --: word")),
         "11_router": (router, (["198.18.0.0/15:1:02:00:00:00:00:77"], "a route is PREFIX/LENGTH:PORT:MAC")),
         "13_udp_echo": (echo, (["65536"], "one word, a UDP port from 1 to 65535"))}


def main(folder, name):
    program = os.path.abspath(os.path.join(folder, name))
    case, (words, sentence) = CASES[name]
    with tempfile.TemporaryDirectory() as scratch:
        check(program, case, scratch)
    refuses(program, words, sentence)


if __name__ == "__main__":
    main(*sys.argv[1:])
