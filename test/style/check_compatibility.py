#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/compatibility.md: its table of rdma-core's tests is what test/pyverbs/manifest.tsv says, and its
table of perftest's combinations is as usertools/perftest-matrix.sh wrote it.

Usage: check_compatibility.py ROOT [--write]   compares, or writes the first table anew"""

import os
import re
import sys

import source

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

import perftest_table

PAGE, MANIFEST = "doc/compatibility.md", "test/pyverbs/manifest.tsv"
BEGIN, END = "<!-- pyverbs: begin -->\n", "<!-- pyverbs: end -->\n"
TIERS = re.compile(r"(\w+) ((?:[^,.(]|\([^)]*\))+)[,.]")


def names_of_tiers(text):
    """{tier: what it is about}, from the manifest's opening comment."""
    comment = " ".join(line.lstrip("# ") for line in text.splitlines() if line.startswith("#"))
    return dict(TIERS.findall(comment.partition("Tiers: ")[2]))


def generate(root):
    text = source.read(root, MANIFEST)
    counts, missing = {}, {}
    for line in text.splitlines():
        if line.startswith("#") or not line.strip():
            continue
        _, tier, expected = line.split("\t")[:3]
        kind, _, reason = expected.partition(":")
        counts.setdefault(tier, []).append(kind)
        if kind == "NOTYET":
            missing.setdefault(tier, set()).add(reason)
    out = "| tier | about | pass | of | what the others want |\n|---|---|---|---|---|\n"
    names, passed, total = names_of_tiers(text), 0, 0
    for tier, kinds in sorted(counts.items()):
        good = kinds.count("PASS")
        passed, total = passed + good, total + len(kinds)
        wants = "; ".join(sorted(missing.get(tier, ())))
        out += f"| {tier} | {names[tier].strip()} | {good} | {len(kinds)} | {wants} |\n"
    return out + f"| | all | {passed} | {total} | |\n"


def main(arguments):
    root = arguments[0]
    page = source.read(root, PAGE)
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        print(f"{PAGE}:1: needs {BEGIN.strip()} and {END.strip()}")
        return 1
    right = generate(root)
    if "--write" in arguments:
        table, page = right, before + begin + right + end + after
        with open(os.path.join(root, PAGE), "w", encoding="utf-8") as f:
            f.write(page)
    bad = []
    if table != right:
        bad.append(f"not what {MANIFEST} says: run test/style/check_compatibility.py . --write")
    made = perftest_table.SECTION.search(page)
    if made is None or made.group(1) != perftest_table.stamp(made.group(2)):
        bad.append("the table of perftest is not as usertools/perftest-matrix.sh --write made it")
    for what in bad:
        print(f"{PAGE}:1: {what}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
