#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-testpmd's prompt, on virtual devices and on DPDK's own software drivers, and Debian's
dpdk-testpmd beside it with the same scripts.

Usage: run_prompt.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import os
import random
import re
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


def say(b, program, vdevs, script, *own, wait=0.0):
    """What the program prints for the lines of a script; None is a pause of `wait` seconds."""
    with subprocess.Popen(words(program, vdevs, *own), cwd=b.folder, text=True, bufsize=1,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as p:
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


def forwarded(out):
    """(port or all, RX-packets, TX-packets, TX-dropped) of all forward statistics, in their order."""
    rows = re.findall(r"(?:Forward statistics for port (\d+)|Accumulated).*\n\s+RX-packets: (\d+) .*\n"
                      r"(?:.*-?csum.*\n)*\s+TX-packets: (\d+) +TX-dropped: (\d+)", out)
    return [(port or "all", int(rx), int(tx), int(dropped)) for port, rx, tx, dropped in rows]


def commands(b):
    """A session of many commands: each is answered in testpmd's words, and nothing is lost."""
    out = say(b, b.program, pair("c"), [
        "show port summary all", "show config rxtx", "show fwd config", "set fwd mac", "set burst 16",
        "set eth-peer 1 02:00:00:00:00:77", "start tx_first 2", None, "start", "set fwd io", "stop",
        "show fwd stats all", "clear port stats all", "show port stats 1", "show port xstats 0",
        "show umr keys", "show umr pools", "show umr chooser", "show mr", "show odp caps",
        "show odp stats", "show inline-recv", "show buffers", "show buffers leaks", "explain last",
        "set txpkts 64,64", "show config txpkts", "show port 0 macs", "set promisc all off",
        "set allmulti 0 on", "show port info 0", "stop", "show port stats 7", "frobnicate",
        "set conntrack x", "help all", "quit"], wait=0.5)
    for part in ("Number of available ports: 2", "Set mac packet forwarding mode",
                 "Number of packets per burst set to 16", "peer=02:00:00:00:00:77",
                 "mac packet forwarding packets/burst=16", "Packet forwarding already started",
                 "set fwd: please stop forwarding first", "Telling cores to stop...", "Done.",
                 "NIC statistics for port 1 cleared", "rx_q0_packets: ", "port 0 (vhca0): keys-bound 0",
                 "mode mac decides nothing", "lkey 0x", "num_page_faults", "up to 32 bytes in the CQE",
                 "free in the pool", "--pool-debug", "no completion with an error was seen",
                 "Segment sizes: 64,64", "Promiscuous mode: disabled", "Allmulticast mode: enabled",
                 "Packet forwarding not started", "Invalid port 7", "Command not found: 'frobnicate'",
                 "dpdk-testpmd's `set conntrack` is not in kilim-testpmd", "Bye..."):
        assert part in out, (part, out)
    rows = forwarded(out)
    assert len(rows) == 6 and rows[:3] == rows[3:], rows
    first = rows[0][1] + rows[1][1]
    assert first > 100 and rows[2][1] == first and rows[2][3] == 0, rows
    # Two bursts of 16 a port began, and are what is under way at the end at most.
    assert 0 <= rows[2][2] - rows[2][1] <= 64, rows
    cleared = out[out.index("NIC statistics for port 1 cleared"):]
    assert re.search(r"RX-packets: 0 +RX-missed: 0", cleared), cleared


def frames():
    """Frames with wrong and right checksums, tags, groups, requests, and pieces of headers."""
    rng = random.Random(7)

    def ether(kind, payload, dst=b"\2\0\0\0\0\1", tag=b""):
        return dst + b"\2\0\0\0\0\2" + tag + struct.pack(">H", kind) + payload

    def ipv4(proto, payload, dst="10.0.0.2"):
        p = dpkt.ip.IP(src=bytes([10, 0, 0, 1]), dst=bytes(int(n) for n in dst.split(".")), p=proto,
                       data=payload)
        p.len = len(p)
        return p

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


def modes(b):
    """Frames of many kinds through each mode of both programs, over DPDK's pcap driver: the same
    bytes come out, and the same numbers are told; through Kilim's port the same bytes again."""
    if DEBIAN is None:
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    write(b.path("in.pcap"), frames())
    count = len(frames())
    for mode in ("io", "mac", "macswap", "5tswap", "csum", "icmpecho", "rxonly"):
        script = [f"set fwd {mode}", "start", None, "stop", "show port stats all", "quit"]
        came = {}
        for name, program in (("ours", b.program), ("debian", DEBIAN)):
            pcap = [f"net_pcap0,rx_pcap=in.pcap,tx_pcap={name}.pcap"]
            out = say(b, program, pcap, script, "--no-flush-rx", wait=0.7)
            rows = forwarded(out)
            assert rows and rows[0][1] == count, (mode, name, rows, out)
            stats = re.search(r"RX-packets: (\d+) +RX-missed.*RX-bytes: +(\d+)[\s\S]*?TX-packets: (\d+) .*TX-bytes: +(\d+)", out)
            came[name] = (rows, stats.groups(), list(b.pcap.frames(b.path(f"{name}.pcap"))))
        assert came["ours"] == came["debian"], (mode, came["ours"][:2], came["debian"][:2])
        out = say(b, b.program, [vdev(0, "pcap:in.pcap:kilim.pcap")], script,
                  "--eth-peer=0,02:00:00:00:00:00", wait=0.7)
        kilim = list(b.pcap.frames(b.path("kilim.pcap"))) if mode != "rxonly" else []
        assert forwarded(out)[0][1] == count, (mode, out)
        # The pcap driver's address is another one than Kilim's.
        same = [f[:6] + f[12:] if mode in ("mac", "csum") else f for f in kilim]
        want = [f[:6] + f[12:] if mode in ("mac", "csum") else f for f in came["debian"][2]]
        if mode != "icmpecho":
            assert same == want or mode == "rxonly", (mode, len(same), len(want))
        assert len(same) == len(want), (mode, len(same), len(want))


def debian(b):
    """The same script file for both programs, with rings and the null driver: numbers that both
    print agree."""
    if DEBIAN is None:
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    with open(b.path("script"), "w", encoding="ascii") as f:
        f.write("# comments and empty lines do nothing\n\nset fwd rxonly\nset burst 16\nshow config fwd\n"
                "start tx_first 3\n")
    told = {}
    for name, program in (("ours", b.program), ("debian", DEBIAN)):
        out = say(b, program, ["net_ring0", "net_ring1"],
                  [None, "stop", "show fwd stats all", "show port stats all", "port stop all",
                   "port config all rxq 1", "port start all", "set nbport 1", "set fwd txonly",
                   "set txpkts 100", "show config txpkts", "stop", "quit"],
                  "--cmdline-file=script", wait=0.5)
        stats = re.findall(r"NIC statistics for port (\d+).*\n\s+RX-packets: (\d+) +RX-missed: (\d+)[\s\S]*?"
                           r"TX-packets: (\d+) +TX-errors: (\d+)", out)
        told[name] = (forwarded(out), stats,
                      re.findall(r"RX P=.* -> TX P=\d+/Q=\d+", out),
                      sorted(re.findall(r"packets/burst=\d+|Segment sizes: \S+|Set \w+ packet forwarding mode|"
                                 r"Number of packets per burst set to \d+|Packet forwarding not started|"
                                 r"nb forwarding cores=\d+ - nb forwarding ports=\d+", out)))
    assert told["ours"] == told["debian"], told
    assert told["ours"][0][0][1:] == (48, 48, 0), told["ours"]


def rings(b):
    """Ports of other drivers, alone and exchanging with Kilim's: every packet is accounted for."""
    write(b.path("in.pcap"), frames())
    count = len(frames())
    vdevs = [vdev(0, "pcap:in.pcap:out0.pcap"), "net_pcap0,rx_pcap=in.pcap,tx_pcap=out1.pcap"]
    out = say(b, b.program, vdevs, ["show port summary all", "start", None, "stop", "quit"], "--no-flush-rx", wait=0.7)
    assert "net_pcap" in out, out
    assert forwarded(out) == [("0", count, count, 0), ("1", count, count, 0), ("all", 2 * count, 2 * count, 0)], out
    for name in ("out0.pcap", "out1.pcap"):
        b.same("in.pcap", name)
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", "net_null0", "--", "--fwd=rxonly",
                           "--num-packets=1000", "--json=s.json"], cwd=b.folder, text=True,
                          capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and "forwarded      1000," in done.stdout, done
    out = say(b, b.program, vdevs, ["set verbose 1", "start", None, "stop", "quit"], "--no-flush-rx", wait=0.5)
    assert "port 1/queue 0: received" in out and "dst=02:00:00:00:00:01 - type=0x86dd - length=" in out, out
    assert "needs ports of Kilim" in say(b, b.program, ["net_null0"], ["set fwd umr", "start", "quit"])
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", "net_null0", "--", "--rxq=64", "--fwd=rxonly", "--duration=1"],
                          cwd=b.folder, text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and "net_null0 on net_null" in done.stdout, done


