#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-testpmd from the command line, without hugepages, hardware or root, over pcap files.

Usage: run_testpmd.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile

import dpkt
from dpkt.dpkt import in_cksum
from two_stacks import TwoStacks

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--log-level", "error", "-m", "128"]
ROOM = [*EAL[:-1], "512"]  # for several buffers a packet
SECONDS = 60


class Bench:
    def __init__(self, program, root, folder):
        self.program = program
        self.folder = folder
        self.launcher = []
        sys.path.insert(0, os.path.join(root, "usertools"))
        sys.dont_write_bytecode = True
        import pcap_file
        self.pcap = pcap_file

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, name, count):
        self.pcap.make(self.path(name), count)

    def many_flows(self, name):
        """Each frame of the file gets a UDP source port of its own; the checksum is left away."""
        frames = [bytearray(f) for f in self.pcap.frames(self.path(name))]
        with open(self.path(name), "wb") as f:
            writer = dpkt.pcap.Writer(f, snaplen=65535)
            for number, frame in enumerate(frames):
                frame[34:36] = struct.pack(">H", 1024 + number)
                frame[40:42] = b"\0\0"
                writer.writepkt(bytes(frame), number / 1000000)

    def fragments(self, name):
        """A UDP datagram's first fragment and a later one, whose payload looks like the ports."""
        with open(self.path(name), "wb") as f:
            writer = dpkt.pcap.Writer(f, snaplen=65535)
            for flags in (0x2000, 185):
                ip = struct.pack(">BBHHHBBH", 0x45, 0, 108, 7, flags, 64, 17, 0) + b"\5" * 4 + b"\6" * 4
                writer.writepkt(b"\2" * 12 + b"\x08\0" + ip + b"\1\1\2\2" + bytes(84), 0)

    def jumbo(self, name, count):
        """Frames of 60 to 9,000 random bytes, the same at every call."""
        rng = random.Random(9)
        with open(self.path(name), "wb") as f:
            writer = dpkt.pcap.Writer(f, snaplen=65535)
            for number in range(count):
                size = 60 + number if number < 60 else rng.randrange(60, 9001)
                writer.writepkt(b"\2" + rng.randbytes(size - 1), number / 1000000)

    def segments(self, name, count, size):
        """Segments of one TCP stream, each with `size` bytes; the last one pushes."""
        data = random.Random(5).randbytes(count * size)
        with open(self.path(name), "wb") as f:
            writer = dpkt.pcap.Writer(f, snaplen=65535)
            for n in range(count):
                tcp = dpkt.tcp.TCP(sport=1000, dport=80, seq=n * size, ack=9, win=500,
                                   flags=0x18 if n + 1 == count else 0x10, data=data[n * size:(n + 1) * size])
                ip = dpkt.ip.IP(src=b"\xc6\x12\0\1", dst=b"\xc6\x12\0\2", p=6, id=n, data=tcp)
                ip.len = len(ip)
                writer.writepkt(bytes(dpkt.ethernet.Ethernet(src=b"\2\0\0\0\0\1", data=ip)), n / 1000000)

    def same(self, sent, got):
        a, b = (list(self.pcap.frames(self.path(n))) for n in (sent, got))
        assert a == b, f"{sent} has {len(a)} frames, {got} {len(b)}, and they are not the same"

    def command(self, vdevs, *own, eal=EAL, lcores="0"):
        words = [*self.launcher, self.program, *eal, "-l", lcores]
        for v in vdevs:
            words += ["--vdev", v]
        return [*words, "--", *own]

    def run(self, *args, **kwargs):
        done = subprocess.run(self.command(*args, **kwargs), cwd=self.folder, text=True,
                              capture_output=True, timeout=SECONDS)
        assert done.returncode >= 0, f"killed by signal {-done.returncode}: {done.stderr}"
        return done

    def stats(self, *args, **kwargs):
        done = self.run(*args, **kwargs)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr


def vdev(number, wire, more=""):
    return f"net_kilim{number},hca=vhca{number},wire={wire}{more}"


def swapped(frames):
    return [f[6:12] + f[:6] + f[12:] for f in frames]


