#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usertools/lot.py finds each kind of defect in a planted source, gives intervals as Wilson's, and of defects in a
little Meson project says which is killed, which lives, which changes no code, and puts all right again.
Usage: lot_selftest.py"""

import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import defects
import lot_figures
import lot_site

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PLANTED = """#include <cerrno>
#include <cstdint>
enum class Why { none, length, number };
void fence();
void put(int at, int value);
int get(int a, int b);
int hits;
bool flag();
int work(int a, int b, uint32_t mask) {
  if (a < b && mask != 7) return -EINVAL;
  if (flag()) {
    hits++;
  }
  fence();
  put(a, b);
  hits = get(a, b);
  hits += 3;
  a = static_cast<int>(mask & 0xff00u);
  (void)__builtin_bswap32(mask);
  return a;
}
Why why(bool bad) { return bad ? Why::length : Why::none; }
"""
# (kind, line, what stood there, what stands there)
WANTED = (
    ("comparison", 10, "<", "<="), ("bound", 10, "b", "(b) + 1"), ("negation", 10, "!=", "=="), ("and or", 10, "&&", "||"),
    ("condition dropped", 10, "a < b && ", ""), ("early return", 10, "if (a < b && mask != 7) return -EINVAL", "(void)(a < b && mask != 7)"),
    ("error code", 10, "EINVAL", "ENOENT"), ("error code dropped", 10, "return -EINVAL", "return 0"),
    ("constant", 10, "7", "8"), ("negation", 11, "flag()", "!(flag())"), ("condition dropped", 11, "flag()", "false"),
    ("increment removed", 12, "hits++", ""), ("call removed", 15, "put(a, b)", ""), ("arguments", 15, "a, b", "b, a"),
    ("assignment removed", 16, None, ""), ("increment removed", 17, "hits += 3", ""),
    ("mask", 18, "0xff00u", "((0xff00u) & ((0xff00u) - 1))"), ("byte order", 19, None, "(mask)"),
    ("error code", 22, "Why::length", "Why::number"), ("negation", 22, "bad", "!(bad)"),
)
REFUSED = (("call removed", 14), ("early return", 11))     # a fence, and an `if` that goes on

PROJECT = {
    "meson.build": "project('p', 'cpp')\nl = static_library('l', 'drivers/vhca/wq/limit.cc')\n"
                   "subdir('test/vhca/wq')\n",
    "test/vhca/wq/meson.build": "test('limit', executable('limit_ut', 'limit_ut.cc', link_with: l), suite: 'vhca')\n",
    "drivers/vhca/wq/limit.cc": "int most = 3;\nint used = 0;\nbool fits(int n) {\n  used += 1;\n  return n <= most;\n}\n"
                                "unsigned twice(unsigned n) {\n  return n + n + 0;\n}\n",
    "test/vhca/wq/limit_ut.cc": "bool fits(int);\nunsigned twice(unsigned);\n"
                                "int main() { return fits(3) && !fits(5) && twice(2) == 4 ? 0 : 1; }\n",
}
LIMIT = "drivers/vhca/wq/limit.cc"
# The last one is killed: whatever of it were left would fail the test again.
TRIED = (("survived", "used += 1;", ";"), ("survived", "n <= most", "n <= (most) + 1"), ("same code", "+ 0", "- 0"),
         ("does not compile", "most;", "mast;"), ("killed", "<=", ">="))


def faults_of_kinds(folder):
    path = os.path.join(folder, "planted.cc")
    with open(path, "w", encoding="utf-8") as f:
        f.write(PLANTED)
    found, read = defects.defects_of(path, "planted.cc", ["-x", "c++", "-std=c++20"])
    if not read:
        yield "clang does not read the planted source: is python3-clang installed?"
        return
    for kind, line, was, now in WANTED:
        if not any((d.kind, d.line, d.now) == (kind, line, now) and was in (None, d.was) for d in found):
            yield f"no {kind} in line {line}: {was} -> {now}"
    for kind, line in REFUSED:
        if any((d.kind, d.line) == (kind, line) for d in found):
            yield f"a {kind} in line {line}"
    for d in found:
        if d.was.count("\n") > d.now.count("\n") or PLANTED[d.begin:d.end] != d.was:
            yield f"{d}: does not fit its place"
    _, read = defects.defects_of(path, "planted.cc", ["-x", "c++", "-include", "no/such/file.hh"])
    if read:
        yield "a source that clang refuses counts as read"


def faults_of_figures():
    # E. B. Wilson's interval of 82 in 104, and its ends.
    for good, of, low, high in ((82, 104, 70, 86), (0, 10, 0, 28), (10, 10, 72, 100)):
        got = tuple(round(100 * v) for v in lot_figures.wilson(good, of))
        if got != (low, high):
            yield f"{good} of {of}: {got}, and not {(low, high)}"
    rows = [{"room": "r", "kind": "k", "outcome": o} for o in ("killed", "killed", "survived", "same code", "equivalent")]
    if "| r | 3 | 2 | 67 % |" not in lot_figures.table(rows, ""):
        yield "two killed of three are no 67 %"


def faults_of_mirrors():
    """A room whose tests are looked for where there are none is asked by nobody."""
    with open(os.path.join(ROOT, "doc/layers.txt"), encoding="utf-8") as f:
        names = re.findall(r"^!?((?:kilim|vhca|drivers|app)/[a-z0-9/]+) *:", f.read(), re.M)
    for name in names:
        folder = re.sub(r"^kilim/", "lib/kilim/", re.sub(r"^vhca/", "drivers/vhca/", name))
        if os.path.isdir(os.path.join(ROOT, folder)) and not os.path.isdir(os.path.join(ROOT, lot_site.mirror_of(folder))):
            yield f"{name}: there is no {lot_site.mirror_of(folder)}"


def contents(folder):
    found = {}
    for name in PROJECT:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            found[name] = f.read()
    return found


def faults_of_trials(folder):
    for name, text in PROJECT.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
    build = os.path.join(folder, "build")
    for words in (["meson", "setup", build, folder, "-Dbuildtype=release", "-Dwerror=true"], ["ninja", "-C", build]):
        subprocess.run(words, check=True, capture_output=True)
    site = lot_site.Site(folder, build)
    test = site.circles(LIMIT)[0][0]
    if site.try_clean(test) is None:
        yield "the test does not pass without a defect"
    text = PROJECT[LIMIT]
    for outcome, was, now in TRIED:
        at = text.index(was)
        d = defects.Defect(LIMIT, text[:at].count("\n") + 1, "planted", at, at + len(was), was, now)
        got, _ = lot_site.verdict(site, d, 1, 60)
        if got != outcome:
            yield f"{was} -> {now}: {got}, and not {outcome}"
    late = lot_site.verdict(site, d, 1, -1)[0]
    if late != "out of time":
        yield f"without any time: {late}"
    if contents(folder) != PROJECT:
        yield "the tree is not put right"
    site.clean.clear()
    if site.try_clean(test) is None:
        yield "a defect is left in what was built"


def main():
    with tempfile.TemporaryDirectory() as folder:
        found = [*faults_of_kinds(folder), *faults_of_figures(), *faults_of_mirrors(),
                 *faults_of_trials(os.path.join(folder, "tree"))]
    for fault in found:
        print(fault)
    print(f"{len(WANTED) + len(REFUSED) + len(TRIED)} planted defects, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
