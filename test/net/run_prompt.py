#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-testpmd's prompt: sessions, ports that come and go, lines of any bytes, the terminal, the command line.

Usage: run_prompt.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import json
import os
import random
import re
import struct
import subprocess
import sys
import time

import dpkt

sys.dont_write_bytecode = True
from prompt_bench import (EAL, SECONDS, Seen, Until, ether, forwarded, frames, ipv4, main, moved, pair, say,  # noqa: E402
                          words, write)
from run_testpmd import vdev  # noqa: E402


def commands(b):
    """A session of many commands: each is answered in testpmd's words, and nothing is lost."""
    out = say(b, b.program, pair("c"), [
        "show port summary all", "show config rxtx", "show fwd config", "set fwd mac", "set burst 16",
        "set eth-peer 1 02:00:00:00:00:77", "start tx_first 2", moved(total=101), "start", "set fwd io", "stop",
        "show fwd stats all", "clear port stats all", "show port stats 1", "show port xstats 0",
        "show umr keys", "show umr pools", "show umr chooser", "show mr", "show odp caps",
        "show odp stats", "show inline-recv", "show buffers", "show buffers leaks", "explain last",
        "set txpkts 64,64", "show config txpkts", "show port 0 macs", "set promisc all off",
        "set allmulti 0 on", "port config mtu 0 1400", "port config mtu all 20", "show port info 0", "stop", "show port stats 7", "frobnicate",
        "set conntrack x", "help all", "quit"])
    for part in ("Number of available ports: 2", "Set mac packet forwarding mode",
                 "Number of packets per burst set to 16", "peer=02:00:00:00:00:77",
                 "mac packet forwarding packets/burst=16", "Packet forwarding already started",
                 "set fwd: please stop forwarding first", "Telling cores to stop...", "Done.",
                 "NIC statistics for port 1 cleared", "rx_q0_packets: ", "port 0 (vhca0): keys-bound 0",
                 "mode mac decides nothing", "lkey 0x", "num_page_faults", "up to 32 bytes in the CQE",
                 "free in the pool", "--pool-debug", "no completion with an error was seen",
                 "Segment sizes: 64,64", "Promiscuous mode: disabled", "Allmulticast mode: enabled",
                 "MTU: 1400", "port 1 MTU 20: an MTU is 68 to 9978 bytes, or 0 for none",
                 "Packet forwarding not started", "Invalid port 7", "Command not found: 'frobnicate'",
                 "dpdk-testpmd's `set conntrack` is not in kilim-testpmd", "Bye..."):
        assert part in out, (part, out)
    told = [line for line in out[out.index("Control forwarding:"):].splitlines() if len(line) > 80]
    assert not told, f"help has lines of more than 80 columns: {told}"
    rows = forwarded(out)
    assert len(rows) == 6 and rows[:3] == rows[3:], rows
    first = rows[0][1] + rows[1][1]
    assert first > 100 and rows[2][1] == first and rows[2][3] == 0, rows
    # Two bursts of 16 a port began, and are what is under way at the end at most.
    assert 0 <= rows[2][2] - rows[2][1] <= 64, rows
    cleared = out[out.index("NIC statistics for port 1 cleared"):]
    assert re.search(r"RX-packets: 0 +RX-missed: 0", cleared), cleared


