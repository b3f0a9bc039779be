#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over the project's sources. Sources that are compiled alike are read twenty at a time,
put one behind the other (the analyzer follows paths of a main file only, so including them would not
do): most of the work is the headers, which they share. A name that two of them define for themselves
gets a number; where that does not help, each half of them is tried. Sources that were clean are not
read again until one of them, a header of the project or .clang-tidy changes: stamps lie in BUILD/tidy.
NODES is how far paths are followed in each function, a small part of clang's own measure, which --long
keeps: with that, five sixths of the work is in a few functions.

Usage: check_tidy.py ROOT BUILD [PART...]    PART: only sources whose path contains it"""

import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys

import source

MOST_TOGETHER = 20
MOST_TRIES = 5
NODES = 225000 if os.environ.get("KILIM_CHECK") == "long" else 6000
FOLLOW = [f"--extra-arg={word}" for word in ("-Xclang", "-analyzer-config", "-Xclang", f"max-nodes={NODES}")]
DOUBLED = re.compile(r"^/(.*?):\d+:\d+: error: (?:redefinition of|call to|reference to) "
                     r"'([A-Za-z_]\w*)'", re.MULTILINE)
INCLUDE = re.compile(r'#include [<"]')


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


def commands(root, build, parts):
    """{path: command without the source's own name}, of the sources that are looked at."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        database = json.load(f)
    found = {}
    for entry in database:
        full = os.path.normpath(os.path.join(entry["directory"], entry["file"]))
        path = os.path.relpath(full, root)
        if not path.startswith(("lib/", "drivers/", "app/", "examples/")) or path[-3:] != ".cc":
            continue
        if parts and not any(part in path for part in parts):
            continue
        # clang has no use for what GCC precompiled: it reads the sources as they are.
        command = re.sub(r"-include \S*/precompiled/std\.hh", "", entry["command"])
        found[path] = re.sub(r" -M[QF] \S+| -o \S+| -c \S+| -I\S+\.p(?= )", "", command)
    return found


def groups_of(found):
    """Lists of paths to be read together. Programs of one source stay alone: each has its main()."""
    alike = {}
    for path in sorted(found):
        alone = path if path.startswith("examples/") else ""
        alike.setdefault((found[path], alone), []).append(path)
    return [paths[i:i + MOST_TOGETHER] for paths in alike.values()
            for i in range(0, len(paths), MOST_TOGETHER)]


def write_together(root, out, paths, doubled):
    """Puts the sources one behind the other; [(line where it begins, path)]. `doubled` says which
    source (its path) has which name that another has too. All headers come first, so that such a
    name of a header keeps its meaning."""
    texts = [source.read(root, path).splitlines() for path in paths]
    lines = [line for text in texts for line in text if INCLUDE.match(line)]
    begins = [(0, paths[0])]
    for number, (path, text) in enumerate(zip(paths, texts)):
        names = sorted(name for where, name in doubled if where == path)
        lines += [f"#define {name} {name}_{number}" for name in names]
        begins.append((len(lines), path))
        lines += text
        lines += [f"#undef {name}" for name in names]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    return begins


def name_sources(text, out, begins):
    """clang's text with the sources' own names and lines."""
    def name(match):
        line = int(match.group(1))
        start, path = max((b for b in begins if b[0] < line), default=begins[0])
        return f"/{path}:{line - start}:"
    return re.sub(re.escape(out) + r":(\d+):", name, text)


def tidy(build, database, source_file, command):
    """(passed, text) of one run of clang-tidy, which reads the command in the folder `database`."""
    entry = {"directory": build, "file": source_file, "command": f"{command} -c {source_file}"}
    os.makedirs(database, exist_ok=True)
    with open(os.path.join(database, "compile_commands.json"), "w", encoding="utf-8") as f:
        json.dump([entry], f)
    done = subprocess.run(["clang-tidy", "-p", database, "--quiet",
                           "--extra-arg=-Wno-unknown-warning-option", *FOLLOW, source_file],
                          capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout or done.stderr


def what_clang_says(build, out, command):
    """Its errors alone: a fifth of the time of a run of clang-tidy."""
    words = [w for w in shlex.split(command) if os.path.basename(w) != "ccache"][1:]
    done = subprocess.run(["clang++", *words, "-w", "-fno-color-diagnostics", "-ferror-limit=0", "-fsyntax-only", out],
                          cwd=build, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


def put_together(root, build, out, paths, command):
    """Where each source begins in `out`, or None: they do not go together."""
    doubled = set()
    for _ in range(MOST_TRIES):
        begins = write_together(root, out, paths, doubled)
        text = what_clang_says(build, out, command)
        names = set(DOUBLED.findall(name_sources(text, out, begins)))
        if not text or not names - doubled:
            return None if text else begins
        doubled |= names
    return None


def read_group(root, build, paths, command):
    """What clang-tidy finds in sources that are compiled alike."""
    headers = set()
    for path in paths:
        closure(root, path, headers)
    folder = os.path.join(build, "tidy")
    stamp = f"{hash_of(root, ['.clang-tidy', 'test/style/check_tidy.py'] + paths + sorted(headers))}-{NODES}"
    if os.path.exists(os.path.join(folder, stamp)):
        return ""
    out = os.path.join(folder, f"{stamp}.cc")
    own = command + "".join(f" -iquote {os.path.join(root, d)}" for d in sorted({os.path.dirname(p) for p in paths}))
    begins = put_together(root, build, out, paths, own)
    if begins is None and len(paths) > 1:
        half = len(paths) // 2
        return "\n".join(filter(None, (read_group(root, build, p, command) for p in (paths[:half], paths[half:]))))
    if begins is None:
        passed, text = tidy(build, f"{out}.d", os.path.join(root, paths[0]), command)
    else:
        passed, text = tidy(build, f"{out}.d", out, own)
        text = name_sources(text, out, begins)
    if passed:
        with open(os.path.join(folder, stamp), "w", encoding="utf-8"):
            pass
        return ""
    return text.replace(os.path.relpath(root, build), ".").replace(root + "/", "/")


def main(root, build, parts):
    if not shutil.which("clang-tidy"):
        print("clang-tidy is not installed")
        return 77
    root, build = os.path.realpath(root), os.path.realpath(build)
    os.makedirs(os.path.join(build, "tidy"), exist_ok=True)
    found = commands(root, build, parts)
    work = sorted(groups_of(found), key=len, reverse=True)
    bad, said = 0, set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for text in pool.map(lambda w: read_group(root, build, w, found[w[0]]), work):
            bad += bool(text)
            # One fault of a header is met by many sources: say it once.
            for block in text.split("\n/"):
                head = block.split("\n")[0]
                if head not in said:
                    said.add(head)
                    print(block)
    print(f"{len(found)} sources in {len(work)} groups, {bad} with faults")
    return 1 if bad or not work else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
