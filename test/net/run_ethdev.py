#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Debian's own DPDK programs on Kilim ports: dpdk-testpmd, dpdk-proc-info, dpdk-pdump, dpdk-dumpcap,
dpdk-telemetry.py and DPDK's examples, none of them changed, with librte_net_kilim.so by -d.

Usage: run_ethdev.py PLUGIN SOURCE_ROOT CASE     CASE is a function below
       KILIM_CHECK=long: more packets, restarts and examples"""

import ctypes
import os
import re
import shutil
import sys
import tempfile
import time

import dpkt

from dpdk_bench import LONG, PACKETS, RESTARTS, Bench, udp, write
from dpdk_programs import examples, processes, tcp
from dpdk_words import counted, first_day, flows, power


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


def failing(b):
    """Send requests fail now and then: their queues are brought back, and no more is missing than is counted."""
    t = b.testpmd(b.cabled(",txq_mpw_en=0,fault=wqe@500+3000"), "--burst=32")
    t.say("set fwd txonly")
    t.say("start")
    for port in (0, 1):
        t.wait(port, "tx_good_packets", 20000)
    assert "Done" in t.say("stop")
    for port in (0, 1):
        for _ in range(4):
            t.say(f"port cleanup {port} txq 0 0")
    t.say("port stop all")
    for near, far in ((0, 1), (1, 0)):
        sent, got = t.stats(near), t.stats(far)
        arrived = got["rx_good_packets"] + got["rx_missed_errors"] + got["rx_q0_discarded"]
        missing = sent["tx_good_packets"] - arrived
        assert sent["tx_q0_recoveries"] == sent["tx_q0_failures"] >= 6, sent
        # Packets under way are counted: some of them have left before the one that fails.
        assert sent["tx_q0_failures"] <= missing <= sent["tx_errors"], (sent, got)
    t.quit()


TURNING = ("io", "mac", "macswap", "csum", "5tswap")  # send on what they receive, from `start tx_first` on
MAKING = ("txonly", "flowgen")


def modes(b):
    """Each mode of testpmd that needs no peer of its own kind: every frame accounted for, ports stopped and started."""
    t = b.testpmd(b.cabled(), "--burst=64")
    for mode in (*TURNING, *MAKING, "rxonly", "icmpecho"):
        t.say("clear port xstats all")
        assert f"Set {mode} packet forwarding mode" in t.say(f"set fwd {mode}")
        for turn in range(RESTARTS):
            t.say("start" if mode in MAKING else "start tx_first 32" if mode in TURNING else "start tx_first")
            if mode in TURNING or mode in MAKING:
                side, name = (0, "tx_good_packets") if mode == "txonly" else (1, "rx_good_packets")
                t.wait(side, name, PACKETS * (turn + 1) // RESTARTS)
            else:
                t.wait(1, "rx_good_packets", 64 * (turn + 1))
            halt(t)
            assert "Done" in t.say("port start all")
        if LONG:
            print(f"{mode}: {t.stats(1)['rx_good_packets']} frames received, {RESTARTS} restarts", flush=True)
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
    for first in range(0, 128, 8):  # a word of testpmd has 128 characters
        t.say("port config 1 rss reta (" + "),(".join(f"{i},2" for i in range(first, first + 8)) + ")")
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


def offloads(b):
    """Checksums seen and written, tags taken off and put in, jumbo frames over several mbufs, rules."""
    good, bad = udp(), udp(good=False)
    write(b.path("in.pcap"), [good, bad, udp(vlan=7), udp(dport=5000)])
    own = ["--enable-rx-cksum", "--enable-hw-vlan-strip", "--forward-mode=rxonly", "--rxq=2", "--txq=2",
           "--disable-rss", "--no-flush-rx"]
    t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:out.pcap"], "--portmask=1", *own)
    made = t.say("flow create 0 ingress pattern eth / ipv4 / udp dst is 5000 / end "
                 "actions queue index 1 / mark id 77 / count / end")
    assert "Flow rule #0 created" in made, made
    for words, why in (("pattern eth / ipv4 packet_id is 3 / end actions drop / end", "no rule of this port has"),
                       ("pattern eth / end actions drop / queue index 0 / end", "one of queue, rss and drop"),
                       ("pattern eth / end actions queue index 9 / end", "queue"),
                       ("pattern geneve / end actions drop / end", "items are")):
        text = t.say(f"flow create 0 ingress {words}")
        assert "Caught" in text and why in text, text
    t.say("set verbose 1")
    t.say_among("start", "ol_flags: .*\n", 4)
    t.say("stop")
    assert "hits: 1" in t.say("flow query 0 0 count"), t.log
    t.say("flow flush 0")
    flags = re.findall(r"ol_flags: ([^\n]*)", t.log)
    assert len(flags) == 4, t.log
    for flag, count in (("RX_L4_CKSUM_GOOD", 3), ("RX_IP_CKSUM_GOOD", 4), ("RX_VLAN_STRIPPED", 1), ("RX_FDIR_ID", 1)):
        assert sum(f"RTE_MBUF_F_{flag} " in f + " " for f in flags) == count, (flag, flags)
    assert "matched ID=0x4d" in t.log and "VLAN tci=0x7" in t.log, t.log
    assert re.search(r"port 0/queue 1: received 1 packets", t.log), t.log
    t.quit()


def joins(b):
    """TCP segments of a stream arrive as one packet (LRO); a device that does not join refuses it by name."""
    data = bytes(n * 7 % 251 for n in range(6000))
    write(b.path("in.pcap"), [segment(data[at:at + 1000], seq=at, last=at == 5000) for at in range(0, 6000, 1000)])
    own = ["--portmask=1", "--no-flush-rx", "--forward-mode=rxonly", "--enable-lro", "--max-lro-pkt-size=9000"]
    vdev = ["net_kilim0,wire=pcap:in.pcap,lro_timeout_usec=1024"]
    t = b.testpmd(vdev, *own, "--rx-offloads=0x201e")
    assert "TCP_LRO" in t.say("show port 0 rx_offload capabilities"), t.log
    assert "TCP_LRO" in t.say("show port 0 rx_offload configuration"), t.log
    assert "Maximum configurable size of LRO aggregated packet: 65280" in t.say("show port info 0"), t.log
    t.say("set verbose 1")
    t.say_among("start", r"RTE_MBUF_F_RX_LRO", 1)
    t.say("stop")
    lengths = [int(n) for n in re.findall(r" length=(\d+)", t.log)]
    assert sum(n - 54 for n in lengths) == 6000 and len(lengths) < 6, lengths
    assert t.log.count("RTE_MBUF_F_RX_L4_CKSUM_GOOD") == len(lengths), t.log
    now = t.stats(0)
    assert now["rx_good_packets"] == len(lengths) and now["rx_joined"] == 6 - len(lengths), now
    t.quit()
    t = b.testpmd(vdev, *own[:-1], "--max-lro-pkt-size=65281", "--disable-device-start")
    assert "max_lro_pkt_size 65281 > max allowed value 65280" in t.begin + t.say("port start 0"), t.log
    t.quit()


def segment(payload, seq, last):
    """Of one TCP stream; the last one pushes."""
    t = dpkt.tcp.TCP(sport=1000, dport=80, seq=seq, ack=9, flags=0x18 if last else 0x10, win=500, data=payload)
    ip = dpkt.ip.IP(src=b"\xc6\x12\0\1", dst=b"\xc6\x12\0\2", p=6, data=t)
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(dst=b"\2\0\0\0\0\2", src=b"\2\0\0\0\0\1", data=ip))


def checked(frame):
    """The frame's IPv4 packet with its checksums computed anew."""
    ip = dpkt.ip.IP(frame[18 if frame[12:14] == b"\x81\0" else 14:])
    ip.sum = ip.data.sum = 0
    return bytes(ip)


