#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""doc/compatibility.md: its table of perftest's combinations is as usertools/perftest-matrix.sh wrote
it. Usage: check_compatibility.py ROOT"""

import os
import sys

import source

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../interop"))

import perftest_table

PAGE = "doc/compatibility.md"


def main(arguments):
    made = perftest_table.SECTION.search(source.read(arguments[0], PAGE))
    if made is None or made.group(1) != perftest_table.stamp(made.group(2)):
        print(f"{PAGE}:1: the table of perftest is not as usertools/perftest-matrix.sh --write made it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
