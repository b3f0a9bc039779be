# SPDX-License-Identifier: BSD-3-Clause
"""A table of rdma-core's tests by tier, from test/pyverbs/manifest.tsv: how many are expected to
pass, and what the others want."""

import re

import source

MANIFEST = "test/pyverbs/manifest.tsv"
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
