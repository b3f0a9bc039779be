#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The code of the documents is code. A block that begins with "```cpp examples/x.cc" is a row of lines of that file, the
space in front of all of them aside. Any other block of C++ compiles (-fsyntax-only): it is the body of a function, or with
"```cpp file" what stands in a file outside of functions; a line `...` stands for something left out. What a block takes for
given, includes and declarations, stands in a comment of the page, which readers do not see:

<!-- given
#include "kilim/port/port.hh"
extern port::Port& port;
-->

Usage: check_guide_code.py ROOT COMPILER...
       check_guide_code.py --selftest COMPILER..."""

import glob
import os
import re
import subprocess
import sys
import tempfile
import textwrap

BLOCK = re.compile(r"^```(?:cpp|c) ([\w/-]+\.[\w.]+)\n(.*?)^```$", re.M | re.S)
PART = re.compile(r"^<!-- given\n(?P<given>.*?)^-->$|^```(?:cpp|c\+\+)(?P<file> file)?\n(?P<code>.*?)^```$", re.M | re.S)
INCLUDE = re.compile(r"^#include .*\n", re.M)
LEFT_OUT = re.compile(r"^\s*\.\.\.\s*$", re.M)


def stands_in(code, text):
    """Whether the lines follow each other in the text, all of them moved alike."""
    wanted, lines = textwrap.dedent(code).splitlines(), text.splitlines()
    n = len(wanted)
    return any(textwrap.dedent("\n".join(lines[i:i + n])).splitlines() == wanted for i in range(len(lines) - n + 1))


def documents(root):
    pages = glob.glob(os.path.join(root, "*.md")) + glob.glob(os.path.join(root, "doc/**/*.md"), recursive=True)
    for path in sorted(pages):
        name = os.path.relpath(path, root)
        if not name.startswith("doc/decisions/"):   # their code was true on its day
            with open(path, encoding="utf-8") as f:
                yield name, f.read()


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def named_faults(root, pages):
    count = 0
    for name, document in pages:
        for block in BLOCK.finditer(document):
            count += 1
            place = f"{name}:{line_of(document, block.start())}"
            source = os.path.join(root, block.group(1))
            if not os.path.exists(source):
                yield f"{place}: there is no {block.group(1)}"
                continue
            with open(source, encoding="utf-8") as f:
                if not block.group(2).strip() or not stands_in(block.group(2), f.read()):
                    yield f"{place}: {block.group(1)} has no such lines"
    if count == 0:
        yield "no document has code that says where it is from"


def include_faults(pages):
    """A page takes headers for given that a program may include."""
    for name, document in pages:
        for part in PART.finditer(document):
            for m in re.finditer(r'^#include "(kilim/detail/[^"]+)"', part.group("given") or "", re.M):
                yield f"{name}:{line_of(document, part.start())}: {m.group(1)} is no public header"


def translated(pages):
    """One source of all blocks: a namespace a page, whose lines say where they are from."""
    includes, body, blocks = [], [], 0
    for number, (name, document) in enumerate(pages):
        inside = []
        for part in PART.finditer(document):
            text = part.group("given") if part.group("given") is not None else part.group("code")
            at = line_of(document, part.start()) + 1
            includes += [f'#line {at + line_of(text, m.start()) - 1} "{name}"\n{m.group(0)}' for m in INCLUDE.finditer(text)]
            text = LEFT_OUT.sub("", INCLUDE.sub("\n", text))
            if part.group("code") is None or part.group("file"):
                inside.append(f'#line {at} "{name}"\n{text}')
            else:
                inside.append(f'void block_{blocks}() {{\n#line {at} "{name}"\n{text}}}\n')
            blocks += part.group("code") is not None
        if inside:
            body.append(f"namespace page_{number} {{\nusing namespace kilim;\n{''.join(inside)}}}\n")
    return "".join(includes) + "namespace kilim {}\n" + "".join(body), blocks


def compile_faults(root, pages, compiler):
    source, blocks = translated(pages)
    flags = ["-std=c++20", "-fsyntax-only", "-w", "-fno-diagnostics-show-caret", "-I", os.path.join(root, "lib"),
             "-I", os.path.join(root, "drivers"), "-x", "c++", "-"]
    packages = subprocess.run(["pkg-config", "--cflags", "libdpdk"], capture_output=True, text=True, check=True).stdout.split()
    done = subprocess.run([*compiler, *packages, *flags], input=source, capture_output=True, text=True, check=False)
    faults = re.findall(r"^\S+\.md:\d+.* error: .*$", done.stderr, re.M)
    if done.returncode != 0 and not faults:
        faults = [done.stderr[-2000:]]
    return faults, blocks


def faults(root, compiler):
    pages = list(documents(root))
    found = [*named_faults(root, pages), *include_faults(pages)]
    wrong, blocks = compile_faults(root, pages, compiler)
    return found + wrong, blocks


def selftest(compiler):
    with tempfile.TemporaryDirectory() as root:
        for folder in ("doc", "lib/kilim/detail"):
            os.makedirs(os.path.join(root, folder))
        with open(os.path.join(root, "lib/kilim/detail/x.hh"), "w", encoding="utf-8") as f:
            f.write("#pragma once\n")
        with open(os.path.join(root, "x.c"), "w", encoding="utf-8") as f:
            f.write("int a;\n  if (b) {\n    c();\n  }\nint d;\n")
        named = "```c x.c\nint a;\n```\n"
        for text, wanted in (
                ("```c x.c\nif (b) {\n  c();\n}\n```\n", None), ("```c x.c\nint a;\nint d;\n```\n", "x.c has no such lines"),
                ("```c x.c\n  c();\n```\n", None), ("```c x.c\nc()\n```\n", "x.c has no such lines"),
                ("```c y.c\nint a;\n```\n", "doc/x.md:1: there is no y.c"), ("", "no document has code"),
                (named + "```cpp\nint x = 1;\n...\nx++;\n```\n", None), (named + "```cpp\nx++;\n```\n", "doc/x.md:5:"),
                (named + "<!-- given\n#include <vector>\nextern std::vector<int> x;\n-->\n```c++\nx.clear();\n```\n", None),
                (named + "<!-- given\nextern int x;\n-->\n```cpp\nx.clear();\n```\n", "doc/x.md:8:"),
                (named + "<!-- given\nextern Missing x;\n-->\n", "doc/x.md:5:"),
                (named + '<!-- given\n#include "kilim/detail/x.hh"\n-->\n', "doc/x.md:4: kilim/detail/x.hh is no public header"),
                (named + "```cpp file\nint main() { return 0; }\n```\n```cpp\nmain();\n```\n", None),
                (named + "```cpp\nkilim::missing::call();\n```\n", "doc/x.md:5:")):
            with open(os.path.join(root, "doc/x.md"), "w", encoding="utf-8") as f:
                f.write(text)
            found = faults(root, compiler)[0]
            assert not found if wanted is None else len(found) == 1 and wanted in found[0], (text, found)
    return 0


def main(arguments):
    if arguments[0] == "--selftest":
        return selftest(arguments[1:])
    found, blocks = faults(arguments[0], arguments[1:])
    print("\n".join([*found, f"{blocks} blocks compiled, {len(found)} faults"]))
    return 1 if found or blocks == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
