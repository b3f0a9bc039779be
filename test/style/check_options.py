#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The options of the scripts in usertools are those that their heads explain, and whoever gets one
wrong is told so in a sentence before anything is done. Python's scripts there take Ctrl-C without a traceback, and
what begins as a program may be run as one.

Usage: check_options.py ROOT"""

import glob
import os
import re
import subprocess
import sys

CALL = re.compile(r'^options "([^"]*)" "([^"]*)" "\$@"$', re.M)


def run(script, *words):
    done = subprocess.run(["bash", script, *words], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=60)
    return done.returncode, done.stdout, done.stderr


def faults_of(script, text):
    call = CALL.search(text)
    names = [w for part in call.groups() for w in part.split() if w != "..."]
    head = re.match(r"(?:#.*\n)*", text).group(0)
    taken, told = {n.rstrip("=") for n in names}, set(re.findall(r"--([a-z]+(?:-[a-z]+)*)", head))
    for name in sorted(taken ^ told):
        yield f"--{name} is " + ("not explained" if name in taken else "explained, but not taken")
    code, said, _ = run(script, "--help")
    if code != 0 or said.split() != re.sub(r"(?m)^# ?", "", head.split("\n", 2)[2]).split():
        yield "--help does not print the head"
    wrong = [("--no-such", "--no-such: there is no such option; see --help")]
    wrong += [("--" + n[:-1], f"--{n[:-1]} needs a value") for n in names if n.endswith("=")]
    for word, sentence in wrong:
        code, _, said = run(script, word)
        if code != 1 or not said.endswith(f": {sentence}\n"):
            yield f"{word} alone: {said.strip() or code}"


def shows_a_traceback(text):
    """Whether Ctrl-C would end this program by Python's own handler."""
    return "__main__" in text and "KeyboardInterrupt" not in text and "signal.SIGINT" not in text


def python_faults(root):
    for script in sorted(glob.glob(os.path.join(root, "usertools", "*.py"))):
        with open(script, encoding="utf-8") as f:
            if shows_a_traceback(f.read()):
                yield f"{os.path.relpath(script, root)}:1: Ctrl-C ends it with a traceback"


def mode_faults(root):
    for script in sorted(glob.glob(os.path.join(root, "usertools", "*"))):
        if not os.path.isfile(script):
            continue
        with open(script, "rb") as f:
            begins = f.read(2) == b"#!"
        if begins and not os.access(script, os.X_OK):
            yield f"{os.path.relpath(script, root)}:1: it begins as a program, and cannot be run: chmod +x"


def main(root):
    scripts = sorted(glob.glob(os.path.join(root, "usertools", "*.sh")))
    asked = faults = 0
    for script in scripts:
        with open(script, encoding="utf-8") as f:
            text = f.read()
        if CALL.search(text) is None:
            continue
        asked += 1
        for fault in faults_of(script, text):
            faults += 1
            print(f"{os.path.relpath(script, root)}:1: {fault}")
    for fault in [*python_faults(root), *mode_faults(root)]:
        faults += 1
        print(fault)
    print(f"{asked} scripts, {faults} faults")
    return 1 if faults or asked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
