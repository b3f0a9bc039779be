# SPDX-License-Identifier: BSD-3-Clause
"""The table of perftest's combinations in doc/compatibility.md, between two marks. The first mark
has the sum of what is between them: test/style/check_compatibility.py sees an edit by hand."""

import hashlib
import re
import string
import subprocess

from perftest_rules import OPTIONS, PROGRAMS, TRANSPORTS, limit

BEGIN, END = "<!-- perftest: begin {} -->\n", "<!-- perftest: end -->\n"
SECTION = re.compile(r"<!-- perftest: begin (\w*) -->\n(.*?)<!-- perftest: end -->\n", re.S)


def stamp(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def version(package):
    return subprocess.run(["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True,
                          text=True, check=True).stdout


def section(outcomes):
    """Lines of Markdown."""
    letters = {}

    def cell(outcome):
        if outcome is None:
            return " "
        if outcome.kind == "runs":
            return "yes"
        why = limit(outcome.case).why if outcome.kind == "limit" else outcome.said
        letters.setdefault(why, string.ascii_lowercase[len(letters)])
        return letters[why]

    of = {o.case: o for o in outcomes}
    counts = {kind: sum(o.kind == kind for o in outcomes) for kind in ("runs", "refused", "limit")}
    double = sum(len(o.case.options) > 1 for o in outcomes)
    text = (f"{len(outcomes)} combinations, {double} of them of two options: {counts['runs']} run, "
            f"{counts['refused']} are refused by perftest in its own words, {counts['limit']} do "
            "not run, or not always, for a reason below.\n"
            f"perftest {version('perftest')}, rdma-core {version('libibverbs1')}.\n\n")
    text += "| program | `-c` | alone | " + " | ".join(f"`{o}`" for o in OPTIONS) + " |\n"
    text += "|---" * (len(OPTIONS) + 3) + "|\n"
    for program in PROGRAMS:
        for transport in TRANSPORTS:
            row = [of.get((program, transport, o)) for o in ((), *((o,) for o in OPTIONS))]
            text += f"| {program} | {transport} | " + " | ".join(cell(o) for o in row) + " |\n"
    return text + "\n" + "".join(f"- {letter}: {said}\n" for said, letter in letters.items())


def write(path, outcomes):
    """Puts the table into the document."""
    with open(path, encoding="utf-8") as f:
        document = f.read()
    text = section(outcomes)
    new, found = SECTION.subn(lambda _: BEGIN.format(stamp(text)) + text + END, document)
    if found != 1:
        raise AssertionError(f"{path}: no place for the table")
    with open(path, "w", encoding="utf-8") as f:
        f.write(new)
