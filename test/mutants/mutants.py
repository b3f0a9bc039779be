# SPDX-License-Identifier: BSD-3-Clause
"""Builds each defect of mutants.toml by itself and looks who notices.

Usage: mutants.py check ROOT                       the table fits the sources
       mutants.py run ROOT WORK [OPTION...] [NAME...]      see usertools/mutants.sh

A copy of the tree is changed, built in one incremental folder below WORK and put right again. First
each defect meets the test that its row names (`killed_by`): only what this test needs is built. Those
that it does not notice, and those without such a name, meet our own tests in the order of nearness:
those of the file's own room, of its users, all others; the first that fails ends it. Beside them, for
defects of the adapter, rdma-core's own suite and its ping-pongs are asked whether they alone would
have noticed."""

import argparse
import collections
import os
import re
import sys
import time
import tomllib

from folder import OTHERS, Folder

LEAST = 60             # defects in the table
WANTED = 95            # per cent of them that our own tests notice
ABI = "abi"            # stands for a test: a static assertion fails, it does not compile
OPTIONAL = {"equivalent", "killed_by"}
FIELDS = {"name", "what", "file", "was", "now"} | OPTIONAL

Mutant = collections.namedtuple("Mutant", "name what file was now equivalent killed_by",
                                defaults=("", ""))


def path_of_table(root):
    return os.path.join(root, "test/mutants/mutants.toml")


def table(root):
    with open(path_of_table(root), "rb") as f:
        rows = tomllib.load(f)["mutant"]
    for row in rows:
        if not FIELDS - OPTIONAL <= set(row) <= FIELDS:
            raise ValueError(f"{row.get('name')}: fields are {sorted(FIELDS)}")
        if "killed_by" in row and ("equivalent" in row or not row["killed_by"].strip()):
            raise ValueError(f"{row['name']}: killed_by is a test's name, and nothing kills what is "
                             "equivalent")
    return [Mutant(**row) for row in rows]


def check(root):
    rows, faults = table(root), []
    names = collections.Counter(m.name for m in rows)
    faults += [f"{name}: listed {n} times" for name, n in names.items() if n > 1]
    if len(rows) < LEAST:
        faults.append(f"{len(rows)} defects, at least {LEAST} are wanted")
    for m in rows:
        with open(os.path.join(root, m.file), encoding="utf-8") as f:
            n = f.read().count(m.was)
        if n != 1:
            faults.append(f"{m.name}: its text is {n} times in {m.file}: change the table too")
        if m.was == m.now:
            faults.append(f"{m.name}: changes nothing")
    for fault in faults:
        print(fault)
    print(f"{len(rows)} defects, {len(faults)} faults")
    return 1 if faults else 0


def record(root, m, killer):
    """Writes into the row, below its file, who noticed it."""
    with open(path_of_table(root), encoding="utf-8") as f:
        text = f.read()
    row = re.compile(rf'(^name = "{re.escape(m.name)}"\n(?:.+\n)*?file = .+\n)(?:killed_by = .+\n)?', re.M)
    text, n = row.subn(lambda found: f'{found[1]}killed_by = "{killer}"\n', text)
    if n != 1:
        raise SystemExit(f"{m.name}: its row has another form than the others")
    with open(path_of_table(root), "w", encoding="utf-8") as f:
        f.write(text)


def is_of_adapter(m):
    return m.file.startswith(("drivers/vhca/", "lib/kilim/prm/", "lib/kilim/detail/base/"))


class BadDefect(Exception):
    """It does not compile: the table is wrong."""


class Broken:
    """The copy with the defect in it; put right at the end."""

    def __init__(self, folder, m):
        self.path = os.path.join(folder.tree, m.file)
        with open(self.path, encoding="utf-8") as f:
            self.right = f.read()
        self.wrong = self.right.replace(m.was, m.now)

    def write(self, text):
        with open(self.path, "w", encoding="utf-8") as f:
            f.write(text)

    def __enter__(self):
        self.write(self.wrong)

    def __exit__(self, *_):
        self.write(self.right)


def word(noticed):
    return {None: "-", True: "yes", False: "no"}[noticed]


