#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Enforces the house's rules on every source file: rooms and arrows of doc/layers.txt, guarded
system headers, sizes, names, the opening lines, what a hot room's header must not hold,
maps of files and waits (endings.py).

Usage: check_layers.py ROOT            prints `file:line: what`, exits 1 if anything was found
       check_layers.py --selftest      seeds each fault into a small tree and wants it reported
"""

import os
import re
import sys

import device_rooms
import endings
import source
from shared_names import shared_names
from source import CODE

SCRIPTS = (".S", ".py", ".sh", "meson.build", "meson_options.txt")
ROOTS = ("lib", "drivers", "app", "examples", "test")
GUARDED = ("<infiniband/", "<rdma/", "<CUnit/", "<rte_", "<numa")
INSIDE = "lib/kilim/detail/"   # what programs include by listed exception only
MAX_FILE, MAX_FUNCTION = 400, 60
BAD_NAMES = ("common", "utils", "util", "helpers", "helper", "misc", "defs", "manager")
# The macros that are no KILIM_ ones: every test says them.
ASSERTIONS = ("test/support/equal.hh", ("EQUAL", "EQUAL_FATAL"))
# What tests share says so, and by its name what it is; test/oracle, the race and the lines of the device are programs of their own.
SHARED = ("_fixture.hh", "_model.hh", "_cases.hh")
OWN_NAMES = ("test/support/", "test/oracle/", "test/perf/race/", "test/perf/device/")
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
# Which DPDK it is: what differs between its releases is data or an overload (ADR 0111).
DPDK_VERSION = re.compile(r"\b(RTE_VERSION|RTE_VERSION_NUM|KILIM_DPDK_SINCE)\b")
DPDK_SEAM = ("lib/kilim/detail/base/dpdk.hh", "drivers/net/kilim/dpdk_abi.hh")
# The part of a library room that is nobody else's.
INNER = re.compile(r"\b((?:\w+::)+)detail\b")
FENCE = re.compile(r"\b(atomic_thread_fence|atomic_signal_fence|_mm_[slm]fence|__sync_synchronize|"
                   r"__atomic_(thread|signal)_fence|rte_(smp_|io_)?[rw]?mb|"
                   r"__builtin_ia32_[slm]fence)\b|\b(asm|__asm__)\b.*\bmemory\b")
HOT = (
    (re.compile(r"\bvirtual\b"), "virtual"),
    (re.compile(r"\b(rte_log|RTE_LOG|KILIM_LOG|printf|fprintf|std::cerr|std::cout|syslog)\b"),
     "logging"),
    (re.compile(r"\bstd::(mutex|shared_mutex|recursive_mutex|lock_guard|unique_lock|"
                r"condition_variable|function|vector|string|shared_ptr|map|unordered_map|deque|"
                r"list)\b"), "a library type that allocates or locks"),
    (re.compile(r"\b(malloc|calloc|realloc|make_unique|make_shared)\s*[(<]|"
                r"\bnew\b(?!\s*\()"), "allocation"),
    (re.compile(r"\bthrow\b"), "throw"),
)


class Room:
    """A line of the table: `grants` are its words, each with the rooms that it stands for; what an
    include has used is in `used`."""

    def __init__(self, line, name, hot, grants, system):
        self.line, self.name, self.hot, self.grants, self.system = line, name, hot, grants, system
        self.may = set().union(*grants.values())
        self.used, self.used_system = set(), set()

    def idle(self):
        """Words of the line that no include needs."""
        return [w for w, rooms in self.grants.items() if not rooms & self.used] + \
            [w for w in self.system if w not in self.used_system]

    def holds(self, path):
        """The door has files and no folders."""
        return os.path.dirname(path) == self.folder if self.name == "kilim" else (path + "/").startswith(self.folder + "/")

    @property
    def is_program(self):
        return self.name == "examples" or self.name.startswith("app/")

    @property
    def folder(self):
        if (self.name + "/").startswith("kilim/"):
            return "lib/" + self.name
        if self.name.startswith("vhca/"):
            return "drivers/" + self.name
        return self.name


def read_rooms(root, report):
    """The table; a line that lists a room not above it is reported (that is how cycles begin)."""
    rooms = {}
    names = []
    lines = source.read(root, "doc/layers.txt").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith(("#", "~")):
            continue
        parts = [p.strip() for p in line.split(":")]
        if len(parts) != 3:
            report("doc/layers.txt", number, "a line is `room : rooms : headers`")
            continue
        names.append((number, parts))
    all_names = {p[0].lstrip("!") for _, p in names}
    for number, (head, may, system) in names:
        grants = {}
        for word in may.split():
            if word.endswith("/*"):
                grants[word] = {r for r in rooms if r.startswith(word[:-1])}
            elif word in rooms:
                grants[word] = {word}
            else:
                why = "stands below it: cycle" if word in all_names else "does not exist"
                report("doc/layers.txt", number, f"room {word} {why}")
        name = head.lstrip("!")
        rooms[name] = Room(number, name, head.startswith("!"), grants, system.split())
    return rooms


def read_exceptions(root, rooms, report):
    """{room: {header of detail/: [line, whether something includes it]}} of the lines that begin with ~."""
    found = {}
    for number, line in enumerate(source.read(root, "doc/layers.txt").splitlines(), 1):
        if not line.startswith("~"):
            continue
        parts = [p.strip() for p in line[1:].split(":", 2)]
        if len(parts) != 3 or not parts[2] or parts[0] not in rooms:
            report("doc/layers.txt", number, "a line with ~ is `~ room : headers of kilim/detail : why`")
            continue
        found.setdefault(parts[0], {}).update({INSIDE + h: [number, False] for h in parts[1].split()})
    return found


def is_precompiled(path):
    """A header for cpp_pch alone: a compiler reads it as a main file, and nothing includes it."""
    return os.path.basename(os.path.dirname(path)) == "pch"


def room_of(rooms, path):
    best = None
    for room in rooms.values():
        if room.holds(path) and (not best or len(room.folder) > len(best.folder)):
            best = room
    return best


def resolve(files, path, name):
    """The project file that `#include "name"` in `path` means, or None."""
    here = os.path.dirname(path)
    for base in ("lib", "drivers", "app", "test/support", "test", here, ""):
        candidate = os.path.normpath(os.path.join(base, name))
        if candidate in files:
            return candidate
    if path.startswith("test/") and "/" not in name:   # a folder that the test's build file adds
        near = [f for f in files if os.path.basename(f) == name and
                f.startswith(("test/", "app/"))]
        return max(near, default=None, key=lambda f: (len(os.path.commonprefix([f, path])), f))
    return None


class Checker:
    def __init__(self, root):
        self.root = root
        self.found = []
        self.rooms = read_rooms(root, self.report)
        self.exceptions = read_exceptions(root, self.rooms, self.report)
        self.files = set(source.project_files(root, CODE))
        self.edges = {}   # header or source -> [(line, header)]

    def report(self, path, line, what):
        self.found.append((path, line, what))

    def run(self):
        for path in source.project_files(self.root):
            if self.is_text(path):
                self.any_file(path)
        for path in sorted(self.files):
            self.code_file(path)
        self.names_of_programs()
        self.cycles()
        self.idle_grants()
        self.idle_exceptions()
        return sorted(set(self.found))

    @staticmethod
    def is_text(path):
        return path.endswith(CODE + SCRIPTS) or path == ".ci/run"

    def any_file(self, path):
        text = source.read(self.root, path)
        lines = text.splitlines()
        head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
        if not head or "SPDX-License-Identifier: BSD-3-Clause" not in head[0]:
            self.report(path, 1, "the first line (behind #!) is not the SPDX line")
        if len(lines) > MAX_FILE:
            self.report(path, len(lines), f"{len(lines)} lines, at most {MAX_FILE}")
        for number, line in enumerate(lines, 1):
            if UNFINISHED.search(line):
                self.report(path, number, "unfinished: finish it or make it an issue")
            if path.endswith(CODE) and re.search(r"\bNOLINT(NEXTLINE|BEGIN|END)?\b(?!\()", line):
                self.report(path, number, "NOLINT without a check's name")
        for word in re.split(r"[/_.\-]", path):
            if word.lower() in BAD_NAMES:
                self.report(path, 1, f"'{word}' in a name says no concept")

    def shared_header(self, path):
        if (path.startswith("test/") and path.endswith(".hh") and not path.startswith(OWN_NAMES)
                and not path.endswith(SHARED) and not is_precompiled(path)):
            self.report(path, 1, "a header that tests share is called *_fixture.hh, *_model.hh or "
                        "*_cases.hh, or lies in test/support")

    def code_file(self, path):
        self.shared_header(path)
        room = room_of(self.rooms, path)
        text = source.read(self.root, path)
        if room is None:
            self.report(path, 1, "a file without a room: doc/layers.txt has no line for its folder")
        self.opening(path, text)
        self.includes(path, room, text)
        code = source.blank(text)
        self.names(path, code)
        if path.startswith("test/") and path.endswith((".cc", ".hh")):
            self.comparisons(path, code)
        if path != "lib/kilim/detail/base/barrier.hh" and path.split("/")[0] != "test":
            self.fences(path, text)
        if path not in DPDK_SEAM:
            self.versions(path, code)
        for number, what in (*endings.check(path, text), *device_rooms.check(path, code)):
            self.report(path, number, what)
        if room and path.split("/")[0] != "test":
            self.inner_names(path, room, code)
        if room and room.hot and path.endswith(".hh"):
            self.hot_header(path, code)
        for f in source.functions(text):
            length = f.last - f.first + 1
            if length > MAX_FUNCTION:
                self.report(path, f.first, f"{f.name}() has {length} lines, at most {MAX_FUNCTION}")

    def opening(self, path, text):
        twin = os.path.splitext(path)[0] + ".hh"
        told = path.endswith(".cc") and twin in self.files
        if not source.opening_comment(text) and not told:
            self.report(path, 2, "no opening comment: what it is, who owns it, who may call")
        if path.endswith(".hh") and not is_precompiled(path) and "#pragma once" not in text:
            self.report(path, 1, "a header without #pragma once")
        first = re.search(r'^\s*#\s*include\s*[<"]([^>"]+)', text, re.MULTILINE)
        if path.endswith(".cc") and twin in self.files and (
                not first or resolve(self.files, path, first.group(1)) != twin):
            self.report(path, 1, f"includes {twin} not first: nothing else compiles it alone")

    def includes(self, path, room, text):
        for number, line in enumerate(source.blank(text, keep_includes=True).splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*(<[^>]+>|"[^"]+")', line)
            if not m or room is None:
                continue
            name = m.group(1)
            if name[0] == "<":
                self.system_include(path, number, room, name)
                continue
            target = resolve(self.files, path, name[1:-1])
            if target is None:
                self.report(path, number, f"{name} is no file of the project")
                continue
            self.edges.setdefault(path, []).append((number, target))
            other = room_of(self.rooms, target)
            if room.is_program and target.startswith(INSIDE):
                self.behind_the_door(path, number, room, target)
                continue
            if other:
                room.used.add(other.name)
            if other and other is not room and other.name not in room.may:
                self.report(path, number, f"arrow {room.name} -> {other.name} is not in "
                            "doc/layers.txt")

    def behind_the_door(self, path, number, room, target):
        """A program includes a header of kilim/detail."""
        listed = self.exceptions.get(room.name, {}).get(target)
        if listed:
            listed[1] = True
            return
        self.report(path, number, f"{target} lies behind the door: a program includes a header of lib/kilim, and what none "
                    "of them has is listed in doc/layers.txt (~)")

    def idle_exceptions(self):
        for room, headers in self.exceptions.items():
            for header, (line, used) in headers.items():
                if not used:
                    self.report("doc/layers.txt", line, f"{room} may include {header}, and nothing in it does")

    def system_include(self, path, number, room, name):
        guarded = any(name.startswith(g) for g in GUARDED)
        granted = [s for s in room.system if name.startswith(s)]
        room.used_system.update(granted)
        if guarded and not granted:
            self.report(path, number, f"{name} is guarded: room {room.name} may not include it")

    def names(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            m = re.match(r"\s*(?:class|struct|namespace|enum class|enum)\s+(?:\[\[\w+\]\]\s*)?"
                         r"([\w:]+)", line)
            if m:
                words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", m.group(1))
                for w in words:
                    if w.lower() in BAD_NAMES:
                        self.report(path, number, f"'{w}' in the name {m.group(1)} says no concept")
            m = re.match(r"\s*#\s*define\s+(\w+)", line)
            guard = m and path.endswith(".h") and m.group(1).endswith("_H")
            asserts = m and path == ASSERTIONS[0] and m.group(1) in ASSERTIONS[1]
            if m and not m.group(1).startswith("KILIM_") and not guard and not asserts:
                self.report(path, number, f"macro {m.group(1)} is not a KILIM_ one")

    def comparisons(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            if re.search(r"\bCU_ASSERT_(STRING_)?EQUAL(_FATAL)?\b", line):
                self.report(path, number, "CU_ASSERT_EQUAL says neither value: EQUAL says both")

    def inner_names(self, path, room, code):
        others = {r.split("/")[-1] for r in self.rooms if r.startswith("kilim/")} - {room.name.split("/")[-1]}
        for number, line in enumerate(code.splitlines(), 1):
            for m in INNER.finditer(line):
                if others & set(m.group(1).split("::")):
                    self.report(path, number, f"{m.group(0)} is another room's own: it needs a name outside detail")

    def versions(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            if DPDK_VERSION.search(line):
                self.report(path, number, "asks which DPDK it is: base/dpdk.hh and net/kilim/dpdk_abi.hh alone do")

    def fences(self, path, text):
        kept = source.blank(text, keep_includes=True)
        for number, line in enumerate(kept.splitlines(), 1):
            if FENCE.search(line):
                self.report(path, number, "a raw fence: base/barrier.hh has one for the purpose")

    def hot_header(self, path, code):
        for number, line in enumerate(code.splitlines(), 1):
            for pattern, what in HOT:
                if pattern.search(line):
                    self.report(path, number, f"{what} in a hot room's header")

    def names_of_programs(self):
        """A room's test files are one program: what two of them define by one name, each in its own way, is nobody's
        fault to the compiler, and the linker takes one of them (test/fuzz has a program for each file)."""
        known = {}
        for path in sorted(self.files):
            if path.startswith("test/") and not path.startswith(("test/fuzz/", "test/interop/")) and path.endswith((".cc", ".hh")):
                for line, name, definition in shared_names(source.read(self.root, path)):
                    first, known_as = known.setdefault((os.path.dirname(path), name), (path, definition))
                    if first != path and known_as != definition:
                        self.report(path, line, f"{name} is another one in {first}, of the same program")

    def idle_grants(self):
        for room in self.rooms.values():
            for word in room.idle():
                self.report("doc/layers.txt", room.line, f"room {room.name} may include {word}, and "
                            "nothing in it does")

    def cycles(self):
        """Headers that include each other, found depth first."""
        state = {}

        def visit(path, trail):
            state[path] = 1
            for number, target in self.edges.get(path, []):
                if state.get(target) == 1:
                    loop = trail[trail.index(target):] if target in trail else [target]
                    self.report(path, number, "include cycle: " + " -> ".join(loop + [target]))
                elif target not in state:
                    visit(target, trail + [target])
            state[path] = 2

        for path in sorted(self.edges):
            if path not in state:
                visit(path, [path])


def main(arguments):
    if arguments[1:] == ["--selftest"]:
        import seeds
        return seeds.run(Checker)
    if len(arguments) != 2 or not os.path.exists(os.path.join(arguments[1], "doc/layers.txt")):
        print(__doc__, file=sys.stderr)
        return 2
    checker = Checker(arguments[1])
    found = checker.run()
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    print(f"{len(checker.files)} sources in {len(checker.rooms)} rooms, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
