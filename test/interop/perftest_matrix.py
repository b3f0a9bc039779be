# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs between two processes: every program with every transport and every option,
and with every two options. Each combination has to do what perftest_rules.py says of it.
Usage: perftest_matrix.py KILIM_VHCA [--part] [--pairs] [--only WORDS] [--results FILE]
[--write DOCUMENT]
usertools/perftest-matrix.sh prepares the machine and calls this.
"""

import argparse
import collections
import itertools
import json
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair
import perftest_table
from perftest_rules import (OPTIONS, PROGRAMS, REFUSALS, TRANSPORTS, Case, command, is_latency,
                            limit, queues, refusal, rounds, sizes)

NUMBER = r"\s+([0-9.]+)"
# What perftest says where the clock of its own figures could not be gauged: they are 0 then.
NO_CLOCK = "Correlation coefficient"

Outcome = collections.namedtuple("Outcome", "case kind said")   # kind: runs, refused, limit, wrong


def singles():
    """Every program and transport, without an option and with each."""
    for program, transport in itertools.product(PROGRAMS, TRANSPORTS):
        for options in ((), *((o,) for o in OPTIONS)):
            yield Case(program, transport, options)


def pairs():
    """Two options; all sizes take long and are left out, and so is what one option settles."""
    for program, transport in itertools.product(PROGRAMS, TRANSPORTS):
        for options in itertools.combinations([o for o in OPTIONS if o != "-a"], 2):
            if not any(refusal(Case(program, transport, (o,))) for o in options):
                yield Case(program, transport, options)


def part():
    """Every program with every transport, every option, and every refusal once."""
    cases = list(singles())
    good = [c for c in cases if refusal(c) is None and limit(c) is None]
    chosen = [c for c in good if not c.options]
    for i, option in enumerate(OPTIONS):
        fitting = [c for c in good if option in c.options]
        if option == "-a":   # the one with the fewest sizes
            fitting = [c for c in fitting if c.transport == "UD" and not is_latency(c)]
        chosen.append(fitting[7 * i % len(fitting)])
    for when, words in REFUSALS:
        chosen += [c for c in cases if when(c) and refusal(c) == words][:1]
    return chosen


def wrong_table(case, text):
    """What is wrong with the client's results; None if nothing is."""
    columns = 4 if is_latency(case) else 3
    rows = re.findall(r"^ (\d+)\s+(\d+)" + columns * NUMBER, text, re.M)
    if [int(row[0]) for row in rows] != sizes(case):
        return f"rows of {[int(row[0]) for row in rows]} bytes instead of {sizes(case)}"
    for row in rows:
        if int(row[1]) != rounds(case) * queues(case):
            return f"{row[1]} messages instead of {rounds(case) * queues(case)}"
        if float(row[-1]) <= 0 and NO_CLOCK not in text:
            return "nothing was measured"
    return None


def wrong_file(case, folder):
    """What is wrong with the file of --out_json. It is not quite JSON: its keys are bare."""
    try:
        with open(folder + "/perftest_out.json", encoding="ascii") as f:
            text = f.read()
    except OSError:
        return "no file of results"
    wanted = ("test_info: {", "results: {", f"Connection_type: {case.transport}",
              f"MsgSize: {sizes(case)[-1]}")
    return next((f"the file of results does not say {w}" for w in wanted if w not in text), None)


def outcome_of(case, both, folder):
    codes, text = both.end()
    said = [both.output_of(p) for p in (both.server, both.clients[0])]
    words, known = refusal(case), limit(case)
    if words is not None:
        right = 0 not in codes and all(words in s for s in said)
        return ("refused", words) if right else ("wrong", f"not refused: {words}\n{text}")
    if set(codes) != {0}:
        if known is not None and re.search(known.pattern, text):
            return "limit", known.why
        return "wrong", f"exit statuses {codes}\n{text}"
    wrong = wrong_table(case, said[1])
    if wrong is None and "--out_json" in case.options:
        wrong = wrong_file(case, folder)
    if wrong is None and known is not None and known.race:
        return "limit", known.why
    return ("runs", "") if wrong is None else ("wrong", f"{wrong}\n{text}")


def run(case):
    known, here = limit(case), os.getcwd()
    if refusal(case) is None and known is not None and known.pattern is None:
        return Outcome(case, "limit", known.why)
    pair.PATIENCE = 900 if "-a" in case.options else 120    # a busy machine is patient
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder    # where the adapters' wire is
        os.chdir(folder)                          # where a file of results is written
        try:
            return Outcome(case, *outcome_of(case, pair.Pair(command(case)), folder))
        except AssertionError as stuck:
            if known is not None and re.search(known.pattern, str(stuck)):
                return Outcome(case, "limit", known.why)
            return Outcome(case, "wrong", str(stuck))
        finally:
            os.chdir(here)


def known_results(path):
    """{case: outcome} that an earlier run has written."""
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return {Case(p, t, tuple(o)): Outcome(Case(p, t, tuple(o)), *rest) for (p, t, o), *rest in rows}


def report(cases, results):
    """Runs what is not among the results yet; [outcome], one line of output each."""
    known = known_results(results) if results else {}
    done = [known[c] for c in cases if c in known]
    for case in (c for c in cases if c not in known):
        outcome = run(case)
        first = (outcome.said.splitlines() or [""])[0]
        print(f"{case.program} -c {case.transport} {' '.join(case.options)}: {outcome.kind}"
              f"{': ' if first else ''}{first}", flush=True)
        if outcome.kind == "wrong":
            print("    " + "\n    ".join(outcome.said.splitlines()[1:][-60:]), flush=True)
        elif results:
            with open(results, "a", encoding="utf-8") as f:
                f.write(json.dumps(outcome) + "\n")
        done.append(outcome)
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launcher")
    parser.add_argument("--part", action="store_true", help="a part that stands for the whole")
    parser.add_argument("--pairs", action="store_true", help="two options at a time too")
    parser.add_argument("--only", default="", help="program, -c, transport and options match this")
    parser.add_argument("--results", metavar="FILE", help="what was right goes there, and is not "
                        "run again")
    parser.add_argument("--write", metavar="DOCUMENT", help="the table goes there")
    arguments = parser.parse_args()
    pair.need("ib_write_bw", "perftest")
    cases = part() if arguments.part else [*singles(), *(pairs() if arguments.pairs else ())]
    wanted = re.compile(arguments.only)
    done = report([c for c in cases
                   if wanted.search(f"{c.program} -c {c.transport} {' '.join(c.options)}")],
                  os.path.abspath(arguments.results) if arguments.results else None)
    wrong = sum(o.kind == "wrong" for o in done)
    if arguments.write and not wrong:
        perftest_table.write(arguments.write, done)
    print(f"{len(done) - wrong} passed, {wrong} failed")
    return 1 if wrong or not done else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
