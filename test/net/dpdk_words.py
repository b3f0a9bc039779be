# SPDX-License-Identifier: BSD-3-Clause
"""The tests of run_ethdev.py that say words of dpdk-testpmd's prompt and see them in frames: the test is the port's
neighbour on a `dgram:` wire."""

import os
import re
import signal
import subprocess
import sys
import time

import dpkt

from dpdk_bench import LONG, NO_HUGE, PACKETS, RESTARTS, udp, write_often
from dpdk_programs import EXAMPLES, build


def neighbours(b, count):
    """As many ports with one neighbour each: their devargs, and the neighbours."""
    sys.path.insert(0, os.path.join(b.root, "test/interop"))
    from testpmd import Neighbour
    made = []
    for n in range(count):
        folder = b.path(f"wire{n}")
        os.mkdir(folder, 0o700)
        made.append(Neighbour(folder))
    return [f"wire={n.wire}" for n in made], made


def passed(t, neighbour, frames, seconds=5):
    """Sends frames to a port that receives only; those of its two queues that counted them."""
    before = t.stats(0)
    for frame in frames:
        neighbour.send(frame, time.monotonic() + seconds)
    end = time.monotonic() + 0.4
    while True:
        now = t.stats(0)
        got = [now[f"rx_q{q}_packets"] - before[f"rx_q{q}_packets"] for q in (0, 1)]
        if sum(got) == len(frames) or time.monotonic() > end:
            return got
        time.sleep(0.02)


def flows(b):
    """flow validate, create, list, query, destroy, flush: what the prompt says, and where frames go."""
    (wire,), (far,) = neighbours(b, 1)
    t = b.testpmd([f"net_kilim0,{wire}"], "--portmask=1", "--forward-mode=rxonly", "--rxq=2", "--txq=2", "--disable-rss")
    t.say("start")
    rule = "ingress pattern eth / ipv4 / udp dst is 5000 / end actions queue index 1 / count / end"
    mine, other = udp(dport=5000), udp(dport=5001)
    assert "Flow rule validated" in t.say(f"flow validate 0 {rule}"), t.log
    assert passed(t, far, [mine]) == [1, 0], "a rule that was validated only works"
    assert "Flow rule #0 created" in t.say(f"flow create 0 {rule}"), t.log
    assert passed(t, far, [mine, mine, other]) == [1, 2]
    assert "Flow rule #1 created" in t.say("flow create 0 priority 1 ingress pattern eth / ipv4 / udp dst is 5001 / end "
                                           "actions drop / count / end"), t.log
    assert passed(t, far, [mine, other, other]) == [0, 1]
    listed = t.say("flow list 0")
    for row in (r"^0\s+0\s+0\s+i--\s+ETH IPV4 UDP => QUEUE COUNT", r"^1\s+0\s+1\s+i--\s+ETH IPV4 UDP => DROP COUNT"):
        assert re.search(row, listed, re.M), listed
    for number, hits in ((0, 3), (1, 2)):
        said = t.say(f"flow query 0 {number} count")
        assert f"hits: {hits}" in said and f"bytes: {hits * len(mine)}" in said, said
    assert "Caught" in t.say("flow query 0 7 count") or "not found" in t.log, t.log
    assert "Flow rule #1 destroyed" in t.say("flow destroy 0 rule 1"), t.log
    assert passed(t, far, [mine, other]) == [1, 1]
    for words, kind, why in (("priority 7 ingress pattern eth / end actions drop / end", "4 (priority field)", "0 to 2"),
                             ("group 1 ingress pattern eth / end actions drop / end", "3 (group field)", "group is 0"),
                             ("egress pattern eth / end actions queue index 0 / end", "6 (egress field)", "to no queue"),
                             ("ingress pattern eth / ipv4 / ipv4 / end actions drop / end", "13 (specific pattern item)", "one of each"),
                             ("ingress pattern eth / ipv4 packet_id is 3 / end actions drop / end", "12 (item specification mask)", "no rule"),
                             ("ingress pattern eth / end actions queue index 9 / end", "15 (action configuration)", "no such"),
                             ("ingress pattern eth / end actions jump group 1 / end", "16 (specific action)", "actions are")):
        for verb in ("validate", "create"):
            said = t.say(f"flow {verb} 0 {words}")
            assert f"PMD error type {kind}" in said and why in said, said
    assert passed(t, far, [mine, other]) == [1, 1]
    t.say("flow flush 0")
    assert "QUEUE" not in t.say("flow list 0")
    assert passed(t, far, [mine, other]) == [2, 0]
    t.say("stop")
    t.quit()


