# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs, transports and options, each with each, between two processes: what ends
well, and what is refused with which words. What is expected follows from perftest's own sources
(4.5, order and words of its checks) and from what the adapter's transports are good for; a card is
not asked. Usage: perftest_matrix.py KILIM_VHCA [--part | --pairs] [--only WORD] [--write FILE]

usertools/perftest-matrix.sh prepares the machine and calls this.
"""

import argparse
import collections
import glob
import itertools
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

PROGRAMS = ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw",
            "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat")
TRANSPORTS = ("RC", "UC", "UD", "XRC", "DC")
OPTIONS = {    # as the table names them: as perftest is told
    "-a": ["-a"], "--inline_recv": ["--inline_recv=32"], "--use_hugepages": ["--use_hugepages"],
    "--mr_per_qp": ["--mr_per_qp"], "--use-srq": ["--use-srq"], "--odp": ["--odp"],
    "-l": ["-l", "8"], "-e": ["-e"], "-q 8": ["-q", "8"], "--out_json": ["--out_json"]}
HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"
NUMBER = r"\s+([0-9.]+)"

Case = collections.namedtuple("Case", "program transport options")

# In the order in which perftest checks: when, and what it says. The first that holds counts.
REFUSALS = (
    (lambda c: c.transport == "UC" and verb(c) in ("read", "atomic"),
     "UC connection not possible in READ/ATOMIC verbs"),
    (lambda c: c.transport == "UD" and verb(c) != "send",
     "UD connection only possible in SEND verb"),
    (lambda c: "-e" in c.options and verb(c) == "write",
     "Events feature not available on WRITE verb"),
    (lambda c: "-q 8" in c.options and is_latency(c), "Multiple QPs only available on bw tests"),
    (lambda c: "-a" in c.options and verb(c) == "atomic",
     "Message size cannot be changed for Atomic tests"),
    (lambda c: "--use-srq" in c.options and verb(c) != "send",
     "Using SRQ only avavilible in SEND tests."),
    (lambda c: "-l" in c.options and is_latency(c), "Post list is supported in BW tests only"),
    (lambda c: "--odp" in c.options and verb(c) == "atomic", "ODP does not support ATOMICS for now"),
    (lambda c: "--odp" in c.options and c.transport == "UC", "ODP does not support UC"),
    (lambda c: "--use_hugepages" in c.options and free_hugepages() < hugepages_for(c),
     "Failed to allocate hugepages. Please configure hugepages"),
)


def verb(case):
    return case.program.split("_")[1]


def is_latency(case):
    return case.program.endswith("_lat")


def free_hugepages():
    try:
        with open(HUGEPAGES, encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 0


def hugepages_for(case):
    """Of both sides: a buffer to send from and one to receive into, of each queue pair."""
    return 2 * (8 if "-q 8" in case.options else 1) * (8 if "-a" in case.options else 1)


def rounds(case):
    """A multiple of the list's length."""
    if "-a" in case.options:
        return 16 if "-q 8" in case.options or is_latency(case) else 40
    return 40 if is_latency(case) else 200


def command(case):
    return [case.program, "-d", "vhca0", "-x", "0", "-F", "-n", str(rounds(case)), "-c",
            case.transport, *(w for o in case.options for w in OPTIONS[o])]


def sizes(case):
    """Of the rows that the table of results must have."""
    if "-a" in case.options:
        return [1 << n for n in range(1, 13 if case.transport == "UD" else 24)]
    if verb(case) == "atomic":
        return [8]
    if is_latency(case):
        return [2]
    return [4096 if case.transport == "UD" else 65536]


def expected(case):
    """What perftest says when it refuses; None where it runs."""
    return next((words for when, words in REFUSALS if when(case)), None)


def wrong_table(case, text):
    """What is wrong with the client's results; None if nothing is."""
    columns = 4 if is_latency(case) else 3
    queues = 8 if "-q 8" in case.options else 1
    rows = re.findall(r"^ (\d+)\s+(\d+)" + columns * NUMBER, text, re.M)
    if [int(r[0]) for r in rows] != sizes(case):
        return f"rows of {[r[0] for r in rows]} bytes instead of {sizes(case)}"
    for row in rows:
        if int(row[1]) != rounds(case) * queues:
            return f"{row[1]} messages instead of {rounds(case) * queues}"
        if float(row[3]) <= 0:
            return "nothing was measured"
    return None


def wrong_file(case, folder):
    """What is wrong with the file that --out_json asks for. It is not quite JSON: keys are bare."""
    try:
        with open(folder + "/perftest_out.json", encoding="ascii") as f:
            text = f.read()
    except OSError:
        return "no file was written"
    wanted = ("test_info: {", "results: {", f"Connection_type: {case.transport}",
              f"MsgSize: {sizes(case)[-1]}")
    return next((f"the file does not say {w}" for w in wanted if w not in text), None)


def run(case):
    """(what happened, is it what was expected, seconds): runs, or the words of a refusal."""
    begin = time.monotonic()
    refusal = expected(case)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder    # where the adapters' wire is
        before = os.getcwd()
        os.chdir(folder)                          # where a file of results is written
        try:
            both = pair.Pair(command(case))
            codes, text = both.end()
            client = both.output_of(both.clients[0])
            server = both.output_of(both.server)
            wrong = None
            if refusal is not None:
                if 0 in codes or refusal not in client or refusal not in server:
                    wrong = f"not refused with: {refusal}"
            elif set(codes) != {0}:
                wrong = f"exit statuses {codes}"
            else:
                wrong = wrong_table(case, client)
                if wrong is None and "--out_json" in case.options:
                    wrong = wrong_file(case, folder)
        except AssertionError as stuck:
            wrong, text = "does not end", str(stuck)
        finally:
            os.chdir(before)
    if wrong is not None:
        text = f"{wrong}\n{text}"
    return wrong, text, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher")
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    combos = [()] + [(o,) for o in OPTIONS]
    if args.pairs:
        combos = list(itertools.combinations(OPTIONS, 2))
    bad = total = 0
    for p, t, o in itertools.product(PROGRAMS, TRANSPORTS, combos):
        case = Case(p, t, o)
        name = " ".join([p, t, *o])
        if not re.search(args.only, name):
            continue
        wrong, text, seconds = run(case)
        total += 1
        bad += wrong is not None
        print(f"{seconds:6.2f} {name}: {wrong or expected(case) or 'runs'}", flush=True)
        if wrong:
            print("    " + "\n    ".join(text.splitlines()[-40:]), flush=True)
    print(f"{total} run, {bad} wrong")


main()
