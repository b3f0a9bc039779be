#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The quickstart job as a test: two TCP/IP stacks talk through kilim-testpmd.

Usage: run_quickstart.py ROOT TESTPMD io|umr    the file arrives whole and no packet is lost
       run_quickstart.py ROOT TESTPMD interrupt SIGINT in the middle leaves nothing behind
       run_quickstart.py ROOT TESTPMD files     pcap to pcap, in modes io and umr: same frames

The file has 256 MiB, 16 when KILIM_CHECK is `quick`. Needs root for network namespaces: exit code
77 without."""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SIZE = 16 if os.environ.get("KILIM_CHECK") == "quick" else 256
HUGE = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}")
    print(f"ok: {what}")


def command(root, program, *arguments):
    return ["bash", os.path.join(root, "usertools/quickstart.sh"), "--program",
            os.path.abspath(program), *arguments]


def forwards(root, program, mode):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        done = subprocess.run(command(root, program, "--fwd", mode, "--size", str(SIZE), "--json",
                                      out.name), capture_output=True, text=True, timeout=230)
        print(done.stdout[-6000:], done.stderr[-3000:])
        expect(done.returncode == 0, "quickstart ends with 0")
        expect(done.stdout.splitlines()[-1] == "quickstart: ok", "its last line is `quickstart: ok`")
        expect("sha256: equal" in done.stdout, "the file arrived whole")
        told = re.findall(r"^  \| .* out, .*$", done.stdout, re.M)
        expect(told, f"a line a second tells of {len(told)} reports")
        expect(not re.search(r"drops:.* 0\b", "\n".join(told)), "no such line names a cause that lost nothing")
        stats = json.load(out)
    ports = stats["ports"]
    expect(len(ports) == 2, "statistics of two ports")
    for port, other in (ports, ports[::-1]):
        name = port["name"]
        expect(port["rx_packets"] > 0, f"{name} received packets")
        expect(port["rx_packets"] == other["tx_packets"],
               f"what {name} received, {other['name']} sent: {port['rx_packets']} and "
               f"{other['tx_packets']}")
        # A refill that found no buffer makes frames wait, it loses none.
        lost = {cause: n for cause, n in port["drops"].items() if n and cause != "rx_no_buffer"}
        expect(not lost, f"{name} dropped nothing itself: {lost}")
    sent = sum(p["tx_bytes"] for p in ports)
    expect(sent > SIZE << 20, f"{sent} bytes went through")
    expect_keys(stats, mode)


def expect_keys(stats, mode):
    total = stats["total"]
    packets = total["tx_packets"] if mode == "umr" else 0
    expect(total["keys_bound"] == packets, f"mode {mode}: {packets} keys bound")


def through_files(root, program):
    for mode in ("io", "umr"):
        with tempfile.NamedTemporaryFile(suffix=".json") as out:
            done = subprocess.run(command(root, program, "--fwd", mode, "--files", "--size", "8",
                                          "--json", out.name), capture_output=True, text=True,
                                  timeout=100)
            print(done.stdout[-3000:], done.stderr[-3000:])
            expect(done.returncode == 0, f"mode {mode} ends with 0")
            expect("8192 frames arrived as they were sent" in done.stdout, "the same frames")
            expect_keys(json.load(out), mode)


def our_processes(tag):
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                text = f.read().decode(errors="replace")
        except OSError:
            continue
        if tag in text:
            found.append(text.replace("\0", " "))
    return found


def interrupt(root, program):
    hugepages = open(HUGE, encoding="utf-8").read() if os.path.exists(HUGE) else ""
    with tempfile.TemporaryDirectory() as place:
        job = subprocess.Popen(command(root, program, "--size", "1024"), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True,
                               env=dict(os.environ, TMPDIR=place),
                               start_new_session=True,
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        said = []
        for line in job.stdout:
            said.append(line)
            if line.startswith("http:"):
                break
        expect(said and said[-1].startswith("http:"), f"the job came to the file: {said[-3:]}")
        time.sleep(1.0)
        started = time.monotonic()
        os.killpg(job.pid, signal.SIGINT)   # a terminal sends Ctrl-C to all of them
        rest = job.stdout.read()
        code = job.wait(timeout=30)
        seconds = time.monotonic() - started
        expect(code == 130, f"SIGINT ends it with {code}, as it should be 130: {rest[-500:]}")
        expect(seconds < 10, f"it ends at once: {seconds:.1f} s")
        expect("Traceback" not in rest, f"no traceback is the last that a user sees: {rest[-500:]}")
        spaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True,
                                check=True).stdout
        expect(f"kilim{job.pid}-" not in spaces, "no namespace is left")
        expect(not our_processes(place), f"no process is left: {our_processes(place)}")
        expect(not os.listdir(place), f"no file is left: {os.listdir(place)}")
    if hugepages:
        expect(open(HUGE, encoding="utf-8").read() == hugepages, "hugepages are given back")


if __name__ == "__main__":
    if os.getuid() != 0 and sys.argv[3] != "files":
        print("needs root for network namespaces")
        sys.exit(77)
    if sys.argv[3] == "files":
        through_files(sys.argv[1], sys.argv[2])
    elif sys.argv[3] == "interrupt":
        interrupt(sys.argv[1], sys.argv[2])
    else:
        forwards(*sys.argv[1:4])
