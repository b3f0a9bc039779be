#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads the C++ library's headers once for each kind of compile command in a build
folder, not once for each source: with GCC they are two fifths of a build.

Usage: precompile.py BUILD

BUILD was set up with `-include BUILD/precompiled/std.hh`, an empty file. Beside
it lies std.hh.gch, a folder of precompiled headers from which GCC takes the one
that was made with a source's own options; where none fits, the source is
compiled as if there were none. Sources still include what they use
(test/style/check_std_includes.py)."""

import concurrent.futures
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys

# What most sources read, directly or through another; what few read costs all others more than it
# saves these. DPDK's headers read immintrin.h, which takes as long as half of the others together.
HEADERS = ("algorithm", "array", "atomic", "bit", "cerrno", "charconv", "chrono", "cstddef", "cstdint",
           "cstdio", "cstdlib", "cstring", "memory", "mutex", "optional", "span", "string",
           "string_view", "thread", "utility", "vector")
if platform.machine() == "x86_64":
    HEADERS += ("immintrin.h",)
# Beginnings of the options that have to be the same; -Wpedantic is one, it sets a macro.
MATTER = ("-f", "-m", "-O", "-g", "-std=", "-pthread", "-D_", "-Wpedantic")
# GCC does not ask for this one and takes a header made with either, whichever its folder lists first:
# made with `hidden`, pthread's types are hidden in sources that said nothing. All are made without it.
LEFT_OUT = ("-fdiagnostics", "-fvisibility")
WORTH = 10      # a kind of command that fewer sources share is left alone


def kind_of(words):
    """The options that GCC wants to be the same for a header and the source that takes it, in their
    order: of two that contradict each other the last counts."""
    return [w for w in words if w.startswith(MATTER) and not w.startswith(LEFT_OUT)]


def kinds(build):
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        database = json.load(f)
    found, compiler = {}, None      # by the set of their options: as they came first, how often
    for entry in database:
        words = shlex.split(entry["command"])
        if os.path.basename(words[0]) == "ccache":
            words = words[1:]
        if entry["file"].endswith((".cc", ".cpp")):
            compiler, kind = words[0], kind_of(words)
            found.setdefault(frozenset(kind), [kind, 0])[1] += 1
    return compiler, [kind for kind, n in found.values() if n >= WORTH]


def is_gcc(compiler):
    said = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    return "Free Software Foundation" in said


def main(build):
    compiler, wanted = kinds(build)
    if compiler is None or not is_gcc(compiler):
        return 0
    place = os.path.join(build, "precompiled")
    made = os.path.join(place, "std.hh.gch")
    source = os.path.join(place, "all.hh")
    version = subprocess.run([compiler, "-v"], capture_output=True, text=True, check=True).stderr
    text = "".join(f"#include <{name}>\n" for name in HEADERS)
    libc = str(os.stat("/usr/include/features.h").st_mtime)
    key = text + json.dumps(wanted) + version + libc
    stamp = os.path.join(place, "made-of")
    if os.path.exists(stamp):
        with open(stamp, encoding="utf-8") as f:
            if f.read() == key:
                return 0
        os.remove(stamp)
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    with open(source, "w", encoding="utf-8") as f:
        f.write(text)

    def make(n):
        words = [compiler, *wanted[n], "-x", "c++-header", source, "-o", os.path.join(made, str(n))]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in pool.map(make, range(len(wanted))):
            if done.returncode != 0:
                print(done.stderr, file=sys.stderr)
                shutil.rmtree(made)
                return 1
    with open(stamp, "w", encoding="utf-8") as f:
        f.write(key)
    return 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0)
    if len(sys.argv) != 2:
        sys.exit("precompile.py: say which build folder; --help tells more")
    try:
        sys.exit(main(os.path.abspath(sys.argv[1])))
    except KeyboardInterrupt:
        sys.exit(130)
