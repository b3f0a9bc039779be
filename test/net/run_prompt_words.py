#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Words of kilim-testpmd's prompt that change packets: each is seen in the frames that come or leave.

Usage: run_prompt_words.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import dataclasses
import os
import random
import re
import struct
import sys
import time

import dpkt
from dpkt.dpkt import in_cksum

sys.dont_write_bytecode = True
from prompt_bench import (SECONDS, Seen, Until, ether, forwarded, ipv4, main, moved, pair, say, words, write)  # noqa: E402
from prompt_session import Session  # noqa: E402
from run_testpmd import vdev  # noqa: E402


class Rounds:
    """Lines of a session in which ports on a cable send each other a burst, again and again, and what came."""

    def __init__(self, b):
        self.b, self.script, self.count = b, ["set fwd rxonly"], 0

    def go(self, *lines, until=moved(rx=(32, 32), tx=(32, 32))):
        """Says the lines, then lets a burst of each port go, with captures; the round's number."""
        files = [f"r{self.count}p{port}" for port in (0, 1)]
        self.script += [*lines, *(f"capture start {n} {f}" for n, f in enumerate(files)), "start tx_first", until, "stop",
                        "capture stop all"]
        self.count += 1
        return self.count - 1

    def run(self, *own):
        return say(self.b, self.b.program, pair("w"), [*self.script, "quit"], *own)

    def came(self, number, port):
        """What the port received in that round: all of its capture that it did not send."""
        with open(self.b.path(f"r{number}p{port}"), "rb") as f:
            text = f.read()
        return [data for flags, data in packets(text) if flags & 3 == 1]

    def went(self, number):
        """How many packets each port sent in that round."""
        counts = []
        for port in (0, 1):
            with open(self.b.path(f"r{number}p{port}"), "rb") as f:
                counts.append(sum(flags & 3 == 2 for flags, _ in packets(f.read())))
        return counts


def packets(text):
    """(flags, bytes) of each enhanced packet block of a pcapng file (pcapng, epb_flags)."""
    at = 0
    while at < len(text):
        kind, length = struct.unpack_from("<II", text, at)
        if kind == 6:
            size, = struct.unpack_from("<I", text, at + 20)
            options = at + 28 + (size + 3 & ~3)
            flags = 0
            while options < at + length - 4:
                code, n = struct.unpack_from("<HH", text, options)
                if code == 2:
                    flags, = struct.unpack_from("<I", text, options + 4)
                if code == 0:
                    break
                options += 4 + (n + 3 & ~3)
            yield flags, text[at + 28:at + 28 + size]
        at += length


def vlan_of(frame):
    return struct.unpack_from(">H", frame, 14)[0] & 0xFFF if frame[12:14] == b"\x81\0" else None


def receives(b):
    """tx_vlan, rx_vlan, vlan set, eth-peer, promisc, allmulti, mac_addr: what comes is what was asked for."""
    r = Rounds(b)
    tagged = r.go("set eth-peer 0 ff:ff:ff:ff:ff:ff", "set eth-peer 1 ff:ff:ff:ff:ff:ff", "vlan set filter on 0",
                  "vlan set filter on 1", "port stop all", "tx_vlan set 0 5", "tx_vlan set 1 6", "port start all")
    first_deaf, second_deaf = moved(rx=(0, 32), tx=(32, 32)), moved(rx=(32, 0), tx=(32, 32))
    one = r.go("rx_vlan add 5 1", "rx_vlan add 5 0", until=first_deaf)
    both = r.go("rx_vlan add 6 0", "rx_vlan rm 7 0")
    none = r.go("rx_vlan rm 6 0", until=first_deaf)
    off = r.go("vlan set filter off 0", "vlan set filter off 1")
    stripped = r.go("vlan set strip on 1", "port stop all", "vlan set strip on 1", "port start all")
    plain = r.go("port stop all", "vlan set strip off 1", "tx_vlan reset 0", "tx_vlan reset 1", "port start all")
    peer = r.go("set eth-peer 0 02:00:00:00:00:77", "set promisc all on")
    deaf = r.go("set promisc 1 off", until=second_deaf)
    known = r.go("mac_addr add 1 02:00:00:00:00:77")
    group = r.go("mac_addr remove 1 02:00:00:00:00:77", "set eth-peer 0 01:00:5e:00:00:07", until=second_deaf)
    groups = r.go("set allmulti 1 on")
    out = r.run()
    assert "Please stop port 1 first" in out and "port 0 has no VLAN 7" in out, out
    tags = {n: [[vlan_of(f) for f in r.came(n, port)] for port in (0, 1)] for n in range(r.count)}
    assert tags[tagged] == [[6] * 32, [5] * 32], tags[tagged]
    assert tags[one] == [[], [5] * 32], tags[one]
    assert tags[both] == [[6] * 32, [5] * 32] and tags[none] == [[], [5] * 32], (tags[both], tags[none])
    assert tags[off] == [[6] * 32, [5] * 32], tags[off]
    assert tags[stripped] == [[6] * 32, [None] * 32], tags[stripped]
    assert {len(f) for f in r.came(stripped, 1)} == {64} and {len(f) for f in r.came(off, 1)} == {68}
    assert tags[plain] == [[None] * 32] * 2, tags[plain]
    assert {f[:6] for f in r.came(peer, 1)} == {b"\2\0\0\0\0\x77"}, r.came(peer, 1)[:1]
    assert len(r.came(deaf, 1)) == 0 and len(r.came(known, 1)) == 32, (len(r.came(deaf, 1)), len(r.came(known, 1)))
    assert len(r.came(group, 1)) == 0 and len(r.came(groups, 1)) == 32, (len(r.came(group, 1)), len(r.came(groups, 1)))


