#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""scale prints each row beside its counterpart, and no object takes more memory than its bound. No time is judged:
the counts of the suite callgrind are the gates.

Usage: run_scale.py PROGRAM"""

import json
import os
import subprocess
import sys

KEYS = [10, 1000, 10000, 100000] + [1000000] * (os.environ.get("KILIM_CHECK") == "long")
COUNTS = [[1, 16, 256, 1024, 4096, 8192], [1, 256, 4096, 16384], KEYS, KEYS, [1 << 30, 65536], [1, 2, 4],
          [1], [1], [52, 256, 4096, 65532]]


def main(program):
    done = subprocess.run([program], capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    memory = [line for line in lines if "bytes" in line]
    assert len(memory) == 3 and all(line["met"] and line["bytes"] > 0 for line in memory), memory
    counts = {}
    for line in lines:
        if "bytes" in line:
            continue
        counts.setdefault(line["test"], []).append(int(line["count"]))
        assert line["ns"] > 0 and line["peer"] > 0, line
    rows = list(counts.values())
    assert rows[:9] == COUNTS and len(rows) == 15, rows
    print(f"{len(lines)} lines of scale")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
