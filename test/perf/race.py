#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The race with DPDK's own mlx5 driver: instructions and times of a forwarded packet, of Kilim's
bursts, of net_kilim and of net_mlx5, in one process, in the settings of test/perf/race/setting.hh
(doc/decisions/0114).

Usage: race.py --launcher KILIM_VHCA --program RACE [--gate] [--fields] [--wqes] [--samples N] [--quick] [--write]

  --gate       count instructions only, and fail where a limit is passed
  --fields     what each side delivers and asks for, of 100,000 random packets a setting, is compared
  --wqes       what net_kilim and net_mlx5 write for the same 1,000 packets, in three forms; fails where
               that is not one meaning, or the linter finds fault
  --samples N  of each time, a millisecond each, in turns (60)
  --quick      no software drivers, no whole programs
  --write      table and plot go into doc/performance.md and doc/race.svg"""

import argparse
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import race_report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "test/interop"))
import testpmd as frames  # noqa: E402

SIZES = (64, 1518)
ROUNDS = 32  # bursts of 32: once around the rings
PACKETS = 100000  # whose fields are compared
PMDS = ("librte_bus_pci.so", "librte_bus_vdev.so", "librte_mempool_ring.so")
PORT = "0000:81:00.0"
# How completions come, and what net_mlx5 is told of it: nothing is its default, compression.
FORMS = {"single": ",rxq_cqe_comp_en=0", "compressed": ""}
INLINE = ",txqs_min_inline=0,txq_inline_max=290"
MEGABYTES = 128
SECONDS = 4  # of a whole program


def has_huge():
    """Mbufs in 2 MiB pages, as DPDK's programs have them, where there are enough."""
    with open("/proc/meminfo", encoding="ascii") as f:
        text = f.read()
    free, size = (re.search(word + r":\s+(\d+)", text) for word in ("HugePages_Free", "Hugepagesize"))
    return free and size and int(free[1]) * int(size[1]) >= MEGABYTES * 1024 + 32768


def eal(*words, pmds=(), huge=False):
    line = ["--in-memory" if huge else "--no-huge", "-m", str(MEGABYTES), "--no-shconf",
            f"--file-prefix=race{os.getpid()}", "--no-telemetry", "-l", "0", "--log-level", "error"]
    for name in (*PMDS, *pmds):
        line += ["-d", name]
    return line + list(words)


def on_device(o, *before, huge=False, devargs=""):
    """The race beside a port of net_mlx5."""
    return [o.launcher, "--pci", "--wire", f"cable:race{os.getpid()}", "--", *before, o.program,
            *eal("-a", PORT + devargs, pmds=["librte_net_mlx5.so"], huge=huge), "--"]


def output(line, **more):
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}\nended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def wqes(o):
    for form, devargs in ((1, ""), (2, ""), (3, INLINE)):
        print(output([*on_device(o, devargs=devargs), "wqes", "1000", str(form)]), end="")


def lines_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def fields(o):
    for form, devargs in FORMS.items():
        print(output([*on_device(o, devargs=devargs), "check", str(PACKETS), form]), end="")