class Campaign:
    """Tries the rows and keeps what was found."""

    def __init__(self, folder, rows, o):
        self.folder, self.rows, self.o = folder, rows, o
        self.end = time.monotonic() + o.minutes * 60
        self.killers = {}       # by the defect's name; None where nobody noticed
        self.wrong = {}         # what is wrong with a defect that does not compile
        self.counts = collections.Counter()

    def run(self):
        named = [m for m in self.rows if m.killed_by]
        self.expect_names(named)
        self.expect_no_failure([t for m in named for t in self.folder.named(m.killed_by)])
        print(f"{'defect':28} {'noticed by':28} {'pyverbs':8} {'pingpongs':9} {'s':>3}  what it is",
              flush=True)
        self.each(named, self.named_killer)
        left = [m for m in self.rows if not self.killers.get(m.name) and m.name not in self.wrong]
        if left and not self.o.named_only and time.monotonic() < self.end:
            self.expect_no_failure([t for m in left for circle in self.circles(m) for t in circle])
            self.each(left, self.near_killer)

    def expect_names(self, named):
        for m in named:
            if m.killed_by != ABI and not self.folder.named(m.killed_by):
                raise SystemExit(f"{m.name}: killed_by: there is no test {m.killed_by}")

    def expect_no_failure(self, tests):
        tests = list({id(t): t for t in tests}.values())
        good, said = self.folder.built(tests)
        if not good or (bad := self.folder.first_failure(tests)):
            raise SystemExit(f"without any defect: {bad if good else said[-2000:]}")

    def circles(self, m):
        return [*self.folder.circles(m.file), [] if self.o.near_only else self.folder.own()]

    def each(self, rows, killer_of):
        for m in rows:
            if time.monotonic() > self.end:
                break
            try:
                self.try_one(m, killer_of)
            except BadDefect as bad:
                self.wrong[m.name] = str(bad)

    def try_one(self, m, killer_of):
        """Who of ours notices, and whether the others alone would."""
        start = time.monotonic()
        with Broken(self.folder, m):
            killer = self.killers[m.name] = killer_of(m)
            suite = pingpongs = None
            if self.are_others_asked(m, killer):
                self.folder.built([t for t in self.folder.tests if t["name"] in (*OTHERS, "pyverbs")])
                suite, pingpongs = self.folder.noticed_by_suite(), self.folder.noticed_by_pingpongs()
        nobody = f"not {m.killed_by}" if killer_of == self.named_killer else "NOBODY"
        print(f"{m.name:28} {killer or ('nobody can' if m.equivalent else nobody):28} {word(suite):8} "
              f"{word(pingpongs):9} {time.monotonic() - start:3.0f}  {m.what}", flush=True)
        self.counts.update(suite=suite is True, pingpongs=pingpongs is True, asked=suite is not None)
        if killer and self.o.record and not m.equivalent:
            record(self.folder.root, m, killer)

    def are_others_asked(self, m, killer):
        alone = self.o.own_only or self.o.near_only or self.o.named_only
        return killer != ABI and is_of_adapter(m) and not alone

    def named_killer(self, m):
        """What shows a static assertion is any source that reads the file."""
        tests = self.folder.circles(m.file)[0] if m.killed_by == ABI else self.folder.named(m.killed_by)
        if self.is_refused(m, tests):
            return ABI
        return None if m.killed_by == ABI else self.folder.first_failure(tests)

    def near_killer(self, m):
        for tests in self.circles(m):
            if self.is_refused(m, tests):
                return ABI
            if killer := self.folder.first_failure(tests):
                return killer
        return None

    def is_refused(self, m, tests):
        """Whether a static assertion notices."""
        good, said = self.folder.built(tests)
        if not good and "error: static assertion failed" not in said:
            raise BadDefect(f"{m.name} does not compile:\n{said[-2000:]}")
        return not good

    def misnamed(self):
        for m in self.rows:
            killer = self.killers.get(m.name, m.killed_by)
            if m.killed_by and killer != m.killed_by and not (killer and self.o.record):
                yield f"{m.name}: killed_by says {m.killed_by}, noticed by {killer or 'nobody'}"
            if m.equivalent and killer:
                yield f"{m.name}: is said to be equivalent, and {killer} noticed it"

    def verdict(self):
        """Says what was found; the exit status."""
        wrong = [*self.wrong.values(), *self.misnamed()]
        untried = [m.name for m in self.rows if m.name not in self.killers | self.wrong
                   and not (m.equivalent and self.o.named_only)]
        for fault in wrong:
            print(fault)
        if untried:
            print(f"{len(untried)} defects were not tried: {' '.join(untried)}")
        print(f"of {self.counts['asked']} in the adapter: pyverbs alone {self.counts['suite']}, "
              f"the ping-pongs alone {self.counts['pingpongs']}")
        tried = [m for m in self.rows if m.name in self.killers and not m.equivalent]
        killed = sum(self.killers[m.name] is not None for m in tried)
        print(f"mutants: {killed}/{len(tried)} killed by our own tests")
        enough = tried and killed * 100 >= WANTED * len(tried)
        return 0 if enough and not wrong and not untried else 1


def chosen(root, o):
    rows = table(root)
    if unknown := set(o.names) - {m.name for m in rows}:
        raise SystemExit(f"no such defect: {' '.join(sorted(unknown))}")
    rooms = tuple(room.rstrip("/") + "/" for room in o.room)
    rows = [m for m in rows
            if m.name in o.names or (m.file + "/").startswith(rooms) or not (o.names or rooms)]
    if not rows:
        raise SystemExit(f"no defect lies in {' '.join(o.room)}")
    # Most is compiled for a header: what takes seconds comes first.
    return sorted(rows, key=lambda m: m.file.endswith((".hh", ".h")))


def run(root, o):
    campaign = Campaign(Folder(root, os.path.abspath(o.work)), chosen(root, o), o)
    campaign.run()
    return campaign.verdict()


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("mode", choices=("check", "run"))
    words.add_argument("root")
    words.add_argument("work", nargs="?")
    words.add_argument("--minutes", type=int, default=240)
    words.add_argument("--room", action="append", default=[])
    for flag in ("--named-only", "--near-only", "--own-only", "--record"):
        words.add_argument(flag, action="store_true")
    words.add_argument("names", nargs="*", default=[])
    o = words.parse_intermixed_args()
    root = os.path.abspath(o.root)
    if o.mode == "check":
        return check(root)
    return run(root, o)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
