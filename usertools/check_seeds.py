#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the cases that doc/seeds.md names: each row of its tables has a file and a
case of it.

Usage: check_seeds.py ROOT BUILD

What the cases need is built first. A row without a case, a case that its file's
program does not list, and a case that fails are failures. A program or case
that ends with 77 and a sentence on its standard output is skipped for that
reason; root lacks nothing, so there it is a failure. The last line is "N
passed, N failed, N skipped"; what the document lists as not there yet is
printed before it."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

SKIPPED = 77   # as Meson has it
ROW = re.compile(r"^\| ([A-Z]\d+) \|(.*)\|$")


def rows(text):
    """(number, file, case) of every row; empty where a cell is."""
    for line in text.splitlines():
        m = ROW.match(line)
        if m:
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", m.group(2))]
            cells += [""] * (4 - len(cells))
            yield m.group(1), cells[2], cells[3]


def not_there(text):
    part = text.split("## Not there yet", 1)[1] if "## Not there yet" in text else ""
    return [line[2:] for line in part.splitlines() if line.startswith("- ")]


def together(generated):
    """What is compiled together (Meson's unity) is what files that it made include."""
    sources = []
    for path in generated:
        if re.search(r"-unity\d+\.cpp$", path) and os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                sources += re.findall(r'#include\s*[<"](.*)[>"]', f.read())
    return sources


def introspect(build, what):
    out = subprocess.run(["meson", "introspect", build, "--" + what], capture_output=True, text=True,
                         check=True).stdout
    return json.loads(out)


def programs(root, build):
    """Source file, from the root, to the program that is made of it."""
    found = {}
    for target in introspect(build, "targets"):
        if target["type"] == "executable":
            for group in target["target_sources"]:
                for source in group.get("sources", []) + together(group.get("generated_sources", [])):
                    found.setdefault(os.path.relpath(source, root), target["filename"][0])
    return found


def run_ninja(build, *words):
    return subprocess.run(["ninja", "-C", build, *words], capture_output=True, text=True, check=False)


def bring_up_to_date(build, names):
    """What ninja says where that is not possible. Who may not write there may use what is new enough."""
    if os.access(build, os.W_OK):
        done = run_ninja(build, *names)
        return "" if done.returncode == 0 else done.stdout[-3000:] + done.stderr
    if "no work to do" in run_ninja(build, "-n", *names).stdout:
        return ""
    return f"{build} is older than its sources, and another user's: no test of it says anything"


def last_line(done):
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[-1] if lines else "it says nothing"


def reason_of(done):
    """Why the program skips, None where it does not."""
    return last_line(done) if done.returncode == SKIPPED else None


def listed(words):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


class Suite:
    """What one suite of a program (test/support/ut.hh) lists, or why it does not; a program that has none is one."""

    def __init__(self, words):
        self.words = words
        done = listed([*words, "-l"])
        self.skips = reason_of(done)
        self.fault = f"lists no cases: {last_line(done)}" if done.returncode not in (0, SKIPPED) else ""
        self.cases = done.stdout.splitlines() if done.returncode == 0 else []


def suites_of(program):
    done = listed([program, "--suites"])
    names = done.stdout.split() if done.returncode == 0 else []
    return [Suite((program, "--suite", name)) for name in names] or [Suite((program,))]


def run_case(words, case):
    """(what it said where it failed, why it skips)."""
    try:
        done = subprocess.run([*words, case], capture_output=True, text=True, timeout=120,
                              check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return "no end after 120 s", None
    if done.returncode in (0, SKIPPED):
        return "", reason_of(done)
    return (done.stdout + done.stderr)[-1500:] or "failed", None


class Seeds:
    def __init__(self, text, known, may_skip):
        self.text, self.known, self.may_skip = text, known, may_skip
        self.listed, self.faults, self.skipped = {}, [], []

    def skip(self, number, reason):
        if self.may_skip:
            self.skipped.append(f"{number}: skipped: {reason}")
        else:
            self.faults.append(f"{number}: root skips nothing, and this is skipped: {reason}")

    def suite_of(self, number, path, case):
        """What starts the suite that has the case, or None where the row names nothing that can be run."""
        program = self.known.get(path)
        if not path or not case:
            self.faults.append(f"{number}: no case")
            return None
        if program is None or not os.path.exists(program):
            self.faults.append(f"{number}: {path} is not built into any program")
            return None
        if program not in self.listed:
            self.listed[program] = suites_of(program)
        suites = self.listed[program]
        # Two suites may have a case of one name: the file's own is meant.
        for suite in sorted(suites, key=lambda s: not os.path.basename(path).startswith(s.words[-1])):
            if case in suite.cases:
                return suite.words
        reasons = [s.skips for s in suites if s.skips is not None]
        faults = [s.fault for s in suites if s.fault]
        if reasons:
            self.skip(number, reasons[0])
        else:
            self.faults.append(f"{number}: {path} " + (faults[0] if faults else f'has no case "{case}"'))
        return None

    def run(self):
        named = {}
        for number, path, case in rows(self.text):
            words = self.suite_of(number, path, case)
            if words:
                named.setdefault((words, case), []).append(number)
        passed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            ends = pool.map(lambda key: run_case(*key), named)
            for (key, numbers), (end, skips) in zip(named.items(), ends):
                if end:
                    self.faults += [f"{n}: \"{key[1]}\" failed\n{end}" for n in numbers]
                elif skips is not None:
                    for n in numbers:
                        self.skip(n, skips)
                else:
                    passed += len(numbers)
        return passed, len(named)


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    root, build = os.path.abspath(arguments[1]), arguments[2]
    with open(os.path.join(root, "doc/seeds.md"), encoding="utf-8") as f:
        text = f.read()
    known = programs(root, build)
    needed = {known[path] for _, path, _ in rows(text) if path in known}
    wrong = bring_up_to_date(build, sorted(os.path.relpath(p, os.path.abspath(build)) for p in needed))
    if wrong:
        print(f"{wrong}\n0 passed, 1 failed, 0 skipped")
        return 1
    seeds = Seeds(text, known, may_skip=os.geteuid() != 0)
    passed, cases = seeds.run()
    print("\n".join(seeds.faults + seeds.skipped))
    for line in not_there(seeds.text):
        print(f"not there yet: {line}")
    print(f"{cases} cases for {passed + len(seeds.faults) + len(seeds.skipped)} rows")
    print(f"{passed} passed, {len(seeds.faults)} failed, {len(seeds.skipped)} skipped")
    return 1 if seeds.faults or not passed else 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0)
    try:
        sys.exit(main(sys.argv))
    except KeyboardInterrupt:
        sys.exit(130)