def instructions(o):
    """(setting, side) -> instructions of a packet."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for form, devargs in FORMS.items():
            output([*on_device(o, "valgrind", "--tool=callgrind", "--collect-atstart=no",
                               "--combine-dumps=no", f"--callgrind-out-file={folder}/{form}",
                               devargs=devargs), "count", str(ROUNDS), form])
        for path in sorted(glob.glob(folder + "/*"), key=os.path.getmtime):
            with open(path, encoding="utf-8", errors="replace") as f:
                text = f.read()
            mark = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
            total = re.search(r"^totals: (\d+)", text, re.M)
            if mark and total:
                setting, side, done = mark[1].split("|")
                found[setting, side] = int(total[1]) / int(done)
    if not found:
        raise SystemExit("callgrind counted nothing")
    return found


def times(o):
    """(setting, side, level) -> nanoseconds of a packet, and sentences about the run."""
    huge = has_huge()
    load = os.getloadavg()[0]
    said = [line for form, devargs in FORMS.items()
            for line in lines_of(output([*on_device(o, huge=huge, devargs=devargs), "time", str(o.samples), form]))]
    bursts = sorted({s["bursts of net_mlx5"] for s in said if "bursts of net_mlx5" in s})
    read = next(s for s in said if "read_ns" in s)
    of_levels = ", ".join(f"{level} {ns:.1f}" for level, ns in read["read_ns"].items())
    demoted = "" if read["reaches L3"] else " A demoted line stays hot on this processor, so that nothing is told of L3."
    return ({(s["setting"], s["side"], s["level"]): s["ns"] for s in said if "side" in s},
            f"Load average when it began: {load:.1f} on {len(os.sched_getaffinity(0))} cores. "
            f"A line is read in ns: {of_levels}.{demoted} net_mlx5 chose: {'; '.join(bursts)}. "
            f"Mbufs lie in pages of {'2 MiB' if huge else '4 KiB'}, the packets of Kilim's own bursts in pages of 4 KiB.")


def software(folder):
    """Drivers for context: name, what goes before the program, --vdev words for a size."""
    def pcap(size):
        path = f"{folder}/{size}.pcap"
        frames.write(path, [frames.udp(i, size) for i in range(256)])
        return [f"net_pcap0,rx_pcap={path},infinite_rx=1"]

    veth = ("ip link add race0 mtu 2000 type veth peer name race1 mtu 2000 && "
            "ip link set race0 up && ip link set race1 up && exec \"$0\" \"$@\"")

    def memif(size):
        words = f"id=0,socket={folder}/{size}.sock,socket-abstract=no"
        return [f"net_memif0,role=server,{words}", f"net_memif1,role=client,{words}"]

    yield "net_null", [], lambda size: [f"net_null0,size={size},copy=1"]
    yield "net_ring", [], lambda _: ["net_ring0"]
    yield "net_memif", [], memif
    yield ("net_af_packet", ["unshare", "-rn", "sh", "-c", veth],
           lambda _: ["net_af_packet0,iface=race0", "net_af_packet1,iface=race1"])
    yield "net_pcap", [], pcap


def context(o):
    """(mode, bytes, driver) -> ns; what does not run here is left out, with a line that says so."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, before, vdevs in software(folder):
            for size in SIZES:
                words = [w for v in vdevs(size) for w in ("--vdev", v)]
                line = [*before, o.program, *eal("--no-pci", *words, pmds=[f"lib{'rte_' + name}.so"]),
                        "--", "context", str(max(3, o.samples // 3)), str(size)]
                try:
                    said = lines_of(output(line))
                except SystemExit as e:
                    print(f"{name}: not measured: {str(e).splitlines()[-1]}", file=sys.stderr)
                    break
                found.update({(s["setting"].split(",")[0], size, name): s["ns"] for s in said})
    return found


def programs(o):
    """Whole programs, two ports on a cable, and the device's work in the same process: what is
    measured is the device. Name -> packets a second of both ports."""
    build = os.path.dirname(os.path.dirname(o.launcher))
    own = ["--", "--tx-first", "--stats-period", "1", "--forward-mode=io", "--rxd=1024", "--txd=1024",
           "--total-num-mbufs=8192"]
    cores = ["--lcores", "0,1" if len(os.sched_getaffinity(0)) > 1 else "0@0,1@0"]
    base = ["--no-huge", "-m", "256", "--no-shconf", f"--file-prefix=race{os.getpid()}", *cores]
    cable = f"cable:race{os.getpid()}"
    launched = [o.launcher, "--devices", "2", "--wire", cable, "--wire", cable]
    vdevs = [w for i in (0, 1) for w in ("--vdev", f"net_kilim{i},hca=vhca{i}")]
    yield ("dpdk-testpmd, net_mlx5", [*launched, "--pci", "--", "stdbuf", "-oL", "dpdk-testpmd", *base,
           *[w for name in (*PMDS, "librte_net_mlx5.so") for w in ("-d", name)],
           "-a", "0000:81:00.0", "-a", "0000:82:00.0", *own])
    yield ("dpdk-testpmd, net_kilim", [*launched, "--", "stdbuf", "-oL", "dpdk-testpmd", *base,
           "--no-pci", *[w for name in PMDS for w in ("-d", name)],
           "-d", f"{build}/lib/install/librte_net_kilim.so", *vdevs, *own])
    yield ("kilim-testpmd", [*launched, "--", "stdbuf", "-oL", f"{build}/app/kilim-testpmd", *base,
                             "--no-pci", *vdevs, *own[:-1]])


def whole(o):
    rates = {}
    for name, line in programs(o):
        with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.PIPE, start_new_session=True) as p:
            time.sleep(SECONDS + 2)
            os.killpg(p.pid, signal.SIGINT)
            try:
                text, _ = p.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                text, _ = p.communicate()
        found = re.findall(r"Rx-pps:\s+(\d+)|^  RX-rate\s+(\d+)", text, re.M)
        seen = [int(a or b) for a, b in found]
        if not any(seen):
            print(f"{name}: not measured:\n{text[-1500:]}", file=sys.stderr)
            continue
        rates[name] = sum(sorted(seen)[-2:])
    return rates


def main(words):
    parser = argparse.ArgumentParser(usage=__doc__, add_help=True)
    parser.add_argument("--launcher", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--samples", type=int, default=60)
    for name in ("--gate", "--fields", "--wqes", "--quick", "--write"):
        parser.add_argument(name, action="store_true")
    o = parser.parse_args(words)
    o.launcher, o.program = os.path.abspath(o.launcher), os.path.abspath(o.program)
    if o.wqes or o.fields:
        (wqes if o.wqes else fields)(o)
        return 0
    counted = instructions(o)
    if o.gate:
        return race_report.judge(counted)
    timed, about = times(o)
    around, rates = ({}, {}) if o.quick else (context(o), whole(o))
    text = race_report.page(counted, timed, around, rates, about)
    print(text, end="")
    if o.write:
        race_report.write(ROOT, text, counted, timed)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