def one_port(b):
    """A single port sends back what it receives, in each mode that forwards."""
    b.make("in.pcap", 500)
    for mode in ("io", "umr"):
        stats, text = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], f"--fwd={mode}", "--show-caps",
                              "--num-packets=500", "--duration=20", "--json")
        assert "(vhca0): on-demand paging: general: SUPPORT SUPPORT_IMPLICIT\n" in text, text
        assert re.search(r"^  UD +SEND( +-){5}$", text, re.M), text
        b.same("in.pcap", "out.pcap")
        total = stats["total"]
        assert stats["mode"] == mode and total["forwarded"] == 500, stats
        assert total["rx_packets"] == total["tx_packets"] == total["tx_completed"] == 500, stats
        assert total["keys_bound"] == (500 if mode == "umr" else 0), stats
        assert sum(total["drops"].values()) == 0, stats
        assert "final statistics" in text and "RX-packets     500" in text, text


def own_thread(b):
    """The device runs on a thread of its own; a file waits until the port asks for frames."""
    b.make("in.pcap", 3000)
    for mode in ("io", "umr"):
        stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap", ",progress=thread,rxd=64,txd=64")],
                           f"--fwd={mode}", "--num-packets=3000", "--duration=30", "--json",
                           "--idle=sleep")
        b.same("in.pcap", "out.pcap")
        assert sum(stats["total"]["drops"].values()) == 0, stats


def two_ports(b):
    """Two ports exchange; the options with their value as the next word; JSON to a file."""
    b.make("in0.pcap", 700)
    b.make("in1.pcap", 300)
    done = b.run([vdev(0, "pcap:in0.pcap:out0.pcap", ",rxd=128,txd=64"),
                  vdev(1, "pcap:in1.pcap:out1.pcap")],
                 "--forward-mode", "umr", "--num-packets", "1000", "--duration", "20", "--burst",
                 "16", "--umr-keys", "64", "--nb-cores", "1", "--json=stats.json")
    assert done.returncode == 0, done.stderr
    b.same("in0.pcap", "out1.pcap")
    b.same("in1.pcap", "out0.pcap")
    with open(b.path("stats.json"), encoding="ascii") as f:
        stats = json.load(f)
    assert [p["rx_packets"] for p in stats["ports"]] == [700, 300], stats
    assert [p["tx_packets"] for p in stats["ports"]] == [300, 700], stats
    assert "final statistics" in done.stdout and "Mpps" in done.stdout, done.stdout


def two_lcores(b):
    """Two lcores forward, each a direction; both run both devices, each at its turn."""
    b.make("in0.pcap", 3000)
    b.make("in1.pcap", 2000)
    cpus = sorted(os.sched_getaffinity(0))
    lcores = f"0@{cpus[0]},1@{cpus[0]},2@{cpus[-1]}"
    words = [b.program, *EAL, "--lcores", lcores, "--vdev", vdev(0, "pcap:in0.pcap:out0.pcap"),
             "--vdev", vdev(1, "pcap:in1.pcap:out1.pcap"), "--", "--nb-cores=2",
             "--num-packets=5000", "--duration=40"]
    for mode in ("io", "umr"):
        done = subprocess.run([*words, f"--fwd={mode}"], cwd=b.folder, text=True,
                              capture_output=True, timeout=SECONDS)
        assert done.returncode == 0 and "2 forwarding lcore(s)" in done.stdout, done
        b.same("in0.pcap", "out1.pcap")
        b.same("in1.pcap", "out0.pcap")