def flows(b):
    """Rules in testpmd's syntax are checked, made, listed, asked and removed."""
    out = say(b, b.program, pair("f"), [
        "flow validate 0 ingress pattern eth / ipv4 src is 1.2.3.4 / end actions drop / end",
        "flow create 0 ingress pattern eth / ipv4 / udp dst is 9 / end actions queue index 0 / count / end",
        "flow create 0 priority 1 pattern eth type is 0x0806 / end actions drop / end",
        "flow create 0 pattern eth / end actions queue index 9 / end", "flow list 0", "start tx_first 2", None,
        "flow query 0 0 count", "stop", "flow query 0 1 count", "flow destroy 0 rule 1", "flow destroy 0 rule 1",
        "flow create 0 pattern udp dst is 9 / end actions drop / end", "flow flush 0", "flow list 0",
        "flow create 1 group 3 pattern eth / end actions drop / end", "flow create 5 x",
        "flow isolate 0 1", "quit"], wait=0.5)
    for part in ("Flow rule validated", "Flow rule #0 created", "Flow rule #1 created",
                 "(action configuration): action.queue: the port has no such receive queue",
                 "0\t0\t0\ti--\tETH IPV4 UDP => QUEUE COUNT", "1\t0\t1\ti--\tETH => DROP",
                 "Flow rule #1 destroyed", "Flow rule #1 not found", "there is one group", "Invalid port 5",
                 "`flow isolate` is not in kilim-testpmd"):
        assert part in out, (part, out)
    assert int(re.search(r" hits: (\d+)", out).group(1)) >= 64, out
    assert out.count("ID\tGroup") == 1, out