def sends(b):
    """set txpkts, burst, portmask, nbport, verbose, port config, queues and spreading: seen in frames and numbers."""
    r = Rounds(b)
    long = r.go("set txpkts 64,128,8", "set burst 16", until=moved(rx=(16, 16)))
    short = r.go("set txpkts 60", "port config all burst 8", until=moved(rx=(8, 8)))
    alone = r.go("set portmask 2", "set port-topology loop", until=moved(tx=(8,)))
    first = r.go("set portmask 3", "set nbport 1", until=moved(tx=(8,)))
    r.script += ["set portmask 3", "set port-topology paired", "port stop all", "port config all rxq 2",
                 "port config all txq 2", "port config all max-pkt-len 1000", "port start all"]
    both = r.go("set txpkts 64", "set verbose 1", "show port 1 rss reta", until=Seen(" - type=0x0800 - length=64 - nb_segs=1", 32))
    r.script.append("set verbose 0")
    spread = r.go("port config 1 rss reta " + ",".join(f"({n},0)" for n in range(64)), until=moved(rx=(16, 16)))
    r.script += ["show port xstats 1", "port config all rss none", "show port 1 rss reta", "port config all rss all",
                 "show port 1 rss reta", "port config 1 rss reta (9999,0)", "show config rxtx"]
    out = r.run("--txonly-multi-flow")
    assert [{len(f) for f in r.came(n, 1)} for n in (long, short)] == [{200}, {60}], [[len(f) for f in r.came(n,p)] for n in (long,short) for p in (0,1)]
    assert [len(r.came(n, 1)) for n in (long, short)] == [16, 8], "burst"
    assert r.went(alone) == [0, 8] and r.went(first) == [8, 0], (r.went(alone), r.went(first))
    shown = re.findall(r"port 1/queue (\d): received (\d+) packets", out)
    assert sum(int(n) for _, n in shown) == 16 and {q for q, _ in shown} == {"0", "1"}, (shown, out)
    assert out.count(" - type=0x0800 - length=64 - nb_segs=1") == 32, out
    assert len(r.came(both, 1)) == 16 == len(r.came(spread, 1)), "two queues of 8"
    assert "hash index=1, queue=1" in out and "Invalid RETA hash index=9999" in out, out
    assert "RX queue number: 2" in out, out


def checksum_ok(frame):
    ip = frame[14:34]
    whole = frame[14:14 + struct.unpack_from(">H", frame, 16)[0]]
    pseudo = ip[12:20] + bytes([0, ip[9]]) + struct.pack(">H", len(whole) - 20)
    return in_cksum(ip) == 0, in_cksum(pseudo + whole[20:]) == 0


