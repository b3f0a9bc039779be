#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over the project's sources. Sources that are compiled alike are read twenty at a time,
put one behind the other (the analyzer follows paths of a main file only, so including them would not
do): most of the work is the headers, which they share. A name that two of them define for themselves
gets a number; where that does not help, each half of them is tried. Sources that were clean are not
read again until one of them, a header of the project, the compiler's words, .clang-tidy or clang-tidy
changes: stamps lie in BUILD/tidy, and say as well which sources are read by halves.
NODES is how far paths are followed in each function, a small part of clang's own measure, which --long
keeps: with that, five sixths of the work is in a few functions.

Usage: check_tidy.py ROOT BUILD [PART...]    PART: only sources whose path contains it"""

import collections
import concurrent.futures
import functools
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
# What begins a line of the outermost level: a type, or the name before what ends or begins its value or parameters.
TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)|using (\w+) =")
OTHER = re.compile(r"(?!using |namespace |template|static_assert|friend |return )[A-Za-z_][^=({;\[]*?[ *&](\w+)(?=[\[(={;]| [={])")
FURTHER = re.compile(r", (\w+) = ")
BROKEN = "[clang-diagnostic-error]"
OWN = [os.path.join("test/style", name) for name in ("check_tidy.py", "source.py")]


@functools.cache
def version():
    return subprocess.run(["clang-tidy", "--version"], capture_output=True, text=True, check=False).stdout


def stamp_of(root, paths, command):
    """A name for all that decides what is found in these sources."""
    headers = set()
    for path in paths:
        closure(root, path, headers)
    total = hashlib.sha256(f"{command}\n{version()}\n".encode())
    for path in [".clang-tidy", *OWN, *paths, *sorted(headers)]:
        with open(os.path.join(root, path), "rb") as f:
            text = f.read()
        total.update(f"{path} {len(text)}\n".encode() + text)
    return f"{total.hexdigest()}-{NODES}"


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
        command = re.sub(r"-include \S+\.hh\b", "", entry["command"])
        found[path] = re.sub(r" -M[QF] \S+| -o \S+| -c \S+| -I\S+\.p(?= )", "", command)
    return found


def groups_of(found):
    """Lists of paths to be read together. Programs of one source stay alone: each has its main()."""
    alike = {}
    for path in sorted(found):
        alone = path if path.startswith("examples/") else ""
        alike.setdefault((found[path], alone), []).append(path)
    groups = []
    for paths in alike.values():
        groups.append([])
        for path in paths:
            moved = groups[-1] and os.path.dirname(groups[-1][-1]) != os.path.dirname(path)
            if len(groups[-1]) >= (MOST_TOGETHER // 2 if moved else MOST_TOGETHER):
                groups.append([])
            groups[-1].append(path)
    return groups


def own_names(text):
    """Names that lines of a source define for it alone."""
    names, inside = set(), False
    for line in text:
        inside = line == "namespace {" or (inside and not line.startswith("}  // namespace"))
        if inside or line.startswith(("static ", "const ", "constexpr ")):
            match = TYPE.match(line) or OTHER.match(line)
            names.update(filter(None, match.groups() if match else ()), FURTHER.findall(line))
    return names


def same_names(root, paths):
    """{(path, name)} of names that two sources define, each for itself. One that has a member of that name keeps it."""
    texts = {path: source.read(root, path) for path in paths}
    owners = collections.defaultdict(list)
    for path, text in texts.items():
        for name in own_names(text.splitlines()):
            owners[name].append(path)
    found = set()
    for name, those in owners.items():
        keeps = next((path for path in those if re.search(rf"(?:\.|->){name}\b", texts[path])), None)
        found |= {(path, name) for path in those if len(those) > 1 and path != keeps}
    return found


def renamed(text, names, number):
    """Lines with another name for each of these, but where it is a member's."""
    if not names:
        return text
    pattern = re.compile(r"(?<![\w.>:])(" + "|".join(sorted(names)) + r")\b")

    def other(match):   # a type's name stays one
        return f"{match[1]}{'' if match[1][0].isupper() else '_'}{number}"
    return [line if INCLUDE.match(line) else pattern.sub(other, line) for line in text]


def write_together(root, out, paths, doubled):
    """Puts the sources one behind the other; [(line where it begins, path)]. `doubled` says which
    source (its path) has which name that another has too. All headers come first, so that such a
    name of a header keeps its meaning."""
    texts = [source.read(root, path).splitlines() for path in paths]
    lines = [line for text in texts for line in text if INCLUDE.match(line)]
    begins = [(0, paths[0])]
    for number, (path, text) in enumerate(zip(paths, texts)):
        begins.append((len(lines), path))
        lines += renamed(text, {name for where, name in doubled if where == path}, number)
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


def put_together(root, build, out, paths, command, doubled):
    """Where each source begins in `out`, or None: they do not go together. More names may be doubled than these."""
    for _ in range(MOST_TRIES):
        begins = write_together(root, out, paths, doubled)
        text = what_clang_says(build, out, command)
        names = set(DOUBLED.findall(name_sources(text, out, begins)))
        if not text or not names - doubled:
            return None if text else begins
        doubled |= names
    return None


def middle(paths):
    """Where to part them: headers of two folders may say one name, so at the border next to the half."""
    borders = [i for i in range(1, len(paths)) if os.path.dirname(paths[i - 1]) != os.path.dirname(paths[i])]
    return min(borders or [len(paths) // 2], key=lambda i: abs(2 * i - len(paths)))


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


def read_group(root, build, paths, command):
    """What clang-tidy finds in sources that are compiled alike."""
    stamp = os.path.join(build, "tidy", stamp_of(root, paths, command))
    if os.path.exists(stamp):
        return ""
    parted = f"{stamp}.parted"
    found = None if os.path.exists(parted) else read_together(root, build, paths, command, f"{stamp}.cc")
    if found is None:
        touch(parted)
        half = middle(paths)
        return "\n".join(filter(None, (read_group(root, build, p, command) for p in (paths[:half], paths[half:]))))
    passed, text = found
    if passed:
        touch(stamp)
        return ""
    return text.replace(os.path.relpath(root, build), ".").replace(root + "/", "/")


def read_together(root, build, paths, command, out):
    """(passed, text) of one run over these sources, or None: they do not go together."""
    if len(paths) == 1:
        return tidy(build, f"{out}.d", os.path.join(root, paths[0]), command)
    command += "".join(f" -iquote {os.path.join(root, d)}" for d in sorted({os.path.dirname(p) for p in paths}))
    doubled = same_names(root, paths)
    begins = write_together(root, out, paths, doubled)
    passed, text = tidy(build, f"{out}.d", out, command)
    if BROKEN in text:
        begins = put_together(root, build, out, paths, command, doubled)
        if begins is None:
            return None
        passed, text = tidy(build, f"{out}.d", out, command)
    return passed, name_sources(text, out, begins)


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
