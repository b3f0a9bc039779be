#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the cases that doc/seeds.md names: each row of its tables has a file and a case of it.

Usage: check_seeds.py ROOT BUILD

A row without a case, a case that its file's program does not list, and a case that fails are
failures. The last line is "N passed, N failed"; what the document lists as not there yet is printed
before it."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

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


def programs(root, build):
    """Source file, from the root, to the program that is made of it."""
    out = subprocess.run(["meson", "introspect", build, "--targets"], capture_output=True, text=True,
                         check=True).stdout
    found = {}
    for target in json.loads(out):
        if target["type"] != "executable":
            continue
        for group in target["target_sources"]:
            for source in group.get("sources", []):
                found.setdefault(os.path.relpath(source, root), target["filename"][0])
    return found


def cases_of(program):
    done = subprocess.run([program, "-l"], capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def run_case(program, case):
    """An empty string, or the end of what it said."""
    try:
        done = subprocess.run([program, case], capture_output=True, text=True, timeout=120,
                              check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return "no end after 120 s"
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-1500:] or "failed"


class Seeds:
    def __init__(self, root, build):
        with open(os.path.join(root, "doc/seeds.md"), encoding="utf-8") as f:
            self.text = f.read()
        self.programs = programs(root, build)
        self.listed = {}
        self.faults = []

    def program_of(self, number, path, case):
        """The program, or None and a fault: the row names nothing that is there."""
        program = self.programs.get(path)
        if not path or not case:
            self.faults.append(f"{number}: no case")
        elif program is None or not os.path.exists(program):
            self.faults.append(f"{number}: {path} is not built into any program")
        else:
            if program not in self.listed:
                self.listed[program] = cases_of(program)
            if case in self.listed[program]:
                return program
            self.faults.append(f"{number}: {path} has no case \"{case}\"")
        return None

    def run(self):
        named = {}
        for number, path, case in rows(self.text):
            program = self.program_of(number, path, case)
            if program:
                named.setdefault((program, case), []).append(number)
        passed = 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            ends = pool.map(lambda key: run_case(*key), named)
            for (key, numbers), end in zip(named.items(), ends):
                passed += 0 if end else len(numbers)
                if end:
                    self.faults += [f"{n}: \"{key[1]}\" failed\n{end}" for n in numbers]
        return passed, len(named)


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    seeds = Seeds(os.path.abspath(arguments[1]), arguments[2])
    passed, cases = seeds.run()
    print("\n".join(seeds.faults))
    for line in not_there(seeds.text):
        print(f"not there yet: {line}")
    print(f"{cases} cases for {passed + len(seeds.faults)} rows")
    print(f"{passed} passed, {len(seeds.faults)} failed")
    return 1 if seeds.faults or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
