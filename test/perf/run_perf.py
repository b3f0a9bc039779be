#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-perf does what it says: every line of `compare --json` is whole and agrees with itself, the
other tests print a number each, what is no test is refused. No time is judged.

Usage: run_perf.py PROGRAM"""

import json
import re
import subprocess
import sys

EAL = ["--no-huge", "--no-shconf", "--no-pci", "-l", "0", "--log-level", "4"]
FIELDS = {"metric", "kilim", "peer", "ratio", "instructions_ratio", "goal", "met", "away"}


def run(program, *words):
    return subprocess.run([program, *EAL, "--", *words], capture_output=True, text=True,
                          timeout=100, check=False)


def check_compare(program):
    done = run(program, "compare", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) >= 11, f"{len(lines)} lines"
    assert len({line["metric"] for line in lines}) == len(lines)
    for line in lines:
        assert FIELDS <= set(line), line
        assert line["kilim"] > 0 and line["peer"] > 0, line
        assert abs(line["ratio"] - line["kilim"] / line["peer"]) < 0.02 * line["ratio"] + 0.01, line
        assert line["met"] == (line["goal"] is None or line["ratio"] <= line["goal"]) or \
            abs(line["ratio"] - line["goal"]) < 1e-3, line
        assert line["instructions_ratio"] is None or line["instructions_ratio"] > 0, line
    assert any(line["goal"] is None for line in lines) and not any(line["goal"] == 0 for line in lines)
    print(f"{len(lines)} lines of compare")


def check_yardstick(said):
    """ibv_reg_mr is measured without DPDK's ibv_fork_init(3), with which libibverbs reads smaps for each region: that
    is what a region under no key pays in this program, some hundred times as much."""
    ns = {m.group(1).strip(): float(m.group(2)) for m in re.finditer(r"^(.*?) +(\d+\.\d+) ns", said, re.M)}
    assert ns["ibv_reg_mr"] < ns["ibv_reg_mr_relaxed, memory under no key"] / 5, ns


def check_others(program):
    for test, words in (("umr", 7), ("cq", 2), ("gather", 3), ("pool", 2), ("relaxed", 14)):
        done = run(program, test)
        assert done.returncode == 0, done.stderr
        numbers = re.findall(r"(\d+\.\d+) ns", done.stdout)
        assert len(numbers) == words and all(float(n) > 0 for n in numbers), done.stdout
        if test == "relaxed":
            check_yardstick(done.stdout)
    for test in ("write", "read", "send", "atomic"):
        done = run(program, test, "--alone", "-n", "2000", "-t", "64", "-l", "8", "--json")
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout)
        assert line["iterations"] == 2000 and line["mpps"] > 0, line
    done = run(program, "write", "--alone", "-a", "-n", "64")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1 + 23, done.stdout
    done = run(program, "odp")
    assert done.returncode == 0, done.stderr
    for row in (r"general: SUPPORT SUPPORT_IMPLICIT$", r"  XRC +SEND +RECV +WRITE +READ +ATOMIC +SRQ_RECV$",
                r"  UC( +-){6}$", r"  raw Ethernet  not reported$"):
        assert re.search(row, done.stdout, re.M), (row, done.stdout)
    caps = json.loads(run(program, "odp", "--json").stdout)
    assert caps["rc_odp_caps"] == 63 and caps["raw_eth_odp_caps"] == "not reported", caps
    assert run(program, "odp", "-d", "no_such_card").returncode == 1
    for size, asked, comes in ((32, 32, True), (33, 32, False), (64, 64, True), (65, 64, False),
                               (8, 0, False), (8, None, True)):
        words = ["send", "--alone", "-n", "500", "-s", str(size), "--check", "--json"]
        words += [] if asked is None else ["--inline_recv", str(asked)]
        done = run(program, *words)
        assert done.returncode == 0, done.stderr
        line = json.loads(done.stdout)
        assert line["inlined"] == (500 if comes else 0), (words, line)
        assert line["inlined_bytes"] == (500 * size if comes else 0), (words, line)
    done = run(program, "send", "--alone", "-n", "100", "-s", "8", "--inline_recv", "32")
    assert re.search(r"inlined here\n 8 +100 .* 100\n", done.stdout), done.stdout
    print("the other tests")


def check_lookup(program):
    done = run(program, "lookup", "--json")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    matrix = {(line["what"], line["baseline"], line["regions"], line["order"]) for line in lines
              if line["region_bytes"] == 2 << 20 and not line["overlapping"]}
    for regions in (1, 16, 1024, 65536):
        for order in ("sequential", "random"):
            for pair in (("arena", "flat array"), ("elsewhere", "two levels as SPDK")):
                assert (*pair, regions, order) in matrix, (pair, regions, order)
    for line in lines:
        assert line["ns"] > 0, line
        if line["baseline"] is not None:
            ratio = line["ns"] / line["baseline_ns"]
            assert abs(line["ratio"] - ratio) < 0.02 * ratio + 0.01, line
        if line["goal"] is not None:
            assert line["met"] == (line["ratio"] <= line["goal"]) or \
                abs(line["ratio"] - line["goal"]) < 1e-3, line
    print(f"{len(lines)} lines of lookup")


def check_chooser(program):
    """Its costs, its random layouts with every open way's time, and what --plan says is done."""
    ways = {"copy", "list", "inline", "pointer", "cached"}
    for words, forced in ((), None), (("--plan=copy",), "copy"), (("--plan=cached.fixed=0,inline",), "inline"):
        done = run(program, "umr", "--json", *words)
        assert done.returncode == 0, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        costs = {line["way"]: line for line in lines if line["test"] == "plan"}
        assert set(costs) == ways and all(c["fixed"] >= 0 for c in costs.values()), done.stdout
        tried = [line for line in lines if line["test"] == "layout"]
        assert len(tried) == 30, len(tried)
        for line in tried:
            times = [line[w] for w in ways if line[w] > 0]
            assert line["chosen"] in ways and line[line["chosen"]] > 0, line
            # The times are printed to a tenth of a nanosecond, the ratio comes of the whole ones.
            ratio = line[line["chosen"]] / min(times)
            assert abs(line["of_best"] - ratio) <= ratio * (0.06 / min(times) + 0.01), line
            if forced and line[forced] > 0:
                assert line["chosen"] == forced, line
    print("the chooser")