def echo_request(number):
    """An ICMP echo request with this number as its sequence and in its data."""
    echo = dpkt.icmp.ICMP.Echo(id=7, seq=number & 0xffff, data=number.to_bytes(4, "big") * 10)
    ip = dpkt.ip.IP(src=b"\xc6\x12\0\1", dst=b"\xc6\x12\0\2", p=1, data=dpkt.icmp.ICMP(type=8, data=echo))
    ip.len = len(ip)
    return bytes(dpkt.ethernet.Ethernet(dst=b"\2\0\0\0\0\2", src=b"\2\0\0\0\0\1", data=ip))


def reply_of(request):
    """What icmpecho makes of it: addresses swapped, type 0, a right checksum."""
    ip = dpkt.ip.IP(request[14:])
    ip.src, ip.dst = ip.dst, ip.src
    ip.data.type = 0
    ip.sum = ip.data.sum = 0
    return request[6:12] + request[:6] + request[12:14] + bytes(ip)


def counted(b):
    """rxonly and icmpecho, which turn nothing round between two ports: every frame of a file is received, or lay in a
    queue when its port was stopped; every one received is answered."""
    row = [echo_request(n) for n in range(50)]
    write_often(b.path("in.pcap"), row, PACKETS // len(row))
    for mode in ("rxonly", "icmpecho"):
        t = b.testpmd(["net_kilim0,wire=pcap:in.pcap:out.pcap"], "--portmask=1", "--burst=64", "--no-flush-rx",
                      f"--forward-mode={mode}")
        for turn in range(RESTARTS):
            t.say("start")
            while (count := accounted(now := t.stats(0))) < PACKETS * (turn + 1) // RESTARTS:
                assert time.monotonic() < t.end, now
            assert "Done" in t.say("stop")
            t.say("port stop all")
            now = t.stats(0)
            assert mode == "rxonly" or now["tx_good_packets"] == now["rx_good_packets"], now
            assert "Done" in t.say("port start all")
        count = accounted(now)
        assert count == PACKETS and now["rx_missed_errors"] == 0, now
        assert now["rx_q0_discarded"] <= 256 * RESTARTS, now
        t.quit()
        print(f"{mode}: {count} frames, {now['rx_q0_discarded']} of them in queues that stopped, "
              f"{now['tx_good_packets']} answers, {RESTARTS} restarts", flush=True)
    answers = {reply_of(frame) for frame in row}
    replies = 0
    for reply in b.pcap.frames(b.path("out.pcap")):
        assert reply in answers, reply
        replies += 1
    assert replies == now["tx_good_packets"], (replies, now)


def accounted(stats):
    return stats["rx_good_packets"] + stats["rx_missed_errors"] + stats["rx_q0_discarded"] + stats["rx_q0_errors"]


def first_day(b):
    """What is asked of a port on the first day: MTU, RSS key, descriptors, module, reset, each by testpmd's words."""
    (wire,), (far,) = neighbours(b, 1)
    t = b.testpmd([f"net_kilim0,{wire}"], "--portmask=1", "--forward-mode=rxonly", "--rxq=2", "--txq=2", "--rss-udp",
                  "--rx-offloads=0x2000", "--mbuf-size=2304")
    t.say("start")
    small, large = udp(size=1400), udp(size=8900)
    assert sum(passed(t, far, [small])) == 1
    assert sum(passed(t, far, [large])) == 0, "a frame above the MTU arrived"
    assert "Set MTU failed. diag=-16" in t.say("port config mtu 0 9000"), t.log
    assert sum(passed(t, far, [small])) == 1
    t.say("stop")
    t.say("port stop 0")
    assert "ail" not in t.say("port config mtu 0 9000"), t.log
    t.say("port start 0")
    t.say("start")
    assert "MTU: 9000" in t.say("show port info 0"), t.log
    assert sum(passed(t, far, [large, small])) == 2
    assert "ail" not in t.say("port config mtu 0 1500") + t.say("port config mtu 0 8942"), t.log  # under way
    assert "MTU: 8942" in t.say("show port info 0")
    assert sum(passed(t, far, [large])) == 1
    key = bytes(n * 37 + 11 & 0xff for n in range(40))
    t.say(f"port config 0 rss-hash-key ipv4-udp {key.hex()}")
    assert key.hex().upper() in t.say("show port 0 rss-hash key"), t.log
    frames = [udp(sport=n) for n in range(1000, 1032)]
    wanted = [0, 0]
    for f in frames:
        wanted[toeplitz(key, f[26:38]) % 128 % 2] += 1
    assert passed(t, far, frames) == wanted, (wanted, t.stats(0))
    assert "Desc status = AVAILABLE" in t.say("show port 0 rxq 0 desc 5 status"), t.log
    assert "Desc status = DONE" in t.say("show port 0 txq 0 desc 0 status"), t.log
    for words in ("show port 0 module_eeprom", "set link-down port 0"):
        said = t.say(words)
        assert "not supported" in said or "fail" in said, said
    assert "vhca" in t.say("show device info all") + t.say("show port info 0"), t.log
    t.say("stop")
    t.say("port stop 0")
    assert "ail" not in t.say("port reset 0"), t.log
    t.say("port start 0")
    t.say("start")
    assert sum(passed(t, far, [small])) == 1
    t.say("stop")
    t.quit()


def toeplitz(key, data):
    """The exclusive or of the key's 32 bits from each place on where the data has a 1."""
    bits, number, result = len(data) * 8, int.from_bytes(data, "big"), 0
    whole = int.from_bytes(key, "big")
    for n in range(bits):
        if number >> (bits - 1 - n) & 1:
            result ^= whole >> (len(key) * 8 - 32 - n) & 0xffffffff
    return result


def power(b):
    """DPDK's l3fwd-power, unchanged, sleeps until receive interrupts wake it, and forwards what came."""
    if not os.path.isdir(EXAMPLES):
        print("Debian's package dpdk-doc, which has DPDK's examples, is not installed")
        sys.exit(77)
    program = build(b, "l3fwd-power")
    wires, (left, right) = neighbours(b, 2)
    vdevs = [w for n in (0, 1) for w in ("--vdev", f"net_kilim{n},{wires[n]},progress=thread")]
    with open(b.path("log"), "w", encoding="utf8") as log:
        process = subprocess.Popen(["stdbuf", "-o0", "-e0", program, *NO_HUGE[:-1], "512", "-l", "0", *b.eal(), *vdevs,
                                    "--log-level=user1:info", "--", "-p", "3", "-P", "--interrupt-only", "--parse-ptype",
                                    "--config=(0,0,0),(1,0,0)"], cwd=b.folder, stdout=log, stderr=subprocess.STDOUT)
    b.processes.append(process)

    def said():
        with open(b.path("log"), encoding="utf8") as f:
            return f.read()

    while "entering main interrupt loop" not in said():
        assert process.poll() is None, said()[-3000:]
        time.sleep(0.05)
    turns, got = 400 if LONG else 40, 0
    for turn in range(turns):
        # To 2.1.1.0/24, which goes to port 1, and from there to 1.1.1.0/24.
        frame = bytes.fromhex("ffffffffffff") + udp(sport=1000 + turn)[6:30] + bytes([2, 1, 1, 7]) + udp(sport=1000 + turn)[34:]
        back = frame[:30] + bytes([1, 1, 1, 9]) + frame[34:]
        for source, target, f in ((left, right, frame), (right, left, back)):
            source.send(f, time.monotonic() + 5)
            end = time.monotonic() + 20
            while not (arrived := target.receive(0.02)) and time.monotonic() < end:
                pass
            assert len(arrived) == 1 and arrived[0][26:] == f[26:], (turn, arrived, said()[-2000:])
            got += 1
        time.sleep(0.03)
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
    woken = len(re.findall(r"waked up from rx interrupt on port \d queue 0", said()))
    assert woken >= turns, (woken, turns, said()[-2000:])
    print(f"{got} frames, {woken} interrupts")
