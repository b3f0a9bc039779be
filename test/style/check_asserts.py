#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Refuses an assertion of a test that joins conditions which can be asserted one behind the other: CU_ASSERT(a && b)
does not say which was false. What is read only because something in front of it is true may stay joined (joined.py).

Usage: check_asserts.py ROOT
       check_asserts.py --selftest    planted assertions are told apart, and others are left alone"""

import os
import sys

sys.dont_write_bytecode = True
from joined import can_be_told_apart, groups, joined_of
from source import project_files, read

PLANTED = (
    ("CU_ASSERT(a == 1 && b == 2);", [["a == 1"], ["b == 2"]]),
    ("CU_ASSERT_TRUE(f(a, b) && (g(b) && c));", [["f(a, b)"], ["g(b)"], ["c"]]),
    ("CU_ASSERT_FATAL(p != nullptr && p->x == 3);", [["p != nullptr"], ["p->x == 3"]]),
    ("if (x)\n  CU_ASSERT(a && b);", [["a"], ["b"]]),
    ('CU_ASSERT(said("a && b") && n == 1);', [['said("a && b")'], ["n == 1"]]),
    ("CU_ASSERT(c() == 'a' && (d == 'b' || d == 'c'));", [["c() == 'a'"], ["d == 'b' || d == 'c'"]]),
    ("CU_ASSERT(p != nullptr && p->x == 3);", [["p != nullptr", "p->x == 3"]]),
    ("CU_ASSERT(r.ok() && *r == 3 && n == 1);", [["r.ok()", "*r == 3"], ["n == 1"]]),
    ("CU_ASSERT(c && c->x == 1);", [["c", "c->x == 1"]]),
    ("CU_ASSERT(v.size() == 2 && v[0] == 1);", [["v.size() == 2", "v[0] == 1"]]),
    ("CU_ASSERT(in_order(done) && done[0].op == req);", [["in_order(done)", "done[0].op == req"]]),
    ("CU_ASSERT(free_qp(*r.hca, a) == 0 && free_cq(*r.hca, b) == 0);", [["free_qp(*r.hca, a) == 0"], ["free_cq(*r.hca, b) == 0"]]),
    ("CU_ASSERT(v.size() == 2 && v[0] == 1 && v[1] == 2);", [["v.size() == 2", "v[0] == 1", "v[1] == 2"]]),
    ("CU_ASSERT(post(q) == 0 && wait_for(q));", [["post(q) == 0", "wait_for(q)"]]),
    ("CU_ASSERT(!r.ok() && r.error().code == EIO);", [["!r.ok()", "r.error().code == EIO"]]),
    ("CU_ASSERT(open(f) == -1 && errno == EIO);", [["open(f) == -1", "errno == EIO"]]),
    ("CU_ASSERT(take(&n) && n == 1);", [["take(&n)", "n == 1"]]),
)
ALONE = ("CU_ASSERT(a == 1);", "CU_ASSERT(a && b || c);", "CU_ASSERT([&] { return a && b; }());", "CU_ASSERT(f(a && b));",
         "#define ALL(a, b) CU_ASSERT(a && b);", '#define ALL(a, b) \\\n  CU_ASSERT(a && b);', "// CU_ASSERT(a && b);")


def selftest():
    faults = []
    for text, wanted in PLANTED:
        found = joined_of("void f() {\n  " + text + "\n}\n")
        got = [groups(j) for j in found]
        if got != [wanted]:
            faults.append(f"{text}: {got}, and not {[wanted]}")
    faults += [f"{text}: it is no joined assertion" for text in ALONE if joined_of("void f();\n" + text + "\n")]
    for fault in faults:
        print(fault)
    print(f"{len(PLANTED) + len(ALONE)} planted assertions, {len(faults)} faults")
    return 1 if faults else 0


def main():
    if sys.argv[1:] == ["--selftest"]:
        return selftest()
    root, count, left = sys.argv[1], 0, 0
    for path in project_files(root, (".cc", ".hh"), {"test"}):
        for j in joined_of(read(root, path)):
            if can_be_told_apart(j):
                print(f"{path}:{j.line}: {j.macro}({' && '.join(j.operands)[:90]}): assert each by itself, that a failure says which")
                count += 1
            else:
                left += 1
    print(f"{count} joined assertions, {left} whose conditions depend on each other")
    return 1 if count else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__)
        sys.exit(2)
    sys.exit(main())