def table(text, title):
    """The heading and the rows of the table that follows the line with this title."""
    lines = text.split(title, 1)[1].splitlines()[1:]
    return lines[0], lines[1:lines.index("")] if "" in lines else lines[1:]


def check_chooser_table(program):
    """Each column has its heading above it, and the numbers are those that the JSON has."""
    done = run(program, "umr", "--plan=copy.fixed=1,copy.piece=2,copy.more=3,copy.near=4,copy.middle=5,copy.far=6")
    assert done.returncode == 0, done.stderr
    heading, rows = table(done.stdout, "the chooser, calibrated")
    headings = list(re.finditer(r"\S+( \S+)*", heading))
    assert [h.group(0) for h in headings] == ["way", "message", "piece to 64", "piece beyond", "KiB to 4", "KiB to 64",
                                              "KiB beyond"], heading
    assert rows[0].split() == ["copy", "1.00", "2.00", "3.00", "4096.00", "5120.00", "6144.00"], rows[0]
    layouts, tried = table(done.stdout, "random layouts by every way")
    for top, lines in ((heading, rows), (layouts, tried[:-1])):
        ends = [h.end() for h in re.finditer(r"\S+( \S+)*", top)]
        for row in lines:
            cells = list(re.finditer(r"\S+", row))
            assert len(cells) == len(ends), (top, row)
            for cell, end in zip(cells[1:], ends[1:]):   # words stand left, numbers right
                assert cell.end() == end or cell.group(0).isalpha(), (top, row)
    print("the chooser's tables")


def check_refusals(program):
    for words, said in (((), "no TEST"), (("nothing",), "unknown"), (("pool", "host"), "too many"),
                        (("umr", "-s", "0"), "out of range"), (("umr", "--plan=fly"), "ways are copy"),
                        (("umr", "--plan=copy.piece=x"), "ways are copy"),
                        (("send", "--inline_recv", "65"), "out of range"), (("umr", "--nonsense"), "unknown")):
        done = run(program, *words)
        assert done.returncode == 1 and said in done.stderr, (words, done.stderr)
    print("refusals")


def main(program):
    check_compare(program)
    check_others(program)
    check_lookup(program)
    check_chooser(program)
    check_chooser_table(program)
    check_refusals(program)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except KeyboardInterrupt:
        sys.exit(130)
