#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Recordings of send queue doorbells (doc/guides/recording.md).

  kilim-wqe.py print FILE            every WQE in words, a segment a line
  kilim-wqe.py lint FILE             what is wrong with them
  kilim-wqe.py diff FILE FILE        what two builds wrote differently; queue
                                     numbers do not count
  kilim-wqe.py replay FILE           post it all on a virtual device

The exit status is 1 where something was found, differs or failed. The program
that reads the files is kilim-wqe of build/app, or of an installation, or what
KILIM_WQE names."""

import difflib
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
PLACES = (os.path.join(ROOT, "build/app/wqe/kilim-wqe"), os.path.join(ROOT, "../../bin/kilim-wqe"))
READER = os.environ.get("KILIM_WQE") or next(filter(os.path.exists, PLACES), PLACES[0])


def reader(*words):
    """What the reader says; a refusal ends the program with its sentence."""
    try:
        done = subprocess.run([READER, *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        sys.exit(f"kilim-wqe.py: no {READER}: usertools/quickstart.sh builds it, or set KILIM_WQE")
    if done.returncode not in (0, 1):
        sys.stderr.write(done.stderr)
        sys.exit(done.returncode if done.returncode > 0 else 3)
    sys.stderr.write(done.stderr)
    return done.returncode, done.stdout


def segments(file):
    """Lines for people: a WQE's head, then its segments, indented."""
    lines = []
    for line in reader("print", file)[1].splitlines():
        head, *rest = line.split("; ")
        lines += [head] + ["    " + part for part in rest]
    return lines


def compare(one, other):
    """The exit status of a diff, whose lines are printed."""
    def comparable(file):
        return [re.sub(r" (queue|target) 0x[0-9a-f]+", "", line) for line in segments(file)]
    lines = list(difflib.unified_diff(comparable(one), comparable(other), one, other, lineterm=""))
    print("\n".join(lines) if lines else "no difference")
    return 1 if lines else 0


def main(words):
    if len(words) == 2 and words[0] == "print":
        print("\n".join(segments(words[1])))
        return 0
    if len(words) == 3 and words[0] == "diff":
        return compare(words[1], words[2])
    if len(words) == 2 and words[0] in ("lint", "replay"):
        status, text = reader(*words)
        sys.stdout.write(text)
        return status
    print(__doc__, file=sys.stderr)
    return 0 if words in (["-h"], ["--help"]) else 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
