#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What libkilim.so exports: lib/install/libkilim.map, written from the archive and
checked against both.

Usage: exports.py write MAP LIBKILIM_A LIBKILIM_COMPAT_A
            after a function came, went or changed its words
       exports.py check MAP LIBKILIM_A LIBKILIM_COMPAT_A LIBKILIM_SO
         LIBKILIM_COMPAT_SO

Public are the functions and tables with a definition of their own that a
program can name or whose inline code calls: those declared by the headers of
the door (lib/kilim) and what these include; and the C functions. Not public are
the device, what only hot.cc has, namespaces called detail, drivers/net beyond
its C functions, and what sources of the library share by headers that the door
does not include. What libkilim_compat.so needs of these is exported to it
alone, under KILIM_0_INTERNAL. Inline functions and templates are each program's
own."""

import glob
import os
import re
import subprocess
import sys

PRIVATE = re.compile(r"\bkilim::(vhca|mlx5|net|compat)::|::hot::|\bdetail::|\(anonymous namespace\)")
OURS = re.compile(r"^(vtable for |VTT for )?(kilim::|kilim_|rte_pmd_kilim_)")


def words_behind_the_door(root):
    """Each word of the code that a program compiles when it includes public headers."""
    left, seen, words = glob.glob(f"{root}/lib/kilim/*.h*"), set(), set()
    while left:
        path = os.path.normpath(left.pop())
        if path in seen:
            continue
        seen.add(path)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        for name in re.findall(r'^#include "([^"]+)"', text, re.M):
            left += [at for at in (f"{root}/{base}/{name}" for base in ("lib", "drivers")) if os.path.exists(at)]
        words.update(re.findall(r"\w+", re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
                                if path.endswith(".h") else re.sub(r"//.*", "", text)))
    return words


def is_declared(name, words):
    """Whether each part of a qualified name is among the words: kilim::v1::port::Port::start(...)."""
    plain = re.sub(r"^(vtable|VTT) for |\[abi:\w+\]", "", name)
    while "<" in plain.split("(")[0]:
        plain, before = re.sub(r"<[^<>]*>", "", plain, count=1), plain
        if plain == before:
            break
    parts = re.findall(r"[A-Za-z_]\w*", plain.split("(")[0])
    return all(part in words for part in parts if part not in ("kilim", "v1", "const"))


def symbols(path, dynamic=False):
    """(name, defined, strong) of what others may see of it, names as in the source."""
    out = subprocess.run(["readelf", "-W", "--dyn-syms" if dynamic else "-s", "-C", path], capture_output=True,
                         text=True, check=True).stdout
    for line in out.splitlines():
        m = re.match(r"\s*\d+: [0-9a-f]+\s+\S+ (\w+)\s+(\w+)\s+(\w+)\s+(\S+) (.+)", line)
        if m is None or m.group(2) not in ("GLOBAL", "WEAK") or m.group(3) != "DEFAULT":
            continue
        name = re.sub(r"\s*(\[<other>.*|\(\d+\))$", "", m.group(5).strip())
        yield name, m.group(4) != "UND", m.group(2) == "GLOBAL"


def meant(archive, compat_archive):
    """The names that are to be exported: public, and to libkilim_compat.so alone."""
    defined = {name for name, there, strong in symbols(archive) if there and strong and OURS.match(name)}
    words = words_behind_the_door(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    public = {name for name in defined if not PRIVATE.search(name) and is_declared(name, words)}
    needed = {name for name, there, _ in symbols(compat_archive) if not there}
    return public, (needed & defined) - public


def text_of(public, internal):
    lines = ["# SPDX-License-Identifier: BSD-3-Clause", "# What libkilim.so exports; usertools/exports.py writes and "
             "checks it.", "KILIM_0 {", "  global:"]
    lines += [f"    {name};" for name in sorted(public) if "::" not in name]
    lines += ['    extern "C++" {'] + [f'      "{name}";' for name in sorted(public) if "::" in name] + ["    };"]
    lines += ["  local:", "    *;", "};", "# For libkilim_compat.so of the same version; nobody else.",
              "KILIM_0_INTERNAL {", "  global:", '    extern "C++" {']
    lines += [f'      "{name}";' for name in sorted(internal)] + ["    };", "};"]
    return "\n".join(lines) + "\n"


def exported(library):
    """Names without their version, and without the names of versions themselves."""
    names = set()
    for name, there, _ in symbols(library, dynamic=True):
        base, _, version = name.partition("@@")
        if there and version:
            names.add(base)
    return {n for n in names if not n.startswith("KILIM_")}


def faults(map_path, archive, compat_archive, library, compat_library):
    public, internal = meant(archive, compat_archive)
    with open(map_path, encoding="utf-8") as f:
        listed = set(re.findall(r'^\s+"?([^";{}\n]+)"?;$', f.read(), re.M)) - {"*"}
    for name in sorted((public | internal) - listed):
        yield f"{name} is not listed"
    for name in sorted(listed - public - internal):
        yield f"{name} is listed and not there"
    there = exported(library)
    for name in sorted(there ^ listed):
        yield f"{library}: {name} is " + ("exported, but not listed" if name in there else "listed, but not exported")
    for name in sorted(exported(compat_library)):
        if not re.match(r"(ibv|kilim)_\w+$", name):
            yield f"{compat_library}: {name} is no function of ibv_compat.h"


def main(arguments):
    if arguments[1:2] == ["write"] and len(arguments) == 5:
        with open(arguments[2], "w", encoding="utf-8") as f:
            f.write(text_of(*meant(*arguments[3:])))
        return 0
    if arguments[1:2] != ["check"] or len(arguments) != 7:
        print(__doc__, file=sys.stderr)
        return 2
    found = list(faults(*arguments[2:]))
    for fault in found:
        print(f"{arguments[2]}:1: {fault}")
    print(f"{len(found)} faults" + ("; usertools/exports.py write" if found else ""))
    return 1 if found else 0


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        sys.exit(0)
    try:
        sys.exit(main(sys.argv))
    except KeyboardInterrupt:
        sys.exit(130)
