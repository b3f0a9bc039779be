#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Each source includes the standard headers whose names it uses: itself, or one of the project's
headers that it includes does. The builds of usertools/ read those headers before any source
(precompile.py), so a compiler would not miss them there.

Usage: check_std_includes.py ROOT | --selftest"""

import os
import re
import sys
import tempfile

import source

# What a header gives.
GIVEN = {
    "algorithm": "all_of any_of none_of for_each find find_if find_if_not count count_if equal copy "
                 "copy_n copy_if fill fill_n generate reverse rotate sort stable_sort unique lower_bound "
                 "upper_bound binary_search min_element max_element min max clamp remove_if transform "
                 "shuffle is_sorted equal_range nth_element",
    "array": "array to_array",
    "atomic": "atomic atomic_ref memory_order_relaxed memory_order_acquire memory_order_release "
              "atomic_thread_fence",
    "bit": "bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero has_single_bit popcount endian",
    "charconv": "from_chars to_chars",
    "chrono": "chrono",
    "cstdio": "printf fprintf snprintf fopen fclose fputs fflush",
    "cstdlib": "getenv strtoul strtoull abort exit malloc free",
    "cstring": "memcpy memcmp memset memmove strcmp strncmp strlen strerror strchr strstr",
    "functional": "function invoke",
    "map": "map multimap",
    "memory": "unique_ptr make_unique shared_ptr make_shared",
    "mutex": "mutex lock_guard unique_lock scoped_lock",
    "optional": "optional nullopt",
    "random": "mt19937 mt19937_64 random_device uniform_int_distribution",
    "span": "span as_bytes as_writable_bytes",
    "string": "string to_string",
    "string_view": "string_view",
    "thread": "thread jthread this_thread",
    "unordered_map": "unordered_map",
    "variant": "variant get_if holds_alternative visit monostate",
    "vector": "vector",
}
# A header whose interface is made of another's names.
BRINGS = {"string": ("string_view",), "thread": ("chrono",), "condition_variable": ("mutex", "chrono"),
          "shared_mutex": ("mutex",), "fstream": ("string",), "sstream": ("string", "string_view"),
          "filesystem": ("string", "string_view")}
HEADER_OF = {name: header for header, names in GIVEN.items() for name in names.split()}
USED = re.compile(r"\bstd::(?:ranges::)?(\w+)")
INCLUDE = re.compile(r'^#include ([<"])([^>"]+)', re.M)
BASES = ("lib", "drivers", "app", "app/testpmd", "test", "test/support", "")


class Tree:
    def __init__(self, root):
        self.root, self.known = root, {}
        self.files = source.project_files(root, (".cc", ".hh"), ("lib", "drivers", "app", "examples", "test"))
        self.by_name = {}
        for path in self.files:
            self.by_name.setdefault(os.path.basename(path), []).append(path)

    def headers_behind(self, path, name):
        """The project's headers that an include may mean."""
        for base in (os.path.dirname(path), *BASES):
            candidate = os.path.normpath(os.path.join(base, name))
            if os.path.isfile(os.path.join(self.root, candidate)):
                return [candidate]
        return [p for p in self.by_name.get(os.path.basename(name), []) if p.endswith(name)]

    def given(self, path):
        """The standard headers that a file includes, over any number of steps."""
        if path not in self.known:
            self.known[path] = set()    # a circle ends here
            for kind, name in INCLUDE.findall(source.read(self.root, path)):
                if kind == "<":
                    self.known[path] |= {name, *BRINGS.get(name, ())}
                    continue
                for header in self.headers_behind(path, name):
                    self.known[path] |= self.given(header)
        return self.known[path]

    def faults(self, path):
        given, said = self.given(path), set()
        for number, line in enumerate(source.blank(source.read(self.root, path)).splitlines(), 1):
            for name in USED.findall(line):
                header = HEADER_OF.get(name)
                if header and header not in given and header not in said:
                    said.add(header)
                    yield f"{path}:{number}: std::{name} without <{header}>"


def check(root):
    tree = Tree(root)
    faults = [fault for path in tree.files for fault in tree.faults(path)]
    print("\n".join(faults + [f"{len(tree.files)} files, {len(faults)} faults"]))
    return 1 if faults or not tree.files else 0


def selftest():
    with tempfile.TemporaryDirectory() as root:
        os.mkdir(os.path.join(root, "lib"))
        for name, text in (("a.hh", "#include <span>\n"),
                           ("good.cc", '#include "a.hh"\nstd::span<int> s; // std::vector\n'),
                           ("bad.cc", '#include "a.hh"\nstd::span<int> s;\nstd::vector<int> v;\n')):
            with open(os.path.join(root, "lib", name), "w", encoding="utf-8") as f:
                f.write(text)
        tree = Tree(root)
        found = [fault for path in tree.files for fault in tree.faults(path)]
    print(found)
    return 0 if found == ["lib/bad.cc:3: std::vector without <vector>"] else 1


if __name__ == "__main__":
    sys.exit(selftest() if sys.argv[1] == "--selftest" else check(sys.argv[1]))
