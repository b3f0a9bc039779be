#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rows of the table of releases in doc/compatibility.md, made from a build
folder in which release-tests.sh ran.

Usage: release_rows.py row FOLDER         the row
       release_rows.py write PAGE ROW     puts the row into the page, in place
                                          of the older one of its release"""

import glob
import json
import os
import re
import sys

COLUMNS = ("release", "dpdk", "rdma-core", "compiler", "run")
SECTION = re.compile(r"(?s)(<!-- releases: begin -->\n(?:\|[^\n]*\n){2})(.*?)(<!-- releases: end -->)")


def said(folder):
    with open(os.path.join(folder, "release.txt"), encoding="utf-8") as f:
        return dict(line.rstrip("\n").split(" ", 1) for line in f)


def results(folder):
    for log in glob.glob(os.path.join(glob.escape(folder), "meson-logs", "release*.json")):
        with open(log, encoding="utf-8", errors="replace") as f:
            yield from (json.loads(line) for line in f if line.strip())


def row(folder):
    words, passed, failed, skipped = said(folder), 0, [], []
    for test in results(folder):
        name = test["name"].split(" / ")[-1]
        if test["result"] in ("OK", "EXPECTEDFAIL"):
            passed += 1
        else:
            (skipped if test["result"] == "SKIP" else failed).append(name)
    told = f"{passed} passed"
    for names, what in ((failed, "failed"), (skipped, "skipped")):
        told += f", {len(names)} {what}" + (f" ({', '.join(sorted(names))})" if names else "")
    print("| " + " | ".join([words[c] for c in COLUMNS] + [told, words["date"]]) + " |")
    return 0 if passed and not failed else 1


def write(page, new):
    with open(page, encoding="utf-8") as f:
        text = f.read()
    found = SECTION.search(text)
    if not found:
        print(f"{page} has no table of releases", file=sys.stderr)
        return 1

    def key(line):
        cells = [c.strip() for c in line.strip("|\n").split("|")]
        return cells[0], cells[COLUMNS.index("run")]

    rows = {key(line): line for line in found.group(2).splitlines()}
    rows[key(new)] = new
    body = "".join(line + "\n" for line in rows.values())
    with open(page, "w", encoding="utf-8") as f:
        f.write(text[:found.start(2)] + body + text[found.end(2):])
    return 0


def main(words):
    if words[:1] == ["row"] and len(words) == 2:
        return row(words[1])
    if words[:1] == ["write"] and len(words) == 3:
        return write(*words[1:])
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
