#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The door: the public headers, which lie in lib/kilim itself, and vhca.h of the device. They are few, each says what it is, who may call, what
fails, and shows an example that compiles; what is behind them (detail/) is named by no guide, example or text for users.

Usage: check_door.py ROOT              prints `file:line: what`, exits 1 if anything was found
       check_door.py --selftest        plants each fault in a copy and wants it reported

The examples are compiled by test `installed headers` (run_install.py), against what is installed."""

import glob
import os
import re
import shutil
import sys
import tempfile

MOST = 30
DOOR = "lib/kilim"
PARTS = ("Threads:", "Errors:", "Example:")
# What users read and start from. doc/decisions is history.
TEXTS = ("doc/guides/*.md", "examples/*.cc", "examples/meson.build")
INNER = re.compile(r"kilim/detail/[\w/.]*")


def headers(root):
    """Public headers, without the formats of prm/, which prm.hh has. The device installs its own by itself."""
    return sorted(path for pattern in (f"{DOOR}/*.h", f"{DOOR}/*.hh", "drivers/vhca/api/vhca.h")
                  for path in glob.glob(os.path.join(root, pattern)))


def opening(path):
    """The lines of a header's first comment, behind the SPDX line."""
    lines = []
    with open(path, encoding="utf-8") as f:
        for line in f.read().splitlines()[1:]:
            if not line.startswith("//"):
                break
            lines.append(line)
    return lines


def example(path):
    """The program in a header's comment that includes the header as a user does; None: it has none."""
    lines = opening(path)
    if "// Example:" not in lines:
        return None
    code = []
    for line in lines[lines.index("// Example:") + 1:]:
        if not line.startswith("//   "):
            break
        code.append(line[5:])
    if not code:
        return None
    return f'#include "kilim/{os.path.basename(path)}"\n' + "\n".join(code) + "\n"


def faults(root):
    found = headers(root)
    if not found or len(found) > MOST:
        yield DOOR, 1, f"{len(found)} public headers, at most {MOST}: does a program author need this one by itself?"
    with open(os.path.join(root, "lib/install/meson.build"), encoding="utf-8") as f:
        installed = set(re.findall(r"'\.\./kilim/([\w.]+)'", f.read()))
    names = {os.path.basename(path) for path in found if "/drivers/" not in path}
    for name in sorted(names ^ installed):
        yield "lib/install/meson.build", 1, f"{name} is " + ("not installed" if name in names else "no public header")
    for path in found:
        lines, place = opening(path), os.path.relpath(path, root)
        for part in PARTS:
            if not any(line.startswith("// " + part) for line in lines):
                yield place, 1, f"the opening comment has no part `{part}`"
        if example(path) is None:
            yield place, 1, "no example: lines that begin with `//   ` behind `// Example:`"
    covered = set(re.findall(r'"kilim/(prm/[\w.]+)"', open(os.path.join(root, DOOR, "prm.hh"), encoding="utf-8").read()))
    for path in sorted(glob.glob(os.path.join(root, DOOR, "prm/*.hh"))):
        if "prm/" + os.path.basename(path) not in covered:
            yield f"{DOOR}/prm.hh", 1, f"does not include prm/{os.path.basename(path)}"
    for pattern in TEXTS:
        for path in sorted(glob.glob(os.path.join(root, pattern))):
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    for m in INNER.finditer(line):
                        yield os.path.relpath(path, root), number, f"{m.group(0)} is not for users: a header of {DOOR} has it"


# (what is planted, file, text put behind, a part of the report)
SEEDS = (
    ("a header too many", "lib/kilim/x{0}.hh", "// SPDX\n// A thing.\n#pragma once\n", "at most 30"),
    ("a header that is not installed", "lib/kilim/other.hh", "// SPDX\n// A thing.\n#pragma once\n", "other.hh is not installed"),
    ("a header without its threads", "lib/kilim/port.hh", "=// SPDX\n// A port.\n//\n// Errors: none.\n//\n// Example:\n//   int i;\n",
     "no part `Threads:`"),
    ("a header without an example", "lib/kilim/port.hh", "=// SPDX\n// A port.\n//\n// Example:\n#pragma once\n", "no example"),
    ("a format that the umbrella lacks", "lib/kilim/prm/other_seg.hh", "// SPDX\n", "does not include prm/other_seg.hh"),
    ("an example that looks behind the door", "examples/01_forward.cc", '#include "kilim/detail/app/lane.hh"\n', "not for users"),
    ("a guide that looks behind the door", "doc/guides/packets.md", "`lib/kilim/detail/pool/pool.hh`\n", "not for users"),
)


def selftest(root):
    bad = 0
    for what, path, text, part in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("lib/kilim", "lib/install", "examples", "doc/guides"):
                shutil.copytree(os.path.join(root, name), os.path.join(folder, name))
            for number in range(30 if "{0}" in path else 1):
                full = os.path.join(folder, path.format(number))
                mode = "w" if text.startswith("=") else "a"
                with open(full, mode, encoding="utf-8") as f:
                    f.write(text.lstrip("="))
            if not any(part in said for _, _, said in faults(folder)):
                print(f"{what}: not reported as it should ({part})")
                bad += 1
    print(f"{len(SEEDS)} seeds, {bad} not reported as they should")
    return 1 if bad else 0


def main(arguments):
    if arguments[1:] == ["--selftest"]:
        return selftest(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(faults(arguments[1]))
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(f"{len(headers(arguments[1]))} public headers, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