def queues(b):
    """Ports are stopped, get other queues, and go on; a mode with keys likewise."""
    script = ["port config all rxq 2", "port stop all", "port config all rxq 2", "port config all rxd 100",
              "port config all rxd 256", "port start all", "show config rxtx"]
    for mode in ("umr", "io"):
        script += [f"set fwd {mode}", "start tx_first", None, "stop", "port stop 1", "start", "port start 1"]
    out = say(b, b.program, pair("q"), [*script, "show port 0 rss reta", "port 0 rxq 1 stop", "port 0 rxq 1 start",
                                        "port 0 rxq 5 stop", "quit"], "--umr-keys=64", wait=0.05)
    for part in ("Please stop all ports first", "RX queue number: 2", "RX desc=256", "64 to 8192",
                 "Not all ports were started", "hash index=1, queue=1", "no started receive queue 5"):
        assert part in out, (part, out)
    rows = [r for r in forwarded(out) if r[0] == "all"]
    assert len(rows) == 2 and all(r[1] > 0 for r in rows), rows
    assert out.count("Done.") == 2, out


def hostile(b):
    """Lines of any bytes and any length: each is answered, none ends or holds the program."""
    rng = random.Random(16)
    known = ("show port stats all set fwd umr start stop flow create 0 pattern eth / end actions queue index "
             "rss port config rxq txpkts 99999999999 0x -1 csum hw tso vlan load /dev/null").split()
    text = b""
    for _ in range(600):
        if rng.random() < 0.2:
            line = rng.randbytes(rng.randrange(1, 3000)).replace(b"\4", b"").replace(b"\3", b"")
        else:
            line = " ".join(rng.choice(known) for _ in range(rng.randrange(1, 12))).encode()
        text += line.replace(b"\n", b"") + b"\n"
    text += b"\nstop\nshow port summary all\nquit\n"
    done = subprocess.run(words(b.program, pair("h")), input=text, cwd=b.folder, capture_output=True,
                          timeout=SECONDS)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    assert b"Number of available ports: 2" in done.stdout[-2000:], done.stdout[-2000:]
    with open(b.path("loop"), "w", encoding="ascii") as f:
        f.write("load loop\n")
    out = say(b, b.program, pair("l"), ["load loop", "load nowhere", "x" * 5000, "quit"])
    assert "nested" in out and "nowhere: cannot be read" in out, out


def terminal(b):
    """On a terminal: words are completed, history comes back, and the screen fits."""
    name = f"prompt{os.getpid()}"
    line = words(b.program, pair("t"))

    def tmux(*args):
        return subprocess.run(["tmux", "-L", name, *args], check=True, text=True, capture_output=True,
                              cwd=b.folder).stdout

    def wait(part):
        end = time.monotonic() + 20
        while (page := tmux("capture-pane", "-p")).find(part) < 0:
            assert time.monotonic() < end, (part, page)
            time.sleep(0.1)
        return page

    try:
        tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", *line)
        wait("testpmd>")
        tmux("send-keys", "sho", "Tab", "po", "Tab", "sum", "Tab", "all", "Enter")
        wait("Number of available ports: 2")
        tmux("send-keys", "Up", "Enter")
        end = time.monotonic() + 20
        while tmux("capture-pane", "-p").count("Number of available ports: 2") < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        tmux("send-keys", "quit", "Enter")
        time.sleep(0.5)
        screen = [w for w in line if w != "-i"]
        tmux("new-session", "-d", "-x", "80", "-y", "24", "-s", "screen", *screen, "--screen", "--tx-first", "--duration=30")
        wait_for = time.monotonic() + 20
        while "cycles a packet: library" not in (page := tmux("capture-pane", "-p", "-t", "screen")):
            assert time.monotonic() < wait_for, page
            time.sleep(0.1)
        rows = page.rstrip("\n").split("\n")
        assert len(rows) <= 24 and rows[0].startswith("kilim-testpmd  mode io"), page
    finally:
        subprocess.run(["tmux", "-L", name, "kill-server"], check=False, capture_output=True)


