#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-testpmd beside Debian's dpdk-testpmd with the same scripts, and on DPDK's own software drivers.

Usage: run_prompt_drivers.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import ctypes
import os
import re
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from prompt_bench import DEBIAN, EAL, SECONDS, Seen, forwarded, frames, lcores, main, moved, pair, say, words, write  # noqa: E402
from run_testpmd import vdev  # noqa: E402


def modes(b):
    """Frames of many kinds through each mode of both programs, over DPDK's pcap driver: the same
    bytes come out, and the same numbers are told; through Kilim's port the same bytes again."""
    if DEBIAN is None:
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    write(b.path("in.pcap"), frames())
    count = len(frames())
    for mode in ("io", "mac", "macswap", "5tswap", "csum", "icmpecho", "rxonly"):
        script = [f"set fwd {mode}", "start", moved(rx=(count,)), "stop", "show port stats all", "quit"]
        came = {}
        for name, program in (("ours", b.program), ("debian", DEBIAN)):
            pcap = [f"net_pcap0,rx_pcap=in.pcap,tx_pcap={name}.pcap"]
            out = say(b, program, pcap, script, "--no-flush-rx")
            rows = forwarded(out)
            assert rows[0][1] == count, (mode, name, rows, out)
            stats = re.search(r"RX-packets: (\d+) +RX-missed.*RX-bytes: +(\d+)[\s\S]*?TX-packets: (\d+) .*TX-bytes: +(\d+)", out)
            came[name] = (rows, stats.groups(), list(b.pcap.frames(b.path(f"{name}.pcap"))))
        assert came["ours"] == came["debian"], (mode, came["ours"][:2], came["debian"][:2])
        out = say(b, b.program, [vdev(0, "pcap:in.pcap:kilim.pcap")], script,
                  "--eth-peer=0,02:00:00:00:00:00")
        kilim = list(b.pcap.frames(b.path("kilim.pcap"))) if mode != "rxonly" else []
        assert forwarded(out)[0][1] == count, (mode, out)
        # The pcap driver's address is another one than Kilim's.
        same = [f[:6] + f[12:] if mode in ("mac", "csum") else f for f in kilim]
        want = [f[:6] + f[12:] if mode in ("mac", "csum") else f for f in came["debian"][2]]
        if mode != "icmpecho":
            assert same == want or mode == "rxonly", (mode, len(same), len(want))
        assert len(same) == len(want), (mode, len(same), len(want))


SCRIPT = """# comments and empty lines do nothing

set fwd rxonly
set burst 16
set nbcore 1
set nbport 2
set promisc all off
set allmulti all on
show port info 0
show port summary all
show config rxtx
show config fwd
start tx_first 3
"""
FURTHER = """start
stop
stop
show fwd stats all
show port stats all
clear fwd stats all
show fwd stats all
clear port stats all
show port stats all
show port stats 9
port stop all
port config all rxq 1
port config all txd 512
port config all burst 8
port start all
show port info 0
set fwd mac
set eth-peer 0 02:00:00:00:00:77
set txpkts 64,128
show config txpkts
start
stop
set portmask 1
show config fwd
start
stop
set portlist 1,0
show config fwd
set portmask 1
set portmask 3
set nbport 1
show config fwd
set fwd txonly
set txpkts 100
show config txpkts
stop
"""


def debian(b):
    """The same script files for both programs, with rings: what both print is the same, in the same order."""
    if DEBIAN is None:
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    for name, text in (("script", SCRIPT), ("further", FURTHER)):
        with open(b.path(name), "w", encoding="ascii") as f:
            f.write(text)
    told = {}
    for name, program in (("ours", b.program), ("debian", DEBIAN)):
        out = say(b, program, ["net_ring0", "net_ring1"], [moved(rx=(48, 48)), "load further", "quit"],
                  "--cmdline-file=script", errors=subprocess.DEVNULL)
        stats = re.findall(r"NIC statistics for port (\d+).*\n\s+RX-packets: (\d+) +RX-missed: (\d+)[\s\S]*?"
                           r"TX-packets: (\d+) +TX-errors: (\d+)", out)
        told[name] = (forwarded(out), stats, re.findall(
            r"RX P=.* -> TX P=\d+/Q=\d+ .*|\w+ packet forwarding.*|Logical Core .*|[RT]X desc=\d+|"
            r"(?:Segment sizes|Number of (?!seg)|NIC statistics|Promiscuous mode|Allmulticast mode|Link s|MTU:|Driver name).*|"
            r"nb forwarding cores=.*|port \d: RX queue number.*|Stopping ports.*|Read CLI commands from \w+", out.rsplit("Read CLI", 1)[0]))
    for ours, theirs in zip(told["ours"], told["debian"]):
        assert ours == theirs, [(a, d) for a, d in zip(ours, theirs) if a != d] or (ours, theirs)
    rows = told["ours"][0]
    assert rows[0][1:] == (48, 48, 0) and len(rows) == 3 * 3 + 3 + 2 and len(told["ours"][2]) > 50, rows


