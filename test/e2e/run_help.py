# SPDX-License-Identifier: BSD-3-Clause
"""--help of every program, example and script that the project has: it ends well, says something, once, in 80 columns, and
without a traceback. What EAL says of its own options is DPDK's.

Usage: run_help.py ROOT PROGRAM..."""

import glob
import os
import re
import subprocess
import sys

COLUMNS, SECONDS = 80, 60


def faults_of(text, code):
    own = re.split("(?m)^EAL's own help follows|^EAL common options", text)[0]
    if code != 0:
        yield f"ends with {code}"
    if not own.strip():
        yield "says nothing"
    if "Traceback" in text:
        yield "is a traceback"
    if len(re.findall(r"(?mi)^usage:", own)) > 1:
        yield "says twice how it is used"
    for line in own.splitlines():
        if len(line) > COLUMNS and not line.startswith("EAL: "):
            yield f"{len(line)} columns: {line}"


def commands(root, programs):
    for program in programs:
        yield [program, "--help"]
    for script in sorted(glob.glob(os.path.join(root, "usertools", "*.py"))):
        with open(script, encoding="utf-8") as f:
            if f.readline().startswith("#!"):  # a module has none
                yield [sys.executable, script, "--help"]
    for script in sorted(glob.glob(os.path.join(root, "usertools", "*.sh"))):
        with open(script, encoding="utf-8") as f:
            if re.search(r"(?m)^ *options ", f.read()):
                yield ["bash", script, "--help"]


def main(root, programs):
    asked = faults = 0
    for command in commands(root, programs):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True,
                              timeout=SECONDS, check=False)
        asked += 1
        for fault in faults_of(done.stdout, done.returncode):
            faults += 1
            print(f"{os.path.basename(command[-2])} --help {fault}")
    print(f"{asked} programs and scripts asked, {faults} faults")
    return 1 if faults or asked < 20 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