def sends(b):
    """Checksums and tags that the device writes; segments of TSO; frames of several mbufs both ways."""
    frames = [udp(size=n, good=n % 2 == 0) for n in (18, 100, 1400)]
    write(b.path("in.pcap"), frames)
    t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:out.pcap"], "--portmask=1", "--no-flush-rx", "--disable-device-start")
    for what in ("ip", "udp"):
        t.say(f"csum set {what} hw 0")
    t.say("port start 0")
    t.say("set fwd csum")
    t.say("start")
    time.sleep(0.3)
    assert t.stats(0)["tx_good_packets"] == 3, t.log
    t.say("stop")
    t.quit()
    out = list(b.pcap.frames(b.path("out.pcap")))
    assert len(out) == 3, out
    for sent, got in zip(frames, out):
        assert got[14:] == checked(got) and got[42:] == sent[42:], (sent, got)
    write(b.path("in.pcap"), frames)
    t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:tags.pcap"], "--portmask=1", "--no-flush-rx", "--disable-device-start")
    t.say("tx_vlan set 0 9")
    t.say("port start 0")
    t.say("set fwd macswap")
    t.say("start")
    t.wait(0, "tx_good_packets", 3)
    t.quit()
    for sent, got in zip(frames, b.pcap.frames(b.path("tags.pcap")), strict=True):
        assert got == sent[6:12] + sent[:6] + b"\x81\0\0\x09" + sent[12:], (sent, got)
    big = [udp(size=n) for n in (30, 2000, 2500, 5000, 8900)]
    write(b.path("in.pcap"), big)
    t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:big.pcap"], "--portmask=1", "--no-flush-rx", "--max-pkt-len=9018",
                  "--rx-offloads=0x2000", "--tx-offloads=0x8000", "--forward-mode=io", "--auto-start")
    t.wait(0, "tx_good_packets", len(big))
    assert "RX scattered packets: on" in t.say("show rxq info 0 0"), t.log
    t.quit()
    assert list(b.pcap.frames(b.path("big.pcap"))) == big