def flows(b):
    """Rules in testpmd's syntax are checked, made, listed, asked and removed."""
    def hits(text):
        return int(re.search(r" hits: (\d+)", text).group(1))

    out = say(b, b.program, pair("f"), [
        "flow validate 0 ingress pattern eth / ipv4 src is 1.2.3.4 / end actions drop / end",
        "flow create 0 ingress pattern eth / ipv4 / udp dst is 9 / end actions queue index 0 / count / end",
        "flow create 0 priority 1 pattern eth type is 0x0806 / end actions drop / end",
        "flow create 0 pattern eth / end actions queue index 9 / end", "flow list 0", "start tx_first 2",
        Until("flow query 0 0 count", lambda answer: hits(answer) >= 64), "flow query 0 0 count", "stop", "flow query 0 1 count", "flow destroy 0 rule 1", "flow destroy 0 rule 1",
        "flow create 0 pattern udp dst is 9 / end actions drop / end", "flow flush 0", "flow list 0",
        "flow create 1 group 3 pattern eth / end actions drop / end", "flow create 5 x",
        "flow isolate 0 1", "flow isolate 0 off", "flow aged 0", "quit"])
    for part in ("Flow rule validated", "Flow rule #0 created", "Flow rule #1 created",
                 "(action configuration): action.queue: the port has no such receive queue",
                 "0\t0\t0\ti--\tETH IPV4 UDP => QUEUE COUNT", "1\t0\t1\ti--\tETH => DROP",
                 "Flow rule #1 destroyed", "Flow rule #1 not found", "there is one group", "Invalid port 5",
                 "Ingress traffic on port 0 is now restricted to the defined flow rules",
                 "Ingress traffic on port 0 is not restricted anymore to the defined flow rules",
                 "`flow aged` is not in kilim-testpmd"):
        assert part in out, (part, out)
    assert hits(out) >= 64, out
    assert out.count("ID\tGroup") == 1, out
    inner = next(f for f in frames() if f[12:14] == b"\x08\0")
    vxlan = dpkt.udp.UDP(sport=5, dport=4789, data=struct.pack(">II", 0x08000000, 7 << 8) + inner)
    vxlan.ulen = len(vxlan)
    write(b.path("in.pcap"), [ether(0x800, bytes(ipv4(17, vxlan))), inner])
    cable = f"cable:prompt{os.getpid()}marks"  # frames from a file go by port 1 to port 2, whose rules come first
    out = say(b, b.program, [vdev(0, "pcap:in.pcap:out.pcap"), vdev(1, cable), vdev(2, cable)], [
        "flow create 2 pattern eth / ipv4 / udp dst is 4789 / vxlan vni is 7 / end actions mark id 31 / queue index 0 / end",
        "set verbose 1", "start", Seen(" - Receive queue=0x0", 6), "stop", "quit"])
    shown = re.findall(r" - FDIR matched ID=(\S+) - hw ptype: (.*?) *- Receive queue=0x0", out)
    assert shown == [("0x1f", "L2_ETHER L3_IPV4_EXT_UNKNOWN INNER_L3_IPV4_EXT_UNKNOWN INNER_L4_UDP")], out
    assert out.count(" - Receive queue=0x0") == 6 and " - hw ptype: L2_ETHER L3_IPV4_EXT_UNKNOWN L4_UDP" in out, out


def levels(b):
    """Frames of one tunnel are spread by their outer headers, or by those inside: by word, by rule and by option."""
    def tunnelled(i):
        udp = dpkt.udp.UDP(sport=1000 + i, dport=9, data=bytes(18))
        udp.ulen = len(udp)
        outer = dpkt.udp.UDP(sport=5, dport=4789, data=struct.pack(">II", 0x08000000, 7 << 8)
                             + ether(0x800, bytes(ipv4(17, udp))))
        outer.ulen = len(outer)
        return ether(0x800, bytes(ipv4(17, outer)))

    write(b.path("in.pcap"), [tunnelled(i) for i in range(64)])
    cable = f"cable:prompt{os.getpid()}levels"  # from the file by port 1 to port 2
    vdevs = [vdev(0, "pcap:in.pcap:out.pcap"), vdev(1, cable), vdev(2, cable)]

    def came(script, *own):
        out = say(b, b.program, vdevs, [*script, "start", moved(rx=(64, 0, 64)), "stop", "quit"], "--rxq=4", "--rss-udp", *own)
        found = re.findall(r"RX Port= 2/Queue= (\d) .*\n  RX-packets: (\d+)", out)
        assert sum(int(n) for _, n in found) == 64, (found, out)
        return len(found), out

    rule = "flow create 2 pattern eth / ipv4 / udp dst is 4789 / vxlan / end actions rss level 2 types udp end / end"
    for script, own, queues_used in (
            ([], [], 1), (["port config all rss level-inner"], [], 4), ([rule], [], 4),
            (["port config all rss level-outer"], ["--rss-level-inner"], 1)):
        used, out = came(script, *own)
        assert used == queues_used, (script, own, used, out)
        assert ("rss_hf 0x" in out) == (len(script) == 1 and "level-" in script[0]), out
    line = [w for w in words(b.program, vdevs, "--rxq=4", "--rss-udp", "--rss-level-inner", "--duration=1", "--json=s.json")
            if w != "-i"]
    subprocess.run(line, cwd=b.folder, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)
    with open(b.path("s.json"), encoding="utf-8") as f:
        rx = json.load(f)["ports"][2]["rx_queues"]
    assert len(rx) == 4 and all(q["packets"] > 0 for q in rx), rx