def offloads(b):
    """csum set by lcore and by device, tso: the frames that leave are right, and who wrote them is seen."""
    rng = random.Random(5)
    wrong = []
    for size in (26, 100, 1000):
        udp = dpkt.udp.UDP(sport=5, dport=6, data=rng.randbytes(size))
        udp.ulen, udp.sum = len(udp), 0x1234
        raw = bytearray(bytes(ipv4(17, udp)))
        raw[10] ^= 0x55
        wrong.append(ether(0x800, bytes(raw)))
        raw = bytearray(bytes(ipv4(6, dpkt.tcp.TCP(sport=7, dport=8, data=rng.randbytes(size)))))
        raw[10] ^= 0x55
        raw[36] ^= 0x55
        wrong.append(ether(0x800, bytes(raw)))
    write(b.path("in.pcap"), wrong)
    script = ["set fwd csum", "set port-topology loop"]
    for n, kind in ((1, "sw"), (2, "hw"), (3, "tso")):
        script.append(f"port attach net_kilim{n},hca=vhca{n},wire=pcap:in.pcap:{kind}.pcap")
    script.append("port stop all")
    script += [f"csum set {what} hw {n}" for what in ("ip", "udp", "tcp") for n in (2, 3)]
    script += ["port attach net_kilim4,hca=vhca4,wire=pcap:in.pcap:mixed.pcap", "csum set tcp hw 4", "csum show 4",
               "capture start 4 mixed.cap"]
    script += ["csum set udp hw 2", "csum set udp sw 1", "csum show 1", "csum show 2", "tso set 63 3", "tso set 200 3",
               "tso show 3", "tso show 2", "capture start 1 sw.cap", "capture start 2 hw.cap", "port start all",
               "csum set ip sw 2", "tso set 0 3", "start", moved(total=4 * len(wrong)), "stop", "capture stop all", "quit"]
    out = say(b, b.program, ["net_kilim9,hca=vhca9"], script)
    shown = re.findall(r"IP checksum offload is (\w+)\nUDP checksum offload is (\w+)\nTCP checksum offload is (\w+)", out)
    assert shown[-2:] == [("sw", "sw", "sw"), ("hw", "hw", "hw")] and ("sw", "sw", "hw") in shown, shown
    assert "TSO segment size for non-tunneled packets is 200" in out and "64 to 9000" in out, out
    assert "TSO for non-tunneled packets is disabled" in out and out.count("Please stop port") == 2, out
    left = {kind: list(b.pcap.frames(b.path(f"{kind}.pcap"))) for kind in ("sw", "hw", "tso", "mixed")}
    assert len(left["sw"]) == len(wrong), len(left["sw"])
    assert [checksum_ok(f) for f in left["sw"]] == [(True, True)] * len(wrong), [f.hex() for f in left["sw"]]
    for kind in ("hw", "mixed"):
        assert [f[12:] for f in left[kind]] == [f[12:] for f in left["sw"]], "device and lcore write the same"
    # A capture shows packets as the program gives them: the device has not written yet.
    seen = {kind: [d for flags, d in packets(open(b.path(f"{kind}.cap"), "rb").read()) if flags & 3 == 2]
            for kind in ("sw", "hw", "mixed")}
    assert [checksum_ok(f) for f in seen["sw"]] == [(True, True)] * len(wrong)
    assert [checksum_ok(f) for f in seen["mixed"]] == [(True, f[23] == 17) for f in wrong], "TCP alone by the device"
    assert not any(ok for f in seen["hw"] for ok in checksum_ok(f)), "the lcore wrote"
    tcp = [f for f in left["tso"] if f[23] == 6]
    assert all(checksum_ok(f) == (True, True) for f in left["tso"]), "segments"
    sizes = [len(f) - 54 for f in tcp]
    assert sizes == [26, 100, 200, 200, 200, 200, 200], sizes
    assert b"".join(f[54:] for f in tcp[2:]) == wrong[5][54:], "the payload"


@dataclasses.dataclass
class Shown:
    """A pause until lcores have shown packets (`set verbose 1`) with so many bytes of TCP's data."""
    data: int

    def wait(self, session):
        while sum(int(n) - 54 for n in re.findall(r" length=(\d+) ", session.text)) < self.data:
            session.more(f"{self.data} bytes not shown")


def joins(b):
    """--enable-lro: packets of joined segments are shown as such, counted, and leave as they came, with checksums by
    lcore or device, or as csum's `tso set` says."""
    b.segments("in.pcap", 20, 1000)
    script = ["set fwd csum", "set port-topology loop"]
    script += [f"port attach net_kilim{n},hca=vhca{n},wire=pcap:in.pcap:{kind}.pcap" for n, kind in ((1, "tso"), (2, "hw"))]
    script += ["show port info 1", "port stop all", "tso set 300 1", "csum set tcp hw 2", "csum set ip hw 2",
               "port config all max-lro-pkt-size 255", "port config all max-lro-pkt-size 9000", "port start all",
               "set verbose 1", "start", Shown(40000), "stop", "port config all max-lro-pkt-size 2000", "show port xstats 1",
               "show port xstats 2", "quit"]
    out = say(b, b.program, ["net_kilim9,hca=vhca9"], script, "--enable-lro")
    for said in ("Maximum configurable size of LRO aggregated packet: 65280", "max-lro-pkt-size is 256 to 65280",
                 "RTE_MBUF_F_RX_LRO", "Please stop all ports first"):
        assert said in out, (said, out)
    lengths = [int(n) for n in re.findall(r" length=(\d+) ", out)]
    assert sum(n - 54 for n in lengths) == 40000 and 2048 < max(lengths) <= 9000, lengths
    counts = {name: [int(n) for n in re.findall(rf"^{name}: (\d+)$", out, re.M)]
              for name in ("rx_good_packets", "rx_joined", "rx_q0_joined")}
    assert sum(counts["rx_good_packets"]) == len(lengths), (counts, lengths)
    assert counts["rx_joined"] == counts["rx_q0_joined"] == [20 - n for n in counts["rx_good_packets"]], counts
    sent, cut, whole = ([f[12:] for f in b.pcap.frames(b.path(f"{kind}.pcap"))] for kind in ("in", "tso", "hw"))
    assert whole == sent, (len(whole), [len(f) for f in whole])
    assert max(len(f) for f in cut) == 342 and all(checksum_ok(bytes(12) + f) == (True, True) for f in cut), cut
    assert b"".join(f[42:] for f in cut) == b"".join(f[42:] for f in sent)


