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
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import dpkt

from dpdk_bench import LONG, NO_HUGE, SECONDS, Bench

PACKETS = 10_000_000 if LONG else 100_000
RESTARTS = 100 if LONG else 5
EXAMPLES = "/usr/share/dpdk/examples"


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


def tcp(b):
    """A connection between two namespaces goes through dpdk-testpmd on two ports; its bytes arrive as they were sent."""
    megabytes = 256 if LONG else 8
    mid, homes = f"{b.prefix}m", (f"{b.prefix}a", f"{b.prefix}b")
    if subprocess.run(["ip", "netns", "add", mid], check=False, capture_output=True).returncode != 0:
        print("namespaces of the network take the right to make them")
        sys.exit(77)
    try:
        for n, home in enumerate(homes):
            b.run("ip", "netns", "add", home)
            b.run("ip", "-n", home, "link", "add", "eth", "type", "veth", "peer", "name", f"to{n}", "netns", mid)
            b.run("ip", "-n", mid, "link", "set", f"to{n}", "up")
            b.run("ip", "-n", home, "addr", "add", f"198.18.0.{n + 1}/24", "dev", "eth")
            b.run("ip", "-n", home, "link", "set", "eth", "up")
        t = b.testpmd([f"net_kilim{n},wire=af_packet:to{n}" for n in (0, 1)], "--forward-mode=io", "--auto-start",
                      inside=["ip", "netns", "exec", mid])
        server = subprocess.Popen(["ip", "netns", "exec", homes[1], sys.executable, "-c", TCP_SERVER], stdout=subprocess.PIPE,
                                  text=True)
        b.processes.append(server)
        assert server.stdout.readline() == "listens\n"
        sent = b.run("ip", "netns", "exec", homes[0], sys.executable, "-c", TCP_CLIENT, str(megabytes)).split()
        got, _ = server.communicate(timeout=SECONDS)
        assert sent == got.split() and int(sent[0]) == megabytes << 20, (sent, got)
        now = t.stats(0)
        assert now["rx_good_bytes"] > megabytes << 20 and now["tx_good_packets"] > 0, now
        print(f"{megabytes} MiB, sha256 {sent[1]}, {now['rx_good_packets']} frames one way")
        t.quit()
    finally:
        for name in (mid, *homes):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


TCP_SERVER = """
import hashlib, socket
s = socket.create_server(("198.18.0.2", 8000))
print("listens", flush=True)
c, _ = s.accept()
h, n = hashlib.sha256(), 0
while data := c.recv(1 << 20):
    h.update(data)
    n += len(data)
print(n, h.hexdigest())
"""
TCP_CLIENT = """
import hashlib, os, socket, sys
c = socket.create_connection(("198.18.0.2", 8000), 30)
h, n = hashlib.sha256(), 0
for _ in range(int(sys.argv[1])):
    data = os.urandom(1 << 20)
    h.update(data)
    c.sendall(data)
    n += len(data)
print(n, h.hexdigest())
"""


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
    for words, why in (("pattern eth / ipv4 ttl is 3 / end actions drop / end", "no rule of this port has"),
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


def hugepages(b):
    """A folder of huge pages, which processes share; None where there are too few or no right to one."""
    with open("/proc/meminfo", encoding="ascii") as f:
        free = int(re.search(r"HugePages_Free: +(\d+)", f.read()).group(1))
    if free < 64:
        return None
    for line in open("/proc/mounts", encoding="ascii"):
        if line.split()[2] == "hugetlbfs" and os.access(line.split()[1], os.W_OK):
            return line.split()[1]
    folder = b.path("huge")
    os.mkdir(folder)
    libc = ctypes.CDLL(None, use_errno=True)
    CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return None
    return folder if libc.mount(b"none", folder.encode(), b"hugetlbfs", 0, None) == 0 else None


def telemetry(b, *commands):
    text = b.run("dpdk-telemetry.py", "-f", b.prefix, input="\n".join(commands) + "\n")
    return {k: v for line in text.splitlines() if line.startswith("{") for k, v in json.loads(line).items()}


def processes(b):
    """Other processes look at a port that forwards: statistics, captures that tshark reads, telemetry."""
    folder = hugepages(b)
    if folder is None:
        print("processes share memory in huge pages only: 64 free ones of 2 MiB are needed, and a mounted hugetlbfs or the "
              "right to mount one")
        sys.exit(77)
    several = ["--num-procs=2", "--rxq=2", "--txq=2", "--total-num-mbufs=4096"]
    memory = ["-m", "64", "--huge-dir", folder]
    t = b.testpmd(b.cabled(), "--forward-mode=flowgen", *several, "--proc-id=0", eal=[*memory, "--proc-type=primary"])
    t.say("start")
    t.wait(0, "rx_good_packets", 1000)
    second = ["--no-pci", "--file-prefix", b.prefix, "-d", b.plugin]
    text = b.run("dpdk-proc-info", *second, "--", "--stats", "-p", "1")
    got = int(re.search(r"RX-packets: (\d+)", text).group(1))
    assert 1000 <= got <= t.stats(0)["rx_good_packets"], (got, text)
    text = b.run("dpdk-proc-info", *second, "--", "--xstats", "-p", "1")
    assert "rx_q0_discarded" in text and "tx_dropped_of_secondaries" in text, text
    told = telemetry(b, "/ethdev/list", "/ethdev/stats,0", "/ethdev/link_status,0", "/ethdev/xstats,1")
    assert told["/ethdev/list"] == [0, 1] and told["/ethdev/stats"]["ipackets"] >= got, told
    assert told["/ethdev/link_status"]["status"] == "UP", told
    other = b.testpmd([], "--forward-mode=txonly", *several, "--proc-id=1", eal=["--proc-type=secondary"])
    before = t.stats(0)
    other.say("start")
    other.wait(0, "tx_dropped_of_secondaries", 1000)
    other.say("stop")
    assert "net_kilim" in other.say("show port info 0"), other.log
    other.quit()
    assert t.stats(0)["tx_dropped_of_secondaries"] >= before["tx_dropped_of_secondaries"] + 1000
    capture(b, "pdump.pcap", ["dpdk-pdump", *second, "-l", "0", "--", "--pdump", f"port=0,queue=*,rx-dev={b.path('pdump.pcap')}"])
    capture(b, "dump.pcap", ["dpdk-dumpcap", "-i", "0", "-c", "20", "-w", b.path("dump.pcap"), "--file-prefix", b.prefix])
    t.say("stop")
    t.quit()


def capture(b, name, words):
    """Runs a capture until its file grows no more, and lets tshark read it."""
    # Debian's dpdk-testpmd is linked with this driver of mempools, and the capturing programs are not; processes name such
    # drivers by the order in which they were loaded.
    # dpdk-dumpcap has no -d: it finds the driver after installation.
    driver = f":{b.plugin}" if words[0] == "dpdk-dumpcap" else ""
    env = {**os.environ, "LD_PRELOAD": "librte_mempool_dpaa.so.23" + driver}
    process = subprocess.Popen(words, cwd=b.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)
    for _ in range(200):
        time.sleep(0.1)
        there = os.path.exists(b.path(name)) and os.path.getsize(b.path(name)) > 2000
        if there or process.poll() is not None:
            break
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=SECONDS)
    text = b.run("tshark", "-r", b.path(name), "-c", "10", "-T", "fields", "-e", "udp.dstport", check=False)
    assert re.search(r"^\d+$", text, re.M), (said, text)


