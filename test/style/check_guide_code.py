#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A document's code that says which file it is from stands there line by line: a block that begins with
"```cpp examples/x.cc" is a row of lines of that file, the space in front of all of them aside.

Usage: check_guide_code.py ROOT
       check_guide_code.py --selftest"""

import glob
import os
import re
import sys
import tempfile
import textwrap

BLOCK = re.compile(r"^```(?:cpp|c) ([\w/.-]+)\n(.*?)^```$", re.M | re.S)


def stands_in(code, text):
    """Whether the lines follow each other in the text, all of them moved alike."""
    wanted, lines = textwrap.dedent(code).splitlines(), text.splitlines()
    n = len(wanted)
    return any(textwrap.dedent("\n".join(lines[i:i + n])).splitlines() == wanted for i in range(len(lines) - n + 1))


def faults(root):
    count = 0
    pages = glob.glob(os.path.join(root, "*.md")) + glob.glob(os.path.join(root, "doc/**/*.md"), recursive=True)
    for path in sorted(pages):
        with open(path, encoding="utf-8") as f:
            document = f.read()
        for block in BLOCK.finditer(document):
            count += 1
            place = f"{os.path.relpath(path, root)}:{document[:block.start()].count(chr(10)) + 1}"
            source = os.path.join(root, block.group(1))
            if not os.path.exists(source):
                yield f"{place}: there is no {block.group(1)}"
                continue
            with open(source, encoding="utf-8") as f:
                if not block.group(2).strip() or not stands_in(block.group(2), f.read()):
                    yield f"{place}: {block.group(1)} has no such lines"
    if count == 0:
        yield "no document has code that says where it is from"


def selftest():
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "doc"))
        with open(os.path.join(root, "x.c"), "w", encoding="utf-8") as f:
            f.write("int a;\n  if (b) {\n    c();\n  }\nint d;\n")
        for code, wrong in ((("if (b) {", "  c();", "}"), 0), (("int a;", "int d;"), 1), (("  c();",), 0), (("c()",), 1)):
            with open(os.path.join(root, "doc/x.md"), "w", encoding="utf-8") as f:
                f.write("text\n```c x.c\n" + "\n".join(code) + "\n```\n")
            assert len(list(faults(root))) == wrong, code
        with open(os.path.join(root, "doc/x.md"), "w", encoding="utf-8") as f:
            f.write("```c y.c\nint a;\n```\n")
        assert list(faults(root)) == ["doc/x.md:1: there is no y.c"]
    return 0


def main(root):
    found = list(faults(root))
    print("\n".join([*found, f"{len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(selftest() if sys.argv[1:] == ["--selftest"] else main(sys.argv[1]))