def attached(b):
    """Ports come and go: their packets flow, and others keep their state."""
    out = say(b, b.program, pair("a"), [
        "port attach net_kilim7,hca=vhca7", "show port summary all", "port start 2", "start tx_first", None, "stop",
        "port detach 2", "port stop 2", "port detach 2", "port attach net_null0", "port start 2", "start", None, "stop",
        "port attach net_nothing0", "port attach net_kilim9,bogus=1", "port close 0", "port stop all", "port close 2",
        "port detach 1", "port detach 0", "show port summary all", "lint on", "quit"], wait=0.3)
    for part in ("Port 2 is attached. Now total ports is 3", "is not stopped", "Port 2 (net_kilim7) is detached",
                 "devarg bogus is unknown", "the last port stays", "Number of available ports: 1", "lint is on"):
        assert part in out, (part, out)


def options(b):
    """Options of testpmd that are there count, those that are not are named; what is wrong is told
    before anything starts."""
    port = ["--vdev", "net_kilim0,hca=vhca0"]
    rows = ((["--num-procs=2"], "one process"), (["--hairpinq=1"], "--hairpinq of dpdk-testpmd is not in"),
            (["--json=/nonexistent/x"], "--json=/nonexistent/x cannot be written"),
            (["--portmask=4"], "--portmask"), (["--nb-ports=2"], "--nb-ports=2"),
            (["--port-topology=star"], "paired, chained, loop"), (["--txpkts=10"], "60 to 9216"),
            (["-i"], "the prompt has the main lcore"), (["--cmdline-file=none", "-i"], "the prompt has the main lcore"))
    for own, part in rows:
        done = subprocess.run([b.program, *EAL, "-l", "0", *port, "--", *own], cwd=b.folder, text=True,
                              capture_output=True, timeout=SECONDS)
        assert done.returncode == 1 and part in done.stderr, (own, part, done)
    b.make("in.pcap", 500)
    for number in (1, 33, 499):
        stats, text = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=io", f"--num-packets={number}", "--duration=20",
                              "--latency", "--json")
        assert stats["total"]["forwarded"] == number == len(list(b.pcap.frames(b.path("out.pcap")))), stats
        assert stats["total"]["latency"]["packets"] == number, stats
        assert "keys-bound" not in text and stats["total"]["cycles_per_packet"] > 0, text
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", pair("o")[0], "--vdev", pair("o")[1], "--",
                           "--duration=1"], cwd=b.folder, text=True, capture_output=True, timeout=SECONDS)
    assert "start tx_first" in done.stderr and "--tx-first" in done.stderr, done
    stats, _ = b.stats([*pair("p")], "--tx-first", "--duration=1", "--json")
    assert stats["total"]["forwarded"] > 64 and stats["ports"][0]["rx_rate"]["max_pps"] > 0, stats
    stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=txonly", "--txpkts=60,100,40", "--num-packets=77",
                       "--txonly-multi-flow", "--json")
    sent = list(b.pcap.frames(b.path("out.pcap")))
    assert len(sent) == 77 and {len(f) for f in sent} == {200} and len({f[26:30] for f in sent}) == 77, stats
    stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=flowgen", "--flowgen-flows=10", "--num-packets=25",
                       "--duration=20", "--json")
    assert len({f[30:34] for f in b.pcap.frames(b.path("out.pcap"))}) == 10, stats
    stats, _ = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=noisy", "--noisy-tx-sw-buffer-size=64",
                       "--noisy-lkup-memory=1", "--noisy-lkup-num-reads-writes=3", "--num-packets=500", "--duration=1",
                       "--json")
    b.same("in.pcap", "out.pcap")


CASES = {f.__name__: f for f in (commands, modes, debian, rings, flows, queues, hostile, terminal, attached, options)}


def main(program, root, launch, name):
    with tempfile.TemporaryDirectory(prefix="kilim-prompt-") as folder:
        bench = Bench(os.path.abspath(program), os.path.abspath(root), folder)
        bench.launch = launch
        CASES[name](bench)
    print(f"{name}: {CASES[name].__doc__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