OWN = """show port info 0
show port 0 rss-hash
port config all rss udp
show port 0 macs
show port summary all
mac_addr add 0 02:00:00:00:00:21
mcast_addr add 0 01:00:5E:00:00:05
show port 0 mcast_macs
mac_addr remove 0 02:00:00:00:00:21
set promisc 0 off
set allmulti 0 on
set verbose 1
set verbose 0
set portmask 0x1
show config fwd
set portlist 1,0
show config fwd
set portmask 0x3
show config fwd
set burst 16
set fwd mac
set txpkts 64
show config txpkts
set eth-peer 0 02:00:00:00:00:99
csum set ip hw 0
port stop all
port config all rxq 2
port config all txq 2
csum set ip hw 0
csum set tcp hw 0
csum set sctp hw 0
csum set outer-udp sw 0
csum show 0
tso set 800 0
tso show 0
tso set 0 0
vlan set strip on 1
tx_vlan set 0 5
tx_vlan reset 0
port config all drop-en on
port start all
show rxq info 0 1
show txq info 1 0
show port 0 rss-hash
show port 0 rss-hash key
show port 0 rss reta 128 (0xf,0x8000000000000000)
port config 0 rss reta (0,1),(1,1)
show port 0 rss reta 128 (0x3,0x0)
port config 0 rss reta (900,1)
port config all rss tcp
show port 0 rss-hash
port config all rss ipv6-udp
show port 1 rss-hash
port config all rss level-inner
show port 0 rss-hash
port config all rss level-outer
port config all rss level-default
port config all rss default
show port 0 rss-hash
port config 0 rss-hash-key ipv4 00
port config 0 rss-hash-key ipv4 zz5A56DA255B0EC24167253D43A38FB0D0CA2BCBAE7B30B477CB2DA38030F20C6A42B73BBEAC01FA
port config 0 rss-hash-key ipv4-udp 6D5A56DA255B0EC24167253D43A38FB0D0CA2BCBAE7B30B477CB2DA38030F20C6A42B73BBEAC0100
show port 0 rss-hash key
show port 1 rss-hash
port config all rss none
show port 0 rss-hash
flow validate 0 ingress pattern eth / ipv4 src is 1.2.3.4 / end actions drop / end
flow create 0 ingress pattern eth / ipv4 / udp dst is 9 / end actions queue index 1 / count / end
flow create 0 priority 1 ingress pattern eth type is 0x0806 / end actions drop / end
flow list 0
start tx_first 2
stop
flow query 0 7 count
flow destroy 0 rule 1
flow list 0
flow flush 0
flow list 0
port 0 rxq 1 stop
port 0 rxq 1 start
port reset 1
port stop 0
port reset 0
port start 0
show port summary 1
"""
# What both programs say of the same ports; how long a link takes and what moves meanwhile is not compared.
ALIKE = re.compile(
    r"(?:MAC address|Device name|Driver name|Connect to socket|memory alloc|Link|MTU|Promiscuous|Allmulti|Hash key|Redirection"
    r"|Supported RSS|Current number of|Max possible|Min possible|VLAN offload|RSS|Port \d|The reta|Invalid R|Configuration of"
    r"|Multi-q|rss_hf|key length|invalid key|Number of|  [0-9A-F:]{17}|Set |Change |previous|Please stop|Stopping|Configuring"
    r"|Checking|Segment|[A-Za-z-]+ checksum offload|TSO|Parse tunnel|\w+ packet forwarding|Logical|  RX P=|Flow rule|ID\t|\d\t"
    r"|[RT]X deferred|[RT]x queue state|RX buffer size|Done|[0-9A-F]{80}$|  ipv[46]|  strip|  nb forw)")
BUT = re.compile(r"Maximum number|Set .* mode with|Link duplex|Port \d is|MTU|Max possible number|Number of segments")


