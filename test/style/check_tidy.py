#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over the project's sources, two at a time. A file that was clean is not read again
until it, a header of the project or .clang-tidy changes: stamps lie in BUILD/tidy.

Usage: check_tidy.py ROOT BUILD [PART...]    PART: only sources whose path contains it"""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

import source


def hash_of(root, paths):
    total = hashlib.sha256()
    for path in paths:
        with open(os.path.join(root, path), "rb") as f:
            total.update(f.read())
    return total.hexdigest()


def closure(root, path, seen):
    """The project's headers that a file includes, over any number of steps."""
    for line in source.read(root, path).splitlines():
        if not line.startswith('#include "'):
            continue
        name = line.split('"')[1]
        for base in ("lib", "drivers", "app", os.path.dirname(path)):
            candidate = os.path.normpath(os.path.join(base, name))
            if candidate not in seen and os.path.isfile(os.path.join(root, candidate)):
                seen.add(candidate)
                closure(root, candidate, seen)
    return seen


def jobs(root, build, parts):
    """(path, compile-independent stamp) of what has to be read."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        database = json.load(f)
    # clang has no use for what GCC precompiled: it reads the sources as they are.
    for entry in database:
        entry["command"] = re.sub(r"-include \S*/precompiled/std\.hh", "", entry["command"])
    with open(os.path.join(build, "tidy", "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump(database, f)
    paths = set()
    for entry in database:
        full = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        path = os.path.relpath(full, root)
        if path.startswith(("lib/", "drivers/", "app/", "examples/")) and path.endswith(".cc"):
            paths.add(path)
    if parts:
        paths = {p for p in paths if any(part in p for part in parts)}
    found = []
    for path in sorted(paths):
        headers = sorted(closure(root, path, set()))
        stamp = hash_of(root, [".clang-tidy", path] + headers)
        found.append((path, os.path.join(build, "tidy", stamp)))
    return found


def run_one(root, build, path, stamp):
    if os.path.exists(stamp):
        return ""
    done = subprocess.run(["clang-tidy", "-p", os.path.join(build, "tidy"), "--quiet",
                           "--extra-arg=-Wno-unknown-warning-option", os.path.join(root, path)],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        with open(stamp, "w", encoding="utf-8"):
            pass
        return ""
    text = done.stdout or done.stderr
    return text.replace(os.path.relpath(root, build), ".").replace(root + "/", "")


def main(root, build, parts):
    if not shutil.which("clang-tidy"):
        print("clang-tidy is not installed")
        return 77
    root, build = os.path.realpath(root), os.path.realpath(build)
    os.makedirs(os.path.join(build, "tidy"), exist_ok=True)
    work = jobs(root, build, parts)
    bad, said = 0, set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(lambda w: run_one(root, build, *w), work):
            bad += bool(text)
            # One fault of a header is met by many sources: say it once.
            for block in text.split("\n/"):
                head = block.split("\n")[0]
                if head not in said:
                    said.add(head)
                    print(block)
    print(f"{len(work)} sources, {bad} with faults")
    return 1 if bad or not work else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