def queues(b):
    """Ports are stopped, get other queues, and go on; a mode with keys likewise."""
    script = ["port config 0 rss reta (1,0),(127,0)", "port config 0 rss reta (1,1)", "port config all rxq 2", "port stop all", "port config all rxq 2", "port config all rxd 100",
              "port config all rxd 256", "port start all", "show config rxtx"]
    for mode in ("umr", "io"):
        script += [f"set fwd {mode}", "start tx_first", moved(rx=(1, 1)), "stop", "port stop 1", "start", "port start 1"]
    out = say(b, b.program, pair("q"), [*script, "show port 0 rss reta", "port 0 rxq 1 stop", "port 0 rxq 1 start",
                                        "port 0 rxq 5 stop", "quit"], "--umr-keys=64")
    for part in ("Please stop all ports first", "RX queue number: 2", "RX desc=256", "64 to 8192",
                 "Not all ports were started", "hash index=1, queue=1", "no started receive queue 5"):
        assert part in out, (part, out)
    # As many entries as `show port info` says, of a single queue too.
    assert out.count("The reta size of port 0 is 128") == 2 and "Invalid RETA" not in out, out
    assert out.count("the port has no such receive queue") == 1, out
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
        tmux("set-option", "-g", "exit-empty", "off")
        wait("testpmd>")
        tmux("send-keys", "sho", "Tab", "po", "Tab", "sum", "Tab", "all", "Enter")
        wait("Number of available ports: 2")
        tmux("send-keys", "Up", "Enter")
        end = time.monotonic() + 20
        while tmux("capture-pane", "-p").count("Number of available ports: 2") < 2:
            assert time.monotonic() < end
            time.sleep(0.1)
        tmux("send-keys", "-l", "set fwd ?")
        wait("mac [Mul-choice STRING]: set fwd mac: How packets are forwarded.")
        tmux("send-keys", "Enter")
        wait("'fwd' is not all; known here: io mac")
        tmux("send-keys", "quit", "Enter")
        end = time.monotonic() + 20
        while tmux("list-sessions"):
            assert time.monotonic() < end
            time.sleep(0.1)
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
        "port attach net_kilim7,hca=vhca7", "show port summary all", "port start 2", "start tx_first",
        moved(rx=(64, 64, 0), tx=(64, 64, 32)), "stop", "port detach 2", "port stop 2", "port detach 2",
        "port attach net_null0", "port start 2", "start", moved(rx=(0, 0, 64)), "stop",
        "port attach net_nothing0", "port attach net_kilim9,bogus=1", "port close 0", "port stop all", "port close 2",
        "port detach 1", "port detach 0", "show port summary all", "lint on", "quit"])
    for part in ("Port 2 is attached. Now total ports is 3", "is not stopped", "Port 2 (net_kilim7) is detached",
                 "devarg bogus is unknown", "the last port stays", "Number of available ports: 1", "lint is on"):
        assert part in out, (part, out)


