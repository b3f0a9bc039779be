#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Measures the datapath and prints the tables of doc/performance.md: instructions
by callgrind, times by kilim-perf, each beside what it is compared with. Less
than three minutes.

Usage: performance.py [--build FOLDER] [--samples N] [--write]

  --build FOLDER  a release build (build)
  --samples N     of each time, at least 9 (25)
  --write         the tables go into doc/performance.md, between its marks

Times depend on the machine and on what else it does; instructions only on
compiler and library."""

import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(ROOT, "doc/performance.md")
MARKS = re.compile(r"(<!-- measured: begin -->\n).*?(<!-- measured: end -->\n)", re.S)
COUNT = "test/perf/instructions"
TESTPMD = "app/kilim-testpmd"
TIME = "app/kilim-perf --no-huge --no-shconf --no-pci -l 0 --"
GOAL = re.compile(r"^(?P<metric>\S.*?): [0-9.]+ of the peer's instructions, goal [0-9.e+]+"
                  r"(; [0-9.]+ instructions, at most (?P<most>[0-9.]+))?")
CASE = re.compile(r"^    \S.*?\s(?P<ours>[0-9]+\.[0-9])  (?P<peer>.*?) (?P<theirs>[0-9]+\.[0-9])\b")


def output(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def instructions(build):
    """metric -> (ours, peer, its name, limit): means over a metric's sizes; of frames the largest, which
    the limit is for. A missed goal is shown, not an error here."""
    command = [sys.executable, os.path.join(ROOT, "test/perf/instructions.py"),
               os.path.join(build, COUNT), "--testpmd", os.path.join(build, TESTPMD)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found, metric = {}, None
    for line in done.stdout.splitlines():
        if goal := GOAL.match(line):
            metric = goal["metric"]
            found[metric] = [[], [], "", goal["most"]]
        elif (case := CASE.match(line)) and metric:
            found[metric][0].append(float(case["ours"]))
            found[metric][1].append(float(case["theirs"]))
            found[metric][2] = case["peer"]
    if not found:
        raise SystemExit(f"{' '.join(command)} counted nothing:\n{done.stdout}{done.stderr}"[-2000:])
    folds = {m: max if m.startswith("frame ") else mean for m in found}
    return {m: (folds[m](a), folds[m](b), peer, most) for m, (a, b, peer, most) in found.items()}


def times(build, test, samples):
    """metric -> the object that kilim-perf printed for it."""
    words = os.path.join(build, TIME).split() + [test, "--samples", str(samples), "--json"]
    lines = [line for line in output(words).splitlines() if line.startswith("{")]
    return {o.get("metric", o.get("test")): o for o in map(json.loads, lines)}


def mean(numbers):
    """Geometric, as kilim-perf's over a line's sizes."""
    product = 1.0
    for n in numbers:
        product *= n
    return product ** (1 / len(numbers)) if numbers else 0.0


def row(*cells):
    return "| " + " | ".join(cells) + " |\n"


def head(*cells):
    return row(*cells) + "|---" * len(cells) + "|\n"


def number(value, digits=1):
    return "" if value is None else f"{value:.{digits}f}"


def verdict(timed):
    """Lines that do other work than their floor have no goal."""
    if timed["goal"] is None:
        return "none"
    return "met" if timed["met"] else "missed"


def packets(counted, timed):
    text = head("packets forwarded", "instructions", "at most", "floor", "ratio", "ns", "floor", "ratio",
                "goal 1.15")
    for metric, t in timed.items():
        ours, floor, _, most = counted[metric]
        text += row(metric.removeprefix("packets forwarded, "), number(ours), most, number(floor),
                    number(ours / floor, 2), number(t["kilim"], 2), number(t["floor"], 2),
                    number(t["ratio"], 2), verdict(t))
    return text


def device(counted):
    text = head("device, a frame of 64 bytes", "instructions", "at most", "beside it")
    for metric, (ours, theirs, peer, most) in counted.items():
        if metric.startswith("frame "):
            text += row(metric, number(ours), most, f"{peer}: {number(theirs)}")
    return text


def ethdev(counted):
    ours, _, _, most = counted["packets forwarded, io, by ethdev"]
    return (head("ethdev, mbufs of 64 bytes", "instructions", "at most", "DPDK's mlx5 driver")
            + row("io by rte_eth_rx_burst(), rte_eth_tx_burst()", number(ours), most, "157"))


def lines(counted, timed):
    text = head("line", "instructions", "peer", "ratio", "ns", "peer", "ratio", "goal")
    for metric, t in timed.items():
        ours, theirs, _, _ = counted.get(metric.removesuffix(" *"), (None, None, "", None))
        ratio = None if not theirs else ours / theirs
        text += row(metric, number(ours), number(theirs), number(ratio, 2), number(t["kilim"], 2),
                    number(t["peer"], 2), number(t["ratio"], 2), number(t["goal"], 2) or "-")
    return text


def processor():
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        return re.search(r"^model name\s*: (.*)$", f.read(), re.M)[1]


def compiler(build):
    """Its name and version, and how it was asked to optimize."""
    options = {o["name"]: o["value"] for o in json.loads(output(
        ["meson", "introspect", "--buildoptions", build]))}
    version = output(["c++", "--version"]).splitlines()[0]
    return f"{version}, -O{options['optimization']}, b_ndebug={options['b_ndebug']}"


def section(build, samples):
    counted = instructions(build)
    forwarded, compared = (times(build, test, samples) for test in ("packet", "compare"))
    program = f"build/{TIME}"
    return (f"Processor: {processor()}. Compiler: {compiler(build)}.\n\n"
            f"```sh\n/usr/bin/python3 test/perf/instructions.py build/{COUNT} --testpmd build/{TESTPMD}\n"
            f"{program} packet --samples {samples}\n{program} compare --samples {samples}\n```\n\n"
            + packets(counted, forwarded) + "\n" + ethdev(counted) + "\n" + device(counted) + "\n" + lines(counted, compared))


def main(words):
    parser = argparse.ArgumentParser(usage="performance.py, see --help")
    parser.format_help = lambda: __doc__ + "\n"
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--samples", type=int, default=25)
    parser.add_argument("--write", action="store_true")
    o = parser.parse_args(words)
    text = section(o.build, max(9, o.samples))
    if not o.write:
        print(text, end="")
        return 0
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    new, places = MARKS.subn(lambda m: m[1] + text + m[2], page)
    if places != 1:
        raise SystemExit(f"{PAGE}: no place for the tables")
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(new)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
