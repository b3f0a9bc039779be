#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts the places of the device that refuse a call with a bare errno or syndrome: without a reason of core/refusal.hh
or hca/verb_refusals.hh, a program is told a number alone. The count may only fall (ADR 0123).

Usage: check_refusals.py ROOT          fails if there are more places than MOST, or fewer than MOST says
       check_refusals.py ROOT --print  lists them
       check_refusals.py --selftest    planted places are told apart"""

import os
import re
import sys

sys.dont_write_bytecode = True
from source import read

ROOMS = ("drivers/vhca/hca", "drivers/vhca/rdmacm", "drivers/vhca/uverbs")
MOST = 18
REASON = re.compile(r"\b(?:refuse_verb|refuse_path|refusal::\w+|no|tell_refusal)\(")
# A value that is answered, not one that is compared with.
BARE = re.compile(r"(?<![=!]= )-E[A-Z]{2,}\b|\bError\{E[A-Z]+\}|\{Status::(?:bad|no)_\w+, Refusal::\w+\}")
PLANTED = (("  if (a) return -EINVAL;", 1), ("  return ok ? 0 : -EBUSY;", 1), ("  if (rc == -EINVAL) return;", 0),
           ("  return refuse_verb(h, -EINVAL, {x});", 0), ("  return refuse_verb(\n      h, -EINVAL, {x});", 0),
           ("  return {Status::bad_param, Refusal::reserved};", 1), ("  return Error{EINVAL};", 1),
           ("  return refused(Status::bad_param, Refusal::reserved, refusal::bits(a, 1, 2));", 0),
           ("  return a ? refusal::busy(b, 1) : -EINVAL;", 1), ("  return refusal::most(a, f(b), 1, -EINVAL);", 0),
           ('  return Error{EINVAL, "no such thing"};', 0), ("  // -EINVAL: none", 0))


def places(text):
    """The lines, by number, of a source that answer a number alone."""
    code = re.sub(r"//[^\n]*", "", text)
    found = []
    for m in BARE.finditer(code):
        # A reason has the number among its arguments.
        before = code[max(0, m.start() - 300):m.start()]
        inside = any(before[r.end():].count("(") >= before[r.end():].count(")") for r in REASON.finditer(before)
                     if ";" not in before[r.end():])
        if not inside:
            found.append(code.count("\n", 0, m.start()) + 1)
    return found


def selftest():
    wrong = [text for text, count in PLANTED if len(places(text)) != count]
    for text in wrong:
        print(f"told wrongly: {text}")
    return 1 if wrong else 0


def main():
    if sys.argv[1] == "--selftest":
        return selftest()
    root = sys.argv[1]
    found = []
    for room in ROOMS:
        for name in sorted(os.listdir(os.path.join(root, room))):
            if name.endswith((".cc", ".hh")):
                path = f"{room}/{name}"
                found += [f"{path}:{line}" for line in places(read(root, path))]
    if "--print" in sys.argv:
        print("\n".join(found))
    if len(found) > MOST:
        print(f"{len(found)} places refuse with a bare number, {MOST} did: give the new one its reason by a function of "
              "drivers/vhca/core/refusal.hh (--print lists all)")
    elif len(found) < MOST:
        print(f"{len(found)} places refuse with a bare number, MOST of this check says {MOST}: lower it")
    return 0 if len(found) == MOST else 1


if __name__ == "__main__":
    sys.exit(main())