def build(b, name):
    """One of DPDK's examples with pkg-config alone, as its own Makefile does."""
    folder = os.path.join(b.path("src"), name)
    if not os.path.exists(folder):
        shutil.copytree(os.path.join(EXAMPLES, name), folder)
        shutil.copytree(os.path.join(EXAMPLES, "common"), b.path("src/common"), dirs_exist_ok=True)
    b.run("make", "-C", folder, "shared", seconds=300)
    return glob.glob(os.path.join(folder, "build", "*-shared"))[0]


EXAMPLE_RUNS = {
    "skeleton": ([], r"Core 0 forwarding packets|forwarding"),
    "l2fwd": (["-p", "3", "-q", "2", "-T", "1"], r"entering main loop"),
    "rxtx_callbacks": ([], r"Core 0 forwarding packets|forwarding"),
    "link_status_interrupt": (["-p", "3", "-q", "2", "-T", "1"], r"Port statistics"),
    "l3fwd": (["-p", "3", "--config=(0,0,0),(1,0,0)", "-P", "--lookup=lpm", "--parse-ptype"], r"entering main loop"),
    "ip_fragmentation": (["-p", "3", "-q", "2"], r"entering main loop"),
}


def examples(b):
    """DPDK's examples, unchanged, forward frames from file to file."""
    if not os.path.isdir(EXAMPLES):
        print("Debian's package dpdk-dev, which has DPDK's examples, is not installed")
        sys.exit(77)
    names = EXAMPLE_RUNS if LONG else ["skeleton", "l2fwd"]
    for name in names:
        program = build(b, name)
        own, sign = EXAMPLE_RUNS[name]
        dst = {"l3fwd": b"\xc6\x12\1\1", "ip_fragmentation": bytes([100, 20, 0, 1])}.get(name, b"\xc6\x12\0\2")
        frames = [udp(sport=1000 + n) for n in range(100)]
        frames = [b"\xff" * 6 + f[6:30] + dst + f[34:] for f in frames]
        write(b.path("a.pcap"), frames)
        out = b.path(f"{name}.pcap")
        write(b.path("none.pcap"), [])
        vdevs = ["--vdev", "net_kilim0,wire=pcap:a.pcap", "--vdev", f"net_kilim1,wire=pcap:none.pcap:{out}"]
        with open(b.path("log"), "w", encoding="utf8") as log:
            process = subprocess.Popen(["stdbuf", "-o0", program, *NO_HUGE[:-1], "512", "-l", "0", *b.eal(), *vdevs, "--", *own],
                                       cwd=b.folder, stdout=log, stderr=subprocess.STDOUT)
        try:
            for _ in range(150):
                time.sleep(0.1)
                if process.poll() is not None or (os.path.exists(out) and os.path.getsize(out) >= 24 + 100 * 98):
                    break
            process.send_signal(signal.SIGINT)
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:  # some have no end
            pass
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        with open(b.path("log"), encoding="utf8") as log:
            said = log.read()
        got = list(b.pcap.frames(out))
        assert len(got) == 100 and re.search(sign, said), (name, len(got), said[-2000:])
        assert sorted(f[34:36] for f in got) == sorted(f[34:36] for f in frames), name


CASES = [modes, tcp, queues, offloads, sends, settings, detach, processes, examples]


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
