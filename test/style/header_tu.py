#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes the translation unit that proves a header stands alone: it includes nothing else, and the
header twice. Usage: header_tu.py HEADER OUTPUT"""

import os
import sys

with open(sys.argv[2], "w", encoding="utf-8") as out:
    out.write(f'#include "{os.path.abspath(sys.argv[1])}"\n' * 2)
