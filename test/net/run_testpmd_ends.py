#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How runs of kilim-testpmd end: by signals, refusals, frames that do not fit, devices that die.

Usage: run_testpmd_ends.py KILIM_TESTPMD SOURCE_ROOT KILIM_VHCA CASE     CASE is a function below"""

import json
import os
import signal
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from run_testpmd import SECONDS, main, vdev  # noqa: E402


def stops(b):
    """SIGINT and SIGTERM end a run with final statistics; --stats-period prints meanwhile."""
    b.make("in.pcap", 50)
    for number, lcores in ((signal.SIGINT, "0"), (signal.SIGTERM, "0,1")):
        if os.cpu_count() < 2:
            lcores = "0"
        words = b.command([vdev(0, "pcap:in.pcap:out.pcap")], "--stats-period=1", lcores=lcores)
        with subprocess.Popen(words, cwd=b.folder, text=True, stdout=subprocess.PIPE) as p:
            line = ""
            while "---- statistics" not in line:
                line = p.stdout.readline()
                assert line != "", "ended before the first statistics"
            p.send_signal(number)
            rest, _ = p.communicate(timeout=10)
        assert p.returncode == 0, p.returncode
        assert "final statistics" in rest and "TX-packets     50" in rest, rest
        b.same("in.pcap", "out.pcap")


def interrupted_early(b):
    """An interrupt at any moment of set-up leaves neither a crash nor a hang."""
    b.make("in.pcap", 50)
    words = b.command([vdev(0, "pcap:in.pcap:out.pcap")], "--fwd=umr", "--umr-keys=8192")
    for ms in (5, 20, 60, 120, 180, 240, 300):
        with subprocess.Popen(words, cwd=b.folder, text=True, stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE) as p:
            time.sleep(ms / 1000)
            p.send_signal(signal.SIGINT)
            _, said = p.communicate(timeout=20)
        # Before the program has its handlers the signal's default ends it.
        assert p.returncode in (0, 1, -signal.SIGINT), (ms, p.returncode, said)


def refusals(b):
    """What is wrong is said in one sentence that names it; the exit code is 1."""
    port = [vdev(0, "pcap:in.pcap:out.pcap")]
    b.make("in.pcap", 1)
    rows = (
        ([], [], ["no port", "--vdev net_kilim0"]),
        (port, ["--fwd=bogus"], ["--fwd=bogus", "io, mac, macswap"]),
        (port, ["--rxq=65"], ["--rxq=65", "1 to 64"]),
        (port, ["--txq=65"], ["--txq=65", "1 to 64"]),
        (port, ["--rxq=4", "--txq=2"], ["--txq=2", "4 receive queues"]),
        (port, ["--rxd=100"], ["--rxd=100", "64 to 8192", "power of two"]),
        (port, ["--burst=0"], ["--burst=0", "1 to 512"]),
        (port, ["--burst=1x"], ["--burst=1x"]),
        (port, ["--nb-cores=7"], ["--nb-cores=7", "-l"]),
        (port, ["--num-packets=none"], ["--num-packets=none"]),
        (port, ["--eth-peer=0,02:zz"], ["--eth-peer=0,02:zz", "PORT,"]),
        (port, ["--eth-peer=4,02:00:00:00:00:01"], ["--eth-peer", "port 4"]),
        (port, ["--split-way=best"], ["--split-way=best", "cheapest"]),
        (port, ["--split-header=13"], ["--split-header=13", "14 to 1024"]),
        (port, ["--max-pkt-len=9217"], ["--max-pkt-len=9217", "64 to 9216"]),
        (port, ["--fwd=umr", "--max-pkt-len=9000"], ["--max-pkt-len", "--mbuf-size"]),
        (port, ["--max-lro-pkt-size=255"], ["--max-lro-pkt-size=255", "256 to 65280"]),
        (port, ["--enable-lro", "--max-lro-pkt-size=65280"], ["net_kilim0", "1 to 8 buffers"]),
        (port, ["--fwd=umr", "--enable-lro"], ["--enable-lro: mode umr", "under keys"]),
        (port, ["--enable-lro", "--compress-completions=hash"], ["--enable-lro", "--compress-completions"]),
        (port, ["--max-pkt-len=9000", "--mbuf-size=1000"], ["net_kilim0", "1 to 8 buffers"]),
        (port, ["--fwd=split", "--split-way=list", "--max-pkt-len=9000", "--mbuf-size=1000"],
         ["--split-way", "--max-pkt-len"]),
        (port, ["--idle=never"], ["--idle=never", "spin"]),
        (port, ["--unknown"], ["--unknown", "--help"]),
        (port, ["--burst"], ["--burst", "value"]),
        (port, ["word"], ["word"]),
        (port, ["--total-num-mbufs=10000000"], ["MiB", "--no-huge"]),
        (["net_kilim0,bogus=1"], [], ["devarg bogus", "hca="]),
        (["net_kilim0,wier=cable:x"], [], ["devarg wier", "is 'wire' meant?", "hca="]),
        (["net_kilim0,wire=uniix:/tmp/x"], [], ["wire 'uniix:/tmp/x'", "is 'unix:' meant?", "cable:NAME"]),
        (["net_klim0,hca=vhca0"], [], ["net_klim0", "is 'net_kilim' meant?", "net_kilimN"]),
        (["kilim0"], [], ["kilim0", "no such driver", "net_kilimN"]),
        (port, ["--fwd=mcswap"], ["is 'macswap' meant?", "io, mac, macswap, flowgen, rxonly, txonly, csum, icmpecho, 5tswap, noisy, split, umr"]),
        (port, ["--forward-moed=io"], ["is 'forward-mode' meant?"]),
        (["net_kilim0,rxd=1"], [], ["devarg rxd=1", "64 to 8192"]),
        ([*port, "net_kilim1,hca=vhca1,wire=pcap:no-such-file"], [], ["asked for: 2", "come up: 1"]),
    )
    for vdevs, own, parts in rows:
        done = b.run(vdevs, *own)
        assert done.returncode == 1, (own, done.returncode, done.stderr)
        for part in parts:
            assert part in done.stderr, (vdevs, own, part, done.stderr)
        if "meant?" in done.stderr:
            assert done.stderr.count("\n") == 1, done.stderr
    # A wire that cannot be had is told once, in a line that fits, without what EAL's bus adds.
    done = b.run([vdev(0, "pcap:no-such-file")])
    said = done.stderr.splitlines()
    assert sum("No such file" in line for line in said) == 1 and max(map(len, said)) < 130, done.stderr
    assert "wire=pcap:no-such-file" in done.stderr and "failed to initialize" not in done.stderr, done.stderr
    for words in (["--help"], ["--", "--help"], ["-h"]):
        done = subprocess.run([b.program, *words], text=True, capture_output=True, timeout=SECONDS)
        assert done.returncode == 0, done
        for part in ("--forward-mode=MODE", "--json[=FILE]", "macswap", "--show-caps", "progress=", "--no-huge"):
            assert part in done.stdout, (words, part)


def a_frame_too_long(b):
    """A frame longer than the buffers is dropped and counted; nothing else happens."""
    b.make("in.pcap", 20)
    with open(b.path("in.pcap"), "ab") as f:
        f.write(struct.pack("<IIII", 1, 0, 4000, 4000) + bytes(4000))
    for lcores in ("0", "0-1"):
        done = b.run([vdev(0, "pcap:in.pcap")], "--fwd=rxonly", "--duration=1",
                     "--json=stats.json", lcores=lcores)
        assert done.returncode == 0, done
        assert "ended by an error" not in done.stderr, done.stderr
        assert "RX-too-long 1" in done.stdout and "recoveries " not in done.stdout, done.stdout
        with open(b.path("stats.json"), encoding="ascii") as f:
            total = json.load(f)["total"]
        assert total["rx_packets"] == 20, total
        assert total["queues_down"] == 0 and total["recoveries"] == 0, total
        drops = total["drops"]
        assert drops["rx_errors"] == drops["rx_too_long"] == 1 and drops["rx_missed"] == 0, drops
    stats, text = b.stats([vdev(0, "pcap:in.pcap")], "--fwd=rxonly", "--num-packets=21",
                          "--duration=20", "--mbuf-size=9100", "--json")
    assert stats["total"]["rx_packets"] == 21 and stats["total"]["recoveries"] == 0, stats
    assert "ended by" not in text, text


def a_device_that_dies(b):
    """A device that dies ends the run soon, with a sentence, the statistics and a status of 1. A request may
    have many packets."""
    b.make("in.pcap", 2000)
    for mode in ("io", "umr"):
        for lcores, more in (("0", ""), ("0-1", ",progress=thread")):
            done = b.run([vdev(0, "pcap:in.pcap:out.pcap", ",fault=fatal@20" + more)],
                         f"--fwd={mode}", "--duration=50", lcores=lcores)
            assert done.returncode == 1, done
            assert "net_kilim0 has lost its device vhca0 (IBV_EVENT_DEVICE_FATAL)" in done.stderr, done
            assert done.stderr.count("has lost") == 1 and "final statistics" in done.stdout, done


def a_launched_device_that_dies(b):
    """The same where the launcher brings the device: with its first request, and amid traffic."""
    b.make("in.pcap", 2000)
    for mode in ("io", "umr"):
        for at in (1, 20):
            b.launcher = [b.launch, "--fault", f"fatal@{at}", "--wire", "pcap:in.pcap:out.pcap", "--"]
            done = b.run(["net_kilim0,hca=vhca0"], f"--fwd={mode}", "--duration=50")
            assert done.returncode == 1, done
            said = "kilim-testpmd: net_kilim0 has lost its device vhca0 (IBV_EVENT_DEVICE_FATAL)"
            assert said in done.stderr and done.stderr.count("kilim-testpmd: ") == 1, done
            assert "final statistics" in done.stdout, done


def no_memory(b):
    """EAL that cannot start is explained, with the way on."""
    eal = ["--no-pci", "--log-level", "error", "--no-shconf", "--huge-dir", b.path("none")]
    done = b.run([], eal=eal)
    assert done.returncode == 1, done
    for part in ("EAL did not start", "--no-huge --no-shconf"):
        assert part in done.stderr, done.stderr


CASES = {f.__name__: f for f in (stops, interrupted_early, refusals, a_frame_too_long, a_device_that_dies,
                                 a_launched_device_that_dies, no_memory)}


if __name__ == "__main__":
    main(CASES, *sys.argv[1:5])