def four_queues(b):
    """Frames are spread over four queues of two lcores; each comes out once, and queues are shown."""
    b.make("in.pcap", 2000)
    b.many_flows("in.pcap")
    cpus = sorted(os.sched_getaffinity(0))
    lcores = f"0@{cpus[0]},1@{cpus[0]},2@{cpus[-1]}"
    done = subprocess.run([b.program, *EAL, "--lcores", lcores, "--vdev",
                           vdev(0, "pcap:in.pcap:out.pcap"), "--", "--nb-cores=2", "--rxq=4",
                           "--rss-udp", "--num-packets=2000", "--duration=40", "--json=s.json"],
                          cwd=b.folder, text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and "RX queue 3" in done.stdout, done
    with open(b.path("s.json"), encoding="ascii") as f:
        port = json.load(f)["ports"][0]
    queues = [q["packets"] for q in port["rx_queues"]]
    assert sum(queues) == port["rx_packets"] == 2000, port
    sent, got = (sorted(b.pcap.frames(b.path(n))) for n in ("in.pcap", "out.pcap"))
    assert sent == got, (len(sent), len(got), queues)
    assert min(queues) > 300, queues


def other_modes(b):
    """rxonly frees what it receives, txonly makes exactly the packets asked for, macswap swaps."""
    b.make("in.pcap", 200)
    port = [vdev(0, "pcap:in.pcap:out.pcap")]
    stats, _ = b.stats(port, "--fwd=rxonly", "--num-packets=200", "--duration=20", "--json")
    assert stats["total"]["rx_packets"] == 200 and stats["total"]["tx_packets"] == 0, stats
    stats, _ = b.stats(port, "--fwd=txonly", "--txq=3", "--num-packets=1001", "--txpkts=128",
                       "--eth-peer=0,02:11:22:33:44:55", "--json")
    sent = list(b.pcap.frames(b.path("out.pcap")))
    assert stats["total"]["tx_packets"] == len(sent) == 1001, stats
    assert all(len(f) == 128 and f[:6].hex() == "021122334455" for f in sent)
    assert all(in_cksum(f[14:34]) == 0 for f in sent)
    b.fragments("in.pcap")
    b.stats(port, "--fwd=5tswap", "--num-packets=2", "--duration=20", "--json")
    first, later = b.pcap.frames(b.path("out.pcap"))
    assert first[34:38] == b"\2\2\1\1" and later[34:38] == b"\1\1\2\2", (first, later)
    assert first[26:34] == later[26:34] == b"\6\6\6\6\5\5\5\5", (first, later)
    b.make("in.pcap", 200)
    b.stats(port, "--fwd=macswap", "--num-packets=200", "--duration=20", "--json")
    assert swapped(b.pcap.frames(b.path("out.pcap"))) == list(b.pcap.frames(b.path("in.pcap")))


def jumbo(b):
    """Frames of 60 to 9,000 bytes go over buffers of 2 KiB in each mode that forwards."""
    b.jumbo("in.pcap", 300)
    more = ["--max-pkt-len=9000", "--num-packets=300", "--duration=20", "--json"]
    for mode in ("io", "macswap"):
        stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], f"--fwd={mode}", *more, eal=ROOM)
        sent, got = (list(b.pcap.frames(b.path(n))) for n in ("in.pcap", "out.pcap"))
        assert got == (sent if mode == "io" else swapped(sent)), (mode, len(sent), len(got))
        assert stats["total"]["forwarded"] == stats["total"]["tx_packets"] == 300, stats
    stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=rxonly", *more, eal=ROOM)
    assert stats["total"]["forwarded"] == stats["total"]["rx_packets"] == 300, stats


def split(b):
    """Split packets come out whole by each way, and the last line says what the chooser decided."""
    b.jumbo("in.pcap", 300)
    b.jumbo("in1.pcap", 200)
    kept = (("in-place", "copy"), ("cheapest", None), ("copy", None), ("list", "inline"), ("key", "copy"))
    for way, never in kept:
        stats, text = b.stats([vdev(0, "pcap:in.pcap:out.pcap"), vdev(1, "pcap:in1.pcap:out1.pcap")],
                              "--fwd=split", f"--split-way={way}", "--max-pkt-len=9000",
                              "--num-packets=500", "--duration=20", "--json", eal=ROOM)
        for sent, got in (("in.pcap", "out1.pcap"), ("in1.pcap", "out.pcap")):
            sent, got = (list(b.pcap.frames(b.path(n))) for n in (sent, got))
            assert swapped(sent) == got, (way, len(sent), len(got))
        total = stats["total"]
        assert total["forwarded"] == total["tx_completed"] == 500, stats
        assert sum(total["drops"].values()) == 0, stats
        by = [p["split"] for p in stats["ports"]]
        assert [s["copy"] + s["list"] + s["inline"] for s in by] == [200, 300], by
        assert never is None or not any(s[never] for s in by), by
        assert total["keys_bound"] == sum(s["inline"] for s in by), stats
        assert len(re.findall(r"^  split [\s\S]*? to\s+\d+\s+B\s+\([\s\S]*?\d+\s+ns\);\s+sent:\s+copy\s+\d", text, re.M)) == 2, text
        if way in ("copy", "list", "key"):
            word = "inline" if way == "key" else way
            assert all(s["plan"].startswith(f"{word} to ") and s[word] > 30 for s in by), by


def pool_debug(b):
    """--pool-debug: every mode gives every buffer back, once, and writes to none that is free."""
    b.make("in.pcap", 300)
    port = [vdev(0, "pcap:in.pcap:out.pcap")]
    for mode in ("io", "macswap", "rxonly", "txonly", "umr"):
        _, said = b.stats(port, f"--fwd={mode}", "--num-packets=300", "--duration=20",
                          "--umr-keys=64", "--pool-debug", "--json")
        assert "--pool-debug: every buffer came back" in said, (mode, said)
        if mode == "io":
            b.same("in.pcap", "out.pcap")


