#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts what check.sh ran. Reads Meson's own logs, so that no test is counted by
hand.

Usage: check_report.py suites BUILD MODE       the suites to run, in order
       check_report.py targets BUILD WORD...   files to build for these suites
                                               or tests; -slow: but for slow
                                               ones
       check_report.py one STAGE               a line about one stage, with what
                                               failed in it
       check_report.py all FOLDER              the table of minutes, then the
                                               last line"""

import glob
import json
import os
import re
import subprocess
import sys

# Minutes that a part of the check should take on two cores; a part is one or more stages. A part over
# them is told and fails nothing, since machines differ.
BUDGETS = (
    ("build", ("build", "build-asan"), 10),
    ("unit+golden+vhca under ASan", ("asan",), 10),
    ("style", ("style",), 2), ("tidy", ("tidy",), 10), ("abi", ("abi",), 1), ("unit", ("unit",), 3),
    ("vhca", ("vhca",), 3), ("golden", ("golden",), 3), ("e2e", ("e2e",), 4),
    ("pyverbs", ("pyverbs",), 2), ("interop", ("interop",), 6), ("soak", ("soak",), 3),
    ("fuzz", ("build-fuzz", "fuzz"), 5), ("callgrind", ("callgrind",), 3),
    ("memcheck", ("memcheck",), 6), ("threads", ("build-tsan", "tsan"), 3), ("seeds", ("seeds",), 1), ("install", ("install",), 5),
    ("first minute", ("fresh-build", "fresh"), 10), ("trixie", ("trixie-build", "trixie"), 6),
)
# Minutes of a whole check, by KILIM_CHECK: over the first it is told, over the second it fails. One tree
# took 36, 42 and 55 minutes on machines of one kind, so only what would not end before a CI that stops
# at 90 fails. --long has neither.
WHOLE = {"quick": (5, 10), "normal": (45, 75)}
ORDER = ("style", "abi", "unit", "vhca", "golden", "pyverbs", "interop", "soak", "fuzz",
         "callgrind", "e2e", "install", "tidy")
LONG = ("long",)                  # only with --long; they have no budget
OTHER_NAMES = ("perf", "slow")    # of suites that run under their own
SLOW = "slow"                     # tests of other suites that the quick check leaves to the whole one
NOT_QUICK = ("tidy", "pyverbs", "soak", "interop", "fuzz", "callgrind", "install")
CASES = re.compile(r"^(\d+) passed, (\d+) failed$", re.M)


def introspect(build, what):
    out = subprocess.run(["meson", "introspect", build, "--" + what], capture_output=True,
                         text=True, check=True).stdout
    return json.loads(out)


def suites_of(test):
    return [s.split(":")[-1] for s in test["suite"]]


def suites(build, mode):
    found = {s for t in introspect(build, "tests") for s in suites_of(t)} - set(OTHER_NAMES)
    if mode != "long":
        found -= set(LONG)
    if mode == "quick":
        found -= set(NOT_QUICK)
    ordered = [s for s in ORDER if s in found] + sorted(found - set(ORDER))
    print(" ".join(ordered))


def targets(build, words):
    files = {t["id"]: t["filename"] for t in introspect(build, "targets")}
    wanted = set()
    for test in introspect(build, "tests"):
        if "-" + SLOW in words and SLOW in suites_of(test):
            continue
        if test["name"] in words or set(suites_of(test)) & set(words):
            for d in test["depends"]:
                wanted.update(os.path.relpath(f, os.path.abspath(build)) for f in files[d])
    print(" ".join(sorted(wanted)))


class Stage:
    """One part of a check: how long, how it ended, and its tests if Meson ran any."""

    def __init__(self, path):
        self.name = os.path.basename(path).split("-", 1)[1]
        with open(path + ".ended", encoding="utf-8") as f:
            code, start, end, ticks, where = f.read().split()
        self.code, self.start, self.end = int(code), float(start), float(end)
        self.processor = int(ticks) / os.sysconf("SC_CLK_TCK")
        # One that others went before has the minutes that it would have taken alone.
        self.beside = where == "beside"
        self.seconds = self.processor / os.cpu_count() if self.beside else self.end - self.start
        with open(path + ".out", encoding="utf-8", errors="replace") as f:
            self.output = f.read()
        self.tests = []
        for log in glob.glob(glob.escape(path) + ".json"):
            with open(log, encoding="utf-8", errors="replace") as f:
                self.tests = [json.loads(line) for line in f if line.strip()]

    def count(self):
        """(passed, failed, skipped, what failed)"""
        passed, skipped, bad = 0, 0, []
        for t in self.tests:
            name = t["name"].split(" / ")[-1]
            if t["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif t["result"] == "SKIP" and self.may_skip(name):
                skipped += 1
            else:
                bad.append((name, t))
        if not self.tests:   # a stage without tests is one itself
            if self.code == 0:
                passed = 1
            else:
                bad.append((self.name, {"result": "FAIL", "stdout": self.output}))
        elif self.code != 0 and not bad:
            bad.append((self.name, {"result": f"exit code {self.code}", "stdout": self.output}))
        return passed, len(bad), skipped, bad

    def may_skip(self, name):
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        with open(os.path.join(root, "test/skips.txt"), encoding="utf-8") as f:
            for line in f:
                head = line.split(":")[0].strip().split(None, 1)
                if not line.startswith("#") and head == [self.name, name]:
                    return True
        return False

    def cases(self):
        return sum(int(m.group(1)) + int(m.group(2)) for t in self.tests
                   for m in CASES.finditer(t.get("stdout", "")))


def one(path):
    stage = Stage(path)
    passed, failed, skipped, bad = stage.count()
    cases = f", {stage.cases()} cases" if stage.cases() else ""
    print(f"  {stage.name:11} {stage.seconds / 60:5.1f} min  {passed} passed, {failed} failed, "
          f"{skipped} skipped{cases}", flush=True)
    for name, t in bad:
        print(f"---- {stage.name} / {name}: {t['result']}")
        text = (t.get("stdout", "") + "\n" + t.get("stderr", "")).strip()
        print("\n".join(text.splitlines()[-60:]))
        print("----", flush=True)
    return 1 if bad else 0


def everything(folder):
    stages = [Stage(p[:-len(".ended")]) for p in sorted(glob.glob(folder + "/*.ended"))]
    total = [0, 0, 0]
    cases = sum(s.cases() for s in stages)
    for stage in stages:
        total = [a + b for a, b in zip(total, stage.count())]
    print("\npart                           minutes  budget  processor")
    for part, names, budget in BUDGETS:
        of_part = [s for s in stages if s.name in names]
        spent, processor = (sum(x) / 60 for x in ([s.seconds for s in of_part], [s.processor for s in of_part]))
        beside = "  beside others" if any(s.beside for s in of_part) else ""
        if of_part:
            print(f"{part:30} {spent:7.1f} {budget:7} {processor:10.1f}{beside}{'  over budget' if spent > budget else ''}")
    spent = (max(s.end for s in stages) - min(s.start for s in stages)) / 60
    budget, limit = WHOLE.get(os.environ.get("KILIM_CHECK"), ("", ""))
    late = limit != "" and spent > limit
    over = "" if budget == "" or spent <= budget else "  over budget"
    bad = [f"{s.name} / {name}" for s in stages for name, _ in s.count()[3]]
    bad += [f"it took more than {limit} minutes"] if late else []
    processor = sum(s.processor for s in stages) / 60
    print(f"{'all':30} {spent:7.1f} {budget:>7} {processor:10.1f}{over}{', counted as failed' if late else ''}")
    print(f"{cases} cases in {sum(total)} tests")
    for what in bad:   # again, because a long log is read from its end
        print(f"failed: {what}")
    print(f"{total[0]} passed, {len(bad)} failed, {total[2]} skipped")
    return 1 if bad or not total[0] else 0


def main(words):
    if words[:1] == ["suites"]:
        return suites(words[1], words[2])
    if words[:1] == ["targets"]:
        return targets(words[1], words[2:])
    if words[:1] == ["one"]:
        return one(words[1])
    if words[:1] == ["all"]:
        return everything(words[1])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0)
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
