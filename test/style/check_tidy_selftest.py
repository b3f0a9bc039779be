#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""check_tidy.py reads again what changed, whatever it was, and nothing else: also sources that it has
to read by halves, and those beside a fault. clang is two scripts here, which keep a list of what they
read and will not have both sources of one group in a file.
Usage: check_tidy_selftest.py ROOT"""

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import check_tidy  # noqa: E402

CLANG = """#!/bin/sh
[ "$1" = --version ] && exec cat "$TIDY_FOLDER/version"
for file; do :; done
case $(cat "$file") in
*apple*pear*) names=both ;; *apple*) names=apple ;; *pear*) names=pear ;; *) names=other ;;
esac
echo "$(basename "$0") $names" >> "$TIDY_FOLDER/read"
if [ "$names" = both ]; then
  echo "$file:1:1: error: they do not go together [clang-diagnostic-error]"
  echo "$file:1:1: error: they do not go together" >&2
  exit 1
fi
if grep -q worm "$file"; then
  echo "$file:1:1: error: a worm [fruit]"
  exit 1
fi
exit 0
"""
FILES = {
    "lib/fruit/apple.cc": '#include "fruit/peel.hh"\nint apple;\n',
    "lib/fruit/pear.cc": "int pear;\n",
    "lib/fruit/peel.hh": '#include "fruit/skin.hh"\n',
    "lib/fruit/skin.hh": "int skin;\n",
    "app/other.cc": "int other;\n",
    ".clang-tidy": "Checks: all\n",
    "version": "14\n",
}
BOTH = {"clang-tidy both", "clang++ both"}
APPLE, PEAR, OTHER = ({f"clang-tidy {name}"} for name in ("apple", "pear", "other"))
ALL = BOTH | APPLE | PEAR | OTHER
# (what, the file that changes, its text, what is read, how many faults), one after another.
STEPS = (
    ("all that is new", None, "", ALL, 0),
    ("nothing, as nothing changed", None, "", set(), 0),
    ("a source and who is read with it", "lib/fruit/pear.cc", "int pear = 2;\n", BOTH | PEAR, 0),
    ("nothing once more", None, "", set(), 0),
    ("whoever includes a header by a header", "lib/fruit/skin.hh", "int skin = 2;\n", BOTH | APPLE, 0),
    ("a source alone in its group", "app/other.cc", "int other = 2;\n", OTHER, 0),
    ("all by other checks", ".clang-tidy", "Checks: none\n", ALL, 0),
    ("all by another clang-tidy", "version", "15\n", ALL, 0),
    ("what another command compiles", "flag", "-DRIPE", BOTH | APPLE | PEAR, 0),
    ("a fault", "lib/fruit/pear.cc", "int pear = 2;  // worm\n", BOTH | PEAR, 1),
    ("the fault alone again", None, "", PEAR, 1),
    ("the fault until it is gone", "lib/fruit/pear.cc", "int pear = 2;\n", set(), 0),
)


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def database(folder, flag):
    build = os.path.join(folder, "build")
    entries = [{"directory": build, "file": f"../{path}", "command": f"clang++ {flags} -c ../{path}"}
               for path, flags in (("lib/fruit/apple.cc", flag), ("lib/fruit/pear.cc", flag), ("app/other.cc", "-DOTHER"))]
    write(folder, "build/compile_commands.json", json.dumps(entries))


def run(folder):
    """(what was read, how many groups have faults)"""
    log = write(folder, "read", "")
    said = io.StringIO()
    check_tidy.version.cache_clear()
    with contextlib.redirect_stdout(said):
        check_tidy.main(folder, os.path.join(folder, "build"), [])
    with open(log, encoding="utf-8") as f:
        return set(f.read().splitlines()), int(said.getvalue().split()[-3])


def main(root):
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, text in FILES.items():
            write(folder, name, text)
        for name in check_tidy.OWN:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            shutil.copy(os.path.join(root, name), os.path.join(folder, name))
        for name in ("clang-tidy", "clang++"):
            os.chmod(write(folder, f"bin/{name}", CLANG), 0o755)
        os.environ |= {"PATH": f"{folder}/bin:{os.environ['PATH']}", "TIDY_FOLDER": folder}
        database(folder, "-DGREEN")
        for what, name, text, expected, faults in STEPS:
            if name == "flag":
                database(folder, text)
            elif name:
                write(folder, name, text)
            found = run(folder)
            if found != (expected, faults):
                print(f"{what}: {found}, expected {(expected, faults)}")
                bad += 1
    print(f"{len(STEPS)} steps, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