def joined(b):
    """TCP segments are joined (LRO) and leave as they came, whatever the mode; each is counted once."""
    peer, own = b"\2\0\0\0\0\0", None
    for count, size, most, modes in ((12, 100, 1500, ("io", "mac")), (60, 1000, 16000, ("io", "csum", "rxonly"))):
        b.segments("in.pcap", count, size)
        sent = list(b.pcap.frames(b.path("in.pcap")))
        for mode in modes:
            stats, text = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], f"--fwd={mode}", "--duration=1", "--enable-lro",
                                  f"--max-lro-pkt-size={most}", "--json", eal=ROOM)
            total = stats["total"]
            assert total["rx_joined"] > 0, (mode, stats)
            assert total["rx_packets"] + total["rx_joined"] == count, (mode, stats)
            assert sum(total["drops"].values()) == 0 and total["forwarded"] == total["rx_packets"], (mode, stats)
            assert f"  RX-joined      {total['rx_joined']}\n" in text, text
            if mode == "rxonly":
                continue
            got = list(b.pcap.frames(b.path("out.pcap")))
            if mode == "io":
                assert got == sent, (len(sent), len(got))
                continue
            assert [f[12:] for f in got] == [f[12:] for f in sent], (mode, len(sent), len(got))
            own = own or got[0][6:12]
            assert {f[:12] for f in got} == {peer + own}, mode
    b.launcher = [b.launch, "--profile", "no-lro", "--wire", "pcap:in.pcap:out.pcap", "--"]
    done = b.run(["net_kilim0,hca=vhca0"], "--enable-lro")
    assert done.returncode == 1 and "net_kilim0 has a device that joins no TCP segments" in done.stderr, done
    b.launcher = [b.launch, "--profile", "no-tx-offloads", "--wire", "pcap:in.pcap:out.pcap", "--"]
    done = b.run(["net_kilim0,hca=vhca0"], "--enable-lro")
    assert done.returncode == 1 and "net_kilim0 has a device that divides no packets (TSO)" in done.stderr, done
    done = b.run(["net_kilim0,hca=vhca0"], "--enable-lro", "--fwd=rxonly", "--duration=1", "--max-lro-pkt-size=4000",
                 eal=ROOM)
    assert done.returncode == 0 and "RX-joined" in done.stdout, done


def joined_tcp(b):
    """Linux's TCP takes segments that were joined (LRO) and divided again (TSO) on their way for its peer's. Those with
    options are not joined, so its time stamps are off."""
    megabytes = 8
    try:
        stacks = TwoStacks(f"kilim{os.getpid()}")
    except PermissionError as why:
        print(why)
        sys.exit(77)
    try:
        for home in stacks.homes:
            subprocess.run([*stacks.inside(home), "sysctl", "-qw", "net.ipv4.tcp_timestamps=0"], check=True)
        b.launcher = stacks.inside(stacks.middle)
        words = b.command([vdev(n, f"af_packet:{name}") for n, name in enumerate(stacks.interfaces)], "--fwd=io",
                          "--enable-lro", "--max-lro-pkt-size=16000", "--json", eal=ROOM)
        with subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
            while "2 port(s), mode io" not in (line := p.stderr.readline()):
                assert line != "", "it did not start"
            digest = stacks.exchange(megabytes, SECONDS)
            p.send_signal(signal.SIGINT)
            text, _ = p.communicate(timeout=SECONDS)
        total = json.loads(text)["total"]
    finally:
        stacks.end()
    assert total["rx_joined"] > 1000 and total["rx_bytes"] > megabytes << 20, total
    assert total["drops"]["tx_dropped"] == 0, total
    print(f"{megabytes} MiB, sha256 {digest}, {total['rx_packets']} packets, {total['rx_joined']} segments joined to others")


CASES = {f.__name__: f for f in (one_port, own_thread, two_ports, two_lcores, four_queues, other_modes, jumbo, split,
                                 pool_debug, joined, joined_tcp)}


def main(cases, program, root, launch, name):
    with tempfile.TemporaryDirectory(prefix="kilim-testpmd-") as folder:
        bench = Bench(os.path.abspath(program), os.path.abspath(root), folder)
        bench.launch = os.path.abspath(launch)
        cases[name](bench)
    print(f"{name}: {cases[name].__doc__}")


if __name__ == "__main__":
    main(CASES, *sys.argv[1:5])
