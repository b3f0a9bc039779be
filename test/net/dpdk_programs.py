# SPDX-License-Identifier: BSD-3-Clause
"""The tests of run_ethdev.py in which other programs and stacks meet Kilim ports: Debian's capturing and looking
processes, connections of the kernel's TCP, DPDK's examples."""

import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from dpdk_bench import LONG, NO_HUGE, SECONDS, udp, write
from two_stacks import TwoStacks

EXAMPLES = "/usr/share/dpdk/examples"


def tcp(b):
    """A connection between two namespaces goes through dpdk-testpmd on two ports; its bytes arrive as they were sent."""
    megabytes = 256 if LONG else 8
    try:
        stacks = TwoStacks(b.prefix)
    except PermissionError as why:
        print(why)
        sys.exit(77)
    try:
        t = b.testpmd([f"net_kilim{n},wire=af_packet:{name}" for n, name in enumerate(stacks.interfaces)],
                      "--forward-mode=io", "--auto-start", inside=stacks.inside(stacks.middle))
        digest = stacks.exchange(megabytes, SECONDS)
        now = t.stats(0)
        assert now["rx_good_bytes"] > megabytes << 20 and now["tx_good_packets"] > 0, now
        print(f"{megabytes} MiB, sha256 {digest}, {now['rx_good_packets']} frames one way")
        t.quit()
    finally:
        stacks.end()


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
    dpaa = min(glob.glob("/usr/lib/*/librte_mempool_dpaa.so.*"), key=len)
    env = {**os.environ, "LD_PRELOAD": dpaa + driver}
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
        print("Debian's package dpdk-doc, which has DPDK's examples, is not installed")
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