def renumbered(b):
    """What was said of a port by its number goes with it, and is said of no port that has the number later."""
    more = [f"port attach net_kilim{n},hca=vhca{n}" for n in (5, 6)]
    out = say(b, b.program, pair("r"), [
        "port stop all", *more, "tso set 100 1", "tso set 200 2", "tx_vlan set 2 9", "csum set ip hw 2",
        "set eth-peer 2 02:00:00:00:00:22", "set portmask d", "port start all", "port stop 1", "port detach 1",
        "show config fwd", "port stop 1", "tso show 0", "tso show 1", "csum show 1", "tso show 2", "port attach net_null0",
        "set portlist 2,0", "show config fwd", "port stop 2", "port detach 2", "show config fwd",
        "port stop all", "port detach 1", "port attach net_kilim7,hca=vhca7", "tso show 1", "csum show 1", "show config fwd",
        "port detach 0", "show config fwd", "quit"])
    parts = out.split("testpmd> ")

    def said(line, number=0):
        return [p for p in parts if p.startswith(line + "\n")][number]
    assert "ports=3 " in said("show config fwd"), out
    assert "disabled" in said("tso show 0") and "is 200" in said("tso show 1") and "disabled" in said("tso show 2"), out
    assert "IP checksum offload is hw" in said("csum show 1") and "IP checksum offload is sw" in said("csum show 1", 1), out
    assert "-> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:22" in said("show config fwd"), out
    second = said("show config fwd", 1)
    assert second.index("RX P=2") < second.index("RX P=0") and "RX P=1/" not in second, out
    assert "ports=1 " in said("show config fwd", 2) and "RX P=0" in said("show config fwd", 2), out
    assert "disabled" in said("tso show 1", 1), out
    assert "02:00:00:00:00:22" not in said("show config fwd", 3) and "ports=2 " in said("show config fwd", 3), out
    assert "ports=1 " in said("show config fwd", 4), out


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
    done = subprocess.run([b.program, "--version"], text=True, capture_output=True, timeout=SECONDS)
    assert done.returncode == 0 and re.match(r"kilim-testpmd \d+\.\d+\.\d+", done.stdout), done
    done = subprocess.run([b.program, *EAL, "-l", "0", "--vdev", pair("o")[0], "--vdev", pair("o")[1], "--",
                           "--duration=1"], cwd=b.folder, text=True, capture_output=True, timeout=SECONDS)
    assert "start tx_first" in done.stderr and "--tx-first" in done.stderr, done
    out = say(b, b.program, pair("1"), [moved(tx=(7,)), "stop", "show config fwd", "show port 0 rss-hash", "quit"], "--auto-start",
              "--tx-first", "--portmask=0x2", "--port-topology=loop", "--rss-udp", "--rxq=2", "--burst=7", "--rxd=128", "--txd=256",
              "--forward-mode=macswap", "--eth-peer=1,02:00:00:00:00:55")
    for part in ("Start automatic packet forwarding", "macswap packet forwarding packets/burst=7", "RX desc=128",
                 "TX desc=256", "RX P=1/Q=0 (socket 0) -> TX P=1/Q=0 (socket 0) peer=02:00:00:00:00:55", "ipv4-udp"):
        assert part in out, (part, out)
    assert "RX P=0/Q=0" not in out, out
    out = say(b, b.program, pair("2"), ["show config fwd", "quit"], "--nb-ports=1", "--port-topology=chained", "--nb-cores=1")
    assert "ports=1 " in out and "RX P=0/Q=0 (socket 0) -> TX P=0/Q=0" in out and "RX P=1" not in out, out
    write(b.path("in.pcap"), frames())
    out = say(b, b.program, [vdev(0, "pcap:in.pcap:out.pcap")],
              ["set verbose 1", "start", Seen("ol_flags: .*\n", len(frames())), "stop", "show port info 0", "quit"], "--enable-rx-cksum",
              "--enable-hw-vlan-strip", "--enable-rx-timestamp", "--enable-scatter", "--disable-rss", "--fwd=csum")
    flags = re.findall(r"ol_flags: (.*)", out)
    # Headers that are right: IPv4 of tagged frames and echoes, all of IPv6; as a card of mlx5 it calls none wrong.
    good = sum("RTE_MBUF_F_RX_IP_CKSUM_GOOD" in f for f in flags)
    assert len(flags) == len(frames()) and good == 11 * 5 and "CKSUM_BAD" not in "".join(flags), (good, len(flags), out)
    assert sum("RTE_MBUF_F_RX_VLAN_STRIPPED" in f for f in flags) == 4 * 5 and "strip on" in out, out
    assert not any(f[12:14] == b"\x81\0" for f in b.pcap.frames(b.path("out.pcap"))), "a tag is left"


