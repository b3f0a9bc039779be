#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts instructions of Kilim's datapath against its peers', by callgrind (libmlx5's, where a line
names no other) and by themselves: prints a line for each metric with its ratio, its count and its
goals (0: none), and fails where a goal is missed.

Usage: instructions.py PROGRAM [METRIC...]      the metrics that contain one of the words; none: all"""

import glob
import math
import os
import re
import subprocess
import sys
import tempfile

ROUNDS = 10


def run(program, folder, words):
    """The program's goals (of the ratio, of the count), and (metric, case, side) -> instructions for one piece of work."""
    command = ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--combine-dumps=no",
               f"--callgrind-out-file={folder}/out", program, str(ROUNDS), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the program failed under callgrind:\n{done.stderr[-3000:]}")
    goals = {}
    for line in done.stdout.splitlines():
        word, metric, ratio, most = line.split("|")
        if word == "goal":
            goals[metric] = float(ratio), float(most)
    return goals, {key: count for path in glob.glob(folder + "/out*")
                   for key, count in counts(path)}


def counts(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    mark = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.M)
    total = re.search(r"^totals: (\d+)", text, re.M)
    if mark and total:
        metric, case, side, done = mark.group(1).split("|")
        yield (metric, case, side), int(total.group(1)) / int(done)


def judge(metric, found):
    """(ratio, most instructions, lines about its cases); the ratio is the geometric mean over the
    cases."""
    lines, logs, counts_of_ours = [], [], []
    for case in dict.fromkeys(c for m, c, _ in found if m == metric):
        sides = {s: n for (m, c, s), n in found.items() if (m, c) == (metric, case)}
        ours = [n for s, n in sides.items() if s.startswith("kilim ")]
        peers = {s.split(" ", 1)[1]: n for s, n in sides.items() if s.startswith("libmlx5 ")}
        best = min(peers, key=peers.get)
        logs.append(math.log(min(ours) / peers[best]))
        counts_of_ours.append(min(ours))
        others = ", ".join(f"{s} {n:.1f}" for s, n in sorted(peers.items()) if s != best)
        lines.append(f"    {case:12} {min(ours):8.1f}  {best} {peers[best]:.1f}"
                     + (f" ({others})" if others else ""))
    ratio = math.exp(sum(logs) / len(logs))
    return ratio, max(counts_of_ours), lines


def main(words):
    if not words:
        print(__doc__, file=sys.stderr)
        return 2
    program, wanted = words[0], words[1:]
    with tempfile.TemporaryDirectory() as folder:
        goals, found = run(os.path.abspath(program), folder, wanted)
    missed, judged = 0, 0
    for metric, (goal, limit) in goals.items():
        if wanted and not any(w in metric for w in wanted):
            continue
        ratio, most, lines = judge(metric, found)
        met = (goal == 0 or ratio <= goal) and (limit == 0 or most <= limit)
        missed += not met
        judged += 1
        print(f"{metric}: {ratio:.3f} of the peer's instructions, goal {goal:g}"
              + (f"; {most:.1f} instructions, at most {limit:g}" if limit else "")
              + ("" if met else "  MISSED"))
        print("\n".join(lines))
    print(f"{judged} metrics, {missed} missed")
    return 1 if missed or not judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