def own_ports(b):
    """The same words about Kilim's ports for Debian's testpmd, which has them as ethdevs, and ours: the same answers."""
    plugin = os.path.join(os.path.dirname(b.program), "../lib/install/librte_net_kilim.so")
    if DEBIAN is None or not os.path.exists(plugin):
        print("dpdk-testpmd or librte_net_kilim.so is not there")
        sys.exit(77)
    told = {}
    for name, program, more in (("ours", b.program, []), ("debian", DEBIAN, ["-d", plugin])):
        line = words(program, pair("o"), "--nb-cores=1")
        line[1:1] = more
        done = subprocess.run(["stdbuf", "-o0", *line], input=OWN + "quit\n", cwd=b.folder, text=True, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True)
        told[name] = [sorted(row.rstrip(" .") for row in answer.split("\n")[1:] if ALIKE.match(row) and not BUT.match(row))
                      for answer in done.stdout.split("testpmd> ")[1:len(OWN.splitlines()) + 1]]
    wrong = [(line, ours, debian) for line, ours, debian in zip(OWN.splitlines(), told["ours"], told["debian"]) if ours != debian]
    assert not wrong, "\n".join(map(str, wrong))
    assert sum(map(len, told["ours"])) > 150 and len(told["ours"]) == len(OWN.splitlines()), told["ours"]


def sayable(text):
    """Lines that testpmd's help says may be said: each alternative once, numbers for what it calls (port_id) or {item}."""
    for line in text.splitlines():
        if not re.match(r"[a-z]\w", line) or line.startswith("testpmd"):
            continue
        line = re.split(r"\t| {2,}", line)[0].rstrip(". ")
        while (shorter := re.sub(r"\[[^][]*\]", "", line)) != line:
            line = shorter
        places = []
        for place in re.findall(r"\([^()]*\)|\{[^{}]*\}|<[^<>]*>|[^\s(){}<>]+", line.replace("*", "").replace("...", "")):
            names = place.strip("(){}<>,").split("|")
            if place[0] in "({<" and len(names) == 1 or names in (["X"], ["value"]) or re.fullmatch(r"port[-_]?id|vlan_id,?", names[0]):
                names = ["0"]
            places.append([name.strip("<>") for name in names])
        if len(places) > 1:
            yield [names[0] for names in places]
        for at, names in enumerate(places):
            for name in names[1:]:
                yield [*(n[0] for n in places[:at]), name, *(n[0] for n in places[at + 1:])]