def modes_of_options(b):
    """What the options of single modes make is in the frames; --num-packets forwards as many; latency is of each."""
    b.make("in.pcap", 500)
    for number in (1, 33, 499):
        stats, text = b.stats([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=io", f"--num-packets={number}", "--duration=20",
                              "--latency", "--json")
        assert stats["total"]["forwarded"] == number == len(list(b.pcap.frames(b.path("out.pcap")))), stats
        latency = stats["total"]["latency"]
        assert latency["packets"] == number and 0 < latency["half_below_ns"] <= latency["all_below_ns"], stats
        assert "half below" in text and "99% below" in text, text
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


def alike(stats):
    """A cable's directions carry the same, but for where the run began and ended."""
    received = [p["rx_packets"] for p in stats["ports"]]
    assert max(received) <= 1.1 * min(received) + 512, received


def dealt(b):
    """Both directions of a pair of ports are one lcore's, and the last lcores take what remains, as in dpdk-testpmd."""
    cpus = sorted(os.sched_getaffinity(0))
    lcores = ",".join(f"{n}@{cpus[n % len(cpus)]}" for n in range(3))
    for queues, (one, two) in ((1, (["0/0", "1/0"], ["2/0", "3/0"])), (2, (["0/0", "1/0", "2/0", "3/0"], ["0/1", "1/1", "2/1", "3/1"]))):
        line = [b.program, *EAL, "--lcores", lcores]
        for n, v in enumerate(pair("d") + pair("e")):
            line += ["--vdev", v.replace(f"net_kilim{n % 2},hca=vhca{n % 2}", f"net_kilim{n},hca=vhca{n}")]
        line += ["--", "-i", "--nb-cores=2", "--total-num-mbufs=16384", f"--rxq={queues}", f"--txq={queues}"]
        done = subprocess.run(line, input="show config fwd\nquit\n", text=True, capture_output=True, cwd=b.folder,
                              timeout=SECONDS, check=True)
        _, first, second = done.stdout.split("Logical Core ")[-3:]
        for text, streams in ((first, one), (second, two)):
            assert ["/".join(s) for s in re.findall(r"RX P=(\d)/Q=(\d)", text)] == streams, done.stdout


def numbers(b):
    """Rates, cycles split in three, drops by their cause, keys where keys are; the screen is lines in a pipe."""
    stats, text = b.stats(pair("p"), "--tx-first", "--duration=2", "--stats-period=1", "--json")
    alike(stats)
    total = stats["total"]
    assert total["forwarded"] > 64 and sum(total["drops"].values()) == 0, stats
    for port in stats["ports"]:
        for way in ("rx_rate", "tx_rate"):
            r = port[way]
            assert 0 < r["mean_pps"] and 0 < r["max_pps"] and r["max_bps"] > 64 * 8 and r["pps"] <= r["max_pps"], stats
    assert total["cycles_per_packet"] > 0 and total["device_cycles_per_packet"] > 0 and 0 <= total["idle_share"] <= 1, stats
    assert text.count("---- statistics, mode io") >= 1 and text.count("---- final statistics, mode io") == 1, text
    rate = re.findall(r"[RT]X-rate +\d+ pps, \d+ bps;\s+mean (\d+) pps, \d+ bps;\s+max (\d+) pps", text)
    assert len(rate) >= 8 and all(int(mean) > 0 for mean, _ in rate[-4:]), text
    assert re.search(r"cycles +library \d+ a packet, virtual device \d+;\s+the lcores were idle", text), text
    assert "keys-" not in text and "bound" not in text, text
    missed, text = b.stats(pair("m"), "--fwd=txonly", "--duration=1", "--rxq=2", "--txq=2", "--json")
    drops = missed["total"]["drops"]
    assert drops["rx_missed"] > 0 and sum(drops.values()) == drops["rx_missed"], drops
    assert re.search(r"drops: +RX-missed [1-9]", text) and "TX-rate q1 " in text, text
    heard, _ = b.stats(pair("h"), "--fwd=rxonly", "--tx-first", "--duration=1", "--json", "--stats-period=0")
    total = heard["total"]
    assert total["tx_completed"] == total["tx_packets"] == total["rx_packets"] == 64, total
    keyed, text = b.stats(pair("k"), "--fwd=umr", "--tx-first", "--duration=1", "--json")
    assert keyed["total"]["keys_bound"] == keyed["total"]["keys_ended"] > 64 and "keys-ended" in text, keyed
    alike(keyed)
    say(b, b.program, pair("u"), ["set fwd umr", "start tx_first", Until(
        "show umr keys", lambda a: len(re.findall(r"port .*keys-ended [1-9]", a)) == 2
        and len(re.findall(r"TX queue 0: bound [1-9]\d*, ended [1-9]", a)) == 2), "stop", "quit"])
    done = b.run(pair("s"), "--tx-first", "--duration=2", "--screen")
    assert "\x1b" not in done.stdout and "---- statistics, mode io" in done.stdout, done.stdout


if __name__ == "__main__":
    main((commands, flows, levels, queues, hostile, terminal, attached, renumbered, options, modes_of_options, dealt, numbers), *sys.argv[1:])
