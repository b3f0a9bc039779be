#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hot rooms: the undefined symbols of a room's hot.cc object, and whether hot.cc reaches the whole
inline API of the room's headers.

Usage: check_hot.py ROOT ROOM LIBRARY [ARCHIVE...] [HEADER...]
           LIBRARY is the room's static library of a release build, ARCHIVE (.a) what has the cold
           functions that it may call; HEADER: of a room that is hot in part, only these
       check_hot.py --selftest           a burst that allocates, locks, logs or throws is reported

A `std::vector` in a burst shows as _Znwm, a `throw` as __cxa_throw, a lock as pthread_mutex_lock.
A debug build calls assert_failed: run this on release objects only."""

import os
import re
import subprocess
import sys
import tempfile

import source

# What a hot path may call, beside functions of the cold section (KILIM_COLD, kilim/detail/base/cold.hh).
ALLOWED = re.compile(r"^(mem(cpy|move|set|cmp)|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|per_lcore__lcore_id)$")
COLD = re.compile(r"^[0-9a-f]+ g.{5}F \.text\.kilim_cold\s+[0-9a-f]+\s+(?:\.hidden )?(\S+)$", re.M)


def cold(archives):
    """The functions that lie in the cold section."""
    out = subprocess.run(["objdump", "-t", *archives], capture_output=True, text=True, check=True).stdout if archives else ""
    return set(COLD.findall(out))


def undefined(library):
    """{symbol} that the hot.cc members of an archive leave undefined, or None without a member."""
    out = subprocess.run(["nm", "-P", "-u", "-A", library], capture_output=True, text=True,
                         check=True).stdout
    listing = subprocess.run(["nm", "-P", "-A", library], capture_output=True, text=True,
                             check=True).stdout
    member = re.compile(r"(?:^|[\[/_])hot\.cc\.o\]?:?$")
    if not any(member.search(line.split()[0]) for line in listing.splitlines() if line.split()):
        return None
    symbols = set()
    for line in out.splitlines():
        words = line.split()
        if len(words) >= 2 and member.search(words[0]):
            symbols.add(words[1])
    return symbols


def demangle(symbol):
    return subprocess.run(["c++filt", symbol], capture_output=True, text=True,
                          check=False).stdout.strip() or symbol


def api(root, room, headers):
    """{name: [(file, line, body, public)]} of the functions with bodies in the room's headers."""
    found = {}
    folder = f"lib/kilim/detail/{room}"
    for path in source.project_files(root, (".hh",)):
        if os.path.dirname(path) != folder or headers and os.path.basename(path) not in headers:
            continue
        text = source.read(root, path)
        for f in source.functions(text):
            if f.name != "static_assert":
                found.setdefault(f.name, []).append((path, f.first, f.body, not f.private))
        # A table of functions reaches what its initializer names; nobody must name the table.
        for m in re.finditer(r"^(?:inline |static )*constexpr [^;={]*\b(\w+) = ([^;]*);",
                             source.blank(text), flags=re.M):
            found.setdefault(m.group(1), []).append((path, 0, m.group(2), False))
    return found


def class_names(root, room):
    folder = os.path.join("lib/kilim/detail", room)
    text = "".join(source.read(root, p) for p in source.project_files(root, (".hh",))
                   if os.path.dirname(p) == folder)
    return set(re.findall(r"\b(?:class|struct)\s+(?:KILIM_\w+\s+)?(\w+)", source.blank(text)))


def unreached(root, room, headers=()):
    """Public inline functions that hot.cc neither names nor reaches through those it names."""
    functions = api(root, room, headers)
    text = source.blank(source.read(root, f"lib/kilim/detail/{room}/hot.cc"))
    reached, todo = set(), [text]
    while todo:
        for word in set(re.findall(r"~?\b\w+\b", todo.pop())):
            if word in functions and word not in reached:
                reached.add(word)
                todo += [body for _, _, body, _ in functions[word]]
    classes = class_names(root, room)
    missing = []
    for name, places in sorted(functions.items()):
        skip = name in reached or name.startswith(("operator", "~")) or name in classes
        for path, line, _, public in places:
            if public and not skip:
                missing.append((path, line, name))
    return missing


def check(root, room, library, *others):
    faults = 0
    headers = [other for other in others if not other.endswith(".a")]
    allowed = cold([other for other in others if other.endswith(".a")])
    symbols = undefined(library)
    if symbols is None:
        print(f"lib/kilim/detail/{room}/hot.cc:1: is not in {os.path.basename(library)}")
        return 1
    for symbol in sorted(symbols):
        if not ALLOWED.match(symbol) and symbol not in allowed:
            print(f"lib/kilim/detail/{room}/hot.cc:1: calls {demangle(symbol)} ({symbol})")
            faults += 1
    for path, line, name in unreached(root, room, headers):
        print(f"{path}:{line}: {name}() is not instantiated by lib/kilim/detail/{room}/hot.cc")
        faults += 1
    print(f"{room}: {len(symbols)} undefined symbols, {len(api(root, room, headers))} functions, "
          f"{faults} faults")
    return 1 if faults else 0


HEADER = "#pragma once\n#include <cstring>\ninline int quiet(int a) { return a; }\n"
SELDOM = "[[gnu::section(\".text.kilim_cold\")]] void seldom(); void seldom() {}\nvoid cold_x() {}\n"
SEEDS = (
    ("allocates", "#include <vector>\nint f(int n) { std::vector<int> v(n); return v[quiet(0)]; }",
     "_Znwm"),
    ("logs", "#include <cstdio>\nvoid f() { std::puts(\"x\"); quiet(1); }", "puts"),
    ("throws", "int f(int n) { if (quiet(n)) throw 1; return 0; }", "__cxa_throw"),
    ("locks", "#include <pthread.h>\nvoid f(pthread_mutex_t* m) { pthread_mutex_lock(m); quiet(1); }",
     "pthread_mutex_lock"),
    ("forgets", "int f() { return 1; }", "quiet"),
    ("calls what is only called cold", "void cold_x(); void f(int n) { if (quiet(n)) cold_x(); }", "_Z6cold_xv"),
    ("is clean", "void seldom(); void f(char* a, char* b, int n) { std::memcpy(a, b, n); if (quiet(n)) seldom(); }", None),
)


def selftest():
    bad = 0
    for name, text, expected in SEEDS:
        with tempfile.TemporaryDirectory() as root:
            folder = os.path.join(root, "lib/kilim/detail/queue")
            os.makedirs(folder)
            for file, content in (("sq.hh", HEADER), ("hot.cc", '#include "sq.hh"\n' + text), ("seldom.cc", SELDOM)):
                with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
                    f.write(content)
            libraries = {name: os.path.join(root, name + ".a") for name in ("hot", "seldom")}
            for name, library in libraries.items():
                subprocess.run(["g++", "-O2", "-c", name + ".cc", "-o", name + ".cc.o"], cwd=folder, check=True)
                subprocess.run(["ar", "rcs", library, name + ".cc.o"], cwd=folder, check=True)
            allowed = cold([libraries["seldom"]])
            wrong = {s for s in undefined(libraries["hot"]) or set() if not ALLOWED.match(s) and s not in allowed}
            wrong |= {n for _, _, n in unreached(root, "queue")}
            if (expected is None and wrong) or (expected and expected not in wrong):
                print(f"a burst that {name}: expected {expected}, found {sorted(wrong)}")
                bad += 1
    print(f"{len(SEEDS)} seeds, {bad} not reported as they should")
    return 1 if bad else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--selftest"]:
        sys.exit(selftest())
    sys.exit(check(*sys.argv[1:]))