def lacking(b):
    """Whatever Debian's testpmd says in `help all` and `--help` is a word here too, or is named as lacking."""
    if DEBIAN is None:
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    text = say(b, DEBIAN, ["net_null0"], ["help all", "quit"])
    # A rule without items, and what ends the program or its ports.
    lines = [" ".join(w) for w in sayable(text) if w[0] not in ("quit", "load", "filters:", "y_actions", "start")
             and w[:2] not in (["flow", "validate"], ["flow", "create"], ["flow", "query"], ["port", "close"], ["port", "detach"])]
    assert len(lines) > 400 and "set vf mac antispoof 0 0 off" in lines and "tso show 0" in lines, lines
    out = say(b, b.program, pair("l"), [*lines, "quit"])
    unknown = re.findall(r"testpmd> (.*)\n(?:Command not found|Bad arguments).*", out)
    assert "Command not found" not in out and "Bad arguments" not in out, unknown
    assert out.count("is not in kilim-testpmd") > 200, out
    done = subprocess.run([DEBIAN, *EAL, *lcores(), "--vdev", "net_null0", "--", "--help"], capture_output=True, text=True,
                          timeout=SECONDS, check=False)
    names = set(re.findall(r"^  --([a-z0-9-]+)", done.stdout + done.stderr, re.M))
    assert len(names) > 80, done
    mine = subprocess.run([b.program, "--", "--help"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    have = set(re.findall(r"--([a-z0-9-]+)", mine))
    for name in sorted(names - have):
        done = subprocess.run([b.program, *EAL, "--", "--" + name], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert f"--{name} of dpdk-testpmd is not in kilim-testpmd" in done.stderr, (name, done.stderr)


def rings(b):
    """Ports of other drivers, alone and exchanging with Kilim's: every packet is accounted for."""
    write(b.path("in.pcap"), frames())
    count = len(frames())
    vdevs = [vdev(0, "pcap:in.pcap:out0.pcap"), "net_pcap0,rx_pcap=in.pcap,tx_pcap=out1.pcap"]
    out = say(b, b.program, vdevs, ["show port summary all", "start", moved(rx=(count, count), tx=(count, count)), "stop", "quit"],
              "--no-flush-rx")
    assert "net_pcap" in out, out
    assert forwarded(out) == [("0", count, count, 0), ("1", count, count, 0), ("all", 2 * count, 2 * count, 0)], out
    for name in ("out0.pcap", "out1.pcap"):
        b.same("in.pcap", name)
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", "net_null0", "--", "--fwd=rxonly",
                           "--num-packets=1000", "--json=s.json"], cwd=b.folder, text=True,
                          capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and "forwarded      1000," in done.stdout, done
    out = say(b, b.program, vdevs, ["set verbose 1", "start", Seen("port 1/queue 0: received[\\s\\S]*type=0x86dd - length="), "stop", "quit"],
              "--no-flush-rx")
    assert "port 1/queue 0: received" in out and "dst=02:00:00:00:00:01 - type=0x86dd - length=" in out, out
    assert "needs ports of Kilim" in say(b, b.program, ["net_null0"], ["set fwd umr", "start", "quit"])
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", "net_null0", "--", "--rxq=64", "--fwd=rxonly", "--duration=1"],
                          cwd=b.folder, text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and "net_null0 on net_null" in done.stdout, done


def own_network():
    """This process gets a network of its own, in which it may make interfaces; a reason where it may not."""
    new_user, new_net = 0x10000000, 0x40000000
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_net) != 0:
        if libc.unshare(new_user | new_net) != 0:
            return "no network namespace: " + os.strerror(ctypes.get_errno())
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
            with open("/proc/self/" + name, "w", encoding="ascii") as f:
                f.write(text)
    made = subprocess.run(["ip", "link", "add", "kilim-a", "type", "veth", "peer", "name", "kilim-b"], check=False,
                          capture_output=True, text=True)
    if made.returncode != 0:
        return "no interface may be made: " + made.stderr.strip()
    for name in ("lo", "kilim-a", "kilim-b"):
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
    return "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun may not be opened"


def numbered(first):
    return [b"\xff" * 6 + b"\2\0\0\0\0\2\x88\xb5" + number.to_bytes(4, "big") + bytes(82)
            for number in range(first, first + 64)]


def exchange(b, device, interface):
    """Frames of a Kilim port leave by the interface, and those that come there leave by Kilim's port."""
    to_linux, to_kilim = numbered(0), numbered(1000)
    write(b.path("in.pcap"), to_linux)
    with subprocess.Popen(words(b.program, [vdev(0, "pcap:in.pcap:out.pcap"), device], "--no-flush-rx"), cwd=b.folder,
                          text=True, bufsize=1, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as p:
        end = time.monotonic() + SECONDS / 2
        while interface not in (name for _, name in socket.if_nameindex()):   # a tap comes with the program
            assert time.monotonic() < end and p.poll() is None, interface
            time.sleep(0.05)
        subprocess.run(["ip", "link", "set", interface, "up"], check=True)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5)) as link:
            link.bind((interface, 0x88B5))
            link.settimeout(SECONDS / 4)
            p.stdin.write("show port summary all\nset promisc 1 on\nstart\n")
            came = [link.recv(2000) for _ in to_linux]
            for frame in to_kilim:
                link.send(frame)
            while len(list(b.pcap.frames(b.path("out.pcap")))) < len(to_kilim) and time.monotonic() < end:
                time.sleep(0.1)
        out, _ = p.communicate("stop\nshow port stats 1\nquit\n", timeout=SECONDS)
    assert p.returncode == 0, out
    assert came == to_linux, (interface, len(came))
    left = [f for f in b.pcap.frames(b.path("out.pcap")) if f[12:14] == b"\x88\xb5"]
    assert left == to_kilim, (interface, len(left), out)
    rows = forwarded(out)
    assert rows[0][1] == rows[1][2] == 64 and rows[1][1] == rows[0][2] >= 64, rows


def interfaces(b):
    """net_af_packet and net_tap beside Kilim's port, with Linux at the other end: no frame is lost or changed."""
    why = own_network()
    if why:
        print(why)
        sys.exit(77)
    exchange(b, "net_af_packet0,iface=kilim-a", "kilim-b")
    exchange(b, "net_tap0,iface=kilim-t", "kilim-t")


if __name__ == "__main__":
    main((modes, debian, own_ports, lacking, rings, interfaces), *sys.argv[1:])