def settings(b):
    """What is asked of a port at run time: addresses, promiscuous modes, VLANs, MTU; a port goes and comes."""
    mine, other, group = b"\2\0\0\0\0\x21", b"\2\0\0\0\0\x22", b"\1\0\x5e\0\0\5"
    frames = [dst + udp()[6:] for dst in (mine, other, group)] + [mine + udp(vlan=v)[6:] for v in (5, 6)]
    write(b.path("in.pcap"), frames)
    wants = {"": 0,
             "mac_addr set 0 02:00:00:00:00:21": 3,
             "mac_addr add 0 02:00:00:00:00:22": 1,
             "set allmulti 0 on": 1,
             "set promisc 0 on": 5,
             "mcast_addr add 0 01:00:5E:00:00:05": 1}
    for words, count in wants.items():
        t = b.testpmd(["net_kilim0,wire=pcap:in.pcap"], "--portmask=1", "--no-flush-rx", "--forward-mode=rxonly")
        t.say("set promisc 0 off")
        if words:
            said = t.say(words)
            assert "ail" not in said and "rror" not in said, said
        t.say("start")
        for _ in range(20):
            time.sleep(0.01)
            now = t.stats(0)["rx_good_packets"]
        assert now == count, (words, now, t.log)
        t.say("stop")
        t.quit()


def detach(b):
    """A port is closed, detached and another one attached, while its neighbour goes on."""
    write(b.path("in.pcap"), [udp()] * 10)
    t = b.testpmd(b.cabled(), "--forward-mode=5tswap", "--no-flush-rx")
    t.say("start tx_first")
    t.wait(1, "rx_good_packets", 100)
    t.say("stop")
    for turn in range(RESTARTS):
        t.say("port stop 0")
        assert "Port 0 is closed" in t.say("port close 0"), t.log
        assert "Device net_kilim0 is detached" in t.say("device detach net_kilim0"), t.log
        said = t.say(f"port attach net_kilim0,hca=vhca{10 + turn},wire=pcap:in.pcap")
        assert "Port 0 is attached" in said, said
        t.say("port start 0")
        t.say("start")
        t.wait(0, "rx_good_packets", 10)
        t.say("stop")
    t.quit()


CASES = [modes, counted, failing, tcp, queues, flows, offloads, joins, sends, settings, first_day, detach, processes, examples, power]


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
            for p in bench.processes:
                p.kill()
            ctypes.CDLL(None).umount2(bench.path("huge").encode(), 2)  # MNT_DETACH, where it was mounted


if __name__ == "__main__":
    main()