def explains(b):
    """explain last has the last error's reason, words and bytes, and the last refusal; lint on and off under traffic."""
    write(b.path("in.pcap"), [ether(0x88B5, bytes(3000))] * 7 + [ether(0x88B5, bytes(100))])
    traffic = []

    def goes_on(answer):
        """Since it was asked first ports 1 and 2 have received 64 packets more."""
        traffic.append(forwarded(answer)[-1][1])
        return traffic[-1] >= traffic[0] + 64
    out = say(b, b.program, [vdev(0, "pcap:in.pcap:out.pcap"), *(v.replace("kilim", "kilim1").replace("vhca", "vhca1")
                                                                  for v in pair("e"))],
              ["explain last", "start", Until("explain last", lambda answer: "receives 7, " in answer), "explain last", "stop",
               "lint on", "start tx_first", moved(total=65), "lint off", "lint on", Until("show fwd stats all", goes_on), "stop", "flow create 0 pattern eth / end actions queue index 9 / end",
               "explain last", "port attach net_nothing0", "explain last", "quit"], "--port-topology=loop")
    parts = out.split("testpmd> explain last")
    assert "no completion with an error was seen" in parts[1] and "the last refusal" not in parts[1], parts[1]
    for text in ("receives 7, of them 7 frames longer than a buffer", "receive at WQE 6 of queue 0x",
                 "failed with IBV_WC_LOC_LEN_ERR: the message is longer", "(syndrome 0x1, of the vendor 0x",
                 "the work request: "):
        assert text in parts[2], (text, parts[2])
    # Length, key and address of the buffer, as they stand in the receive ring.
    assert re.search(r"\n    000: 00000[0-9a-f]{3} [0-9a-f]{8} [0-9a-f]{8} [0-9a-f]{8}\n", parts[2]), parts[2]
    assert out.count("(vhca0): lint is on") == 2 and out.count("(vhca10): lint is off") == 1, out
    rows = forwarded(out)
    assert rows[-1][1] > 64 and rows[-1][3] == 0 and "lint:" not in out, rows
    assert ("the last refusal: `flow create 0 pattern eth / end actions queue index 9 / end`: action configuration, "
            "action.queue: the port has no such receive queue (Invalid argument)") in parts[3], parts[3]
    assert "the last refusal: `port attach net_nothing0`: EAL: " in parts[4], parts[4]


def recordings(b):
    """A capture waits for forwarding: queues that come and go before have not eaten its frames."""
    b.make("in.pcap", 41)
    for own, lines in ((["--no-flush-rx"], []), ([], ["port stop 0", "port config all rxq 4", "port config all txq 4", "port start 0"]),
                       ([], ["port stop 0", "port start 0", "port stop 0", "port config all rxd 256", "port start 0"]),
                       (["--disable-device-start"], ["start", "csum set ip hw 0", "set fwd csum", "port start 0"])):
        s = Session(words(b.program, [vdev(0, "pcap:in.pcap:out.pcap")], "--port-topology=loop", *own), b.folder, SECONDS)
        try:
            s.read()
            for line in [*lines, "start"]:
                time.sleep(0.2)  # time enough for a device to fill its queues
                s.say(line)
            while len(list(b.pcap.frames(b.path("out.pcap")))) < 41:
                s.say("show port stats 0")
                time.sleep(0.05)
            s.say("stop")
            s.write("quit")
            out = s.log + s.rest()
        finally:
            s.kill()
        sent, got = (sorted(f[14:34] for f in b.pcap.frames(b.path(name))) for name in ("in.pcap", "out.pcap"))
        assert len(sent) == 41 and got == sent, (own, lines, len(got))
        assert ("Not all ports were started" in out) == ("--disable-device-start" in own), out
        stats = out[out.rindex("final statistics"):] if "final statistics" in out else out
        assert "RX-discarded 41" not in stats, stats
    done = b.run([vdev(0, "pcap:in.pcap")], "--disable-device-start")
    assert done.returncode == 1 and "--disable-device-start needs -i" in done.stderr, done


if __name__ == "__main__":
    main((recordings, receives, sends, offloads, joins, explains), *sys.argv[1:])
