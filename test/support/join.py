#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes one source of several test programs, so that the headers which they share are read once, and linked
once (option joined_tests). The program of it runs one suite: `--suite NAME WORD` is what `NAME_ut WORD` is.

Usage: join.py OUTPUT DEPFILE FOLDER ENDING NAME...     of FOLDER/NAME + ENDING

All headers come first. What a test file itself says is put in a namespace of the suite's name: inside of the
namespace which the file opens, or around everything. A file that this does not fit (macros, names for the
linker) is refused: it stays a program of its own."""

import os
import re
import sys

ALONE = re.compile(r'^\s*#\s*(?!include\b|pragma once\b)\w+|^extern "C"|^\w.*\boperator (?:new|delete)\b', re.M)
INCLUDE = re.compile(r'^#include (?:"(.+)"|<.+>)', re.M)
OPENED = re.compile(r"^namespace (kilim[\w:]*) \{$", re.M)
TABLE = re.compile(r"^KILIM_UT_MAIN\((.+), ([\w:]+)\)$", re.M)
MAIN = re.compile(r"^int main\(int argc, char\*\* argv\) \{$", re.M)

HEAD = """// Made by test/support/join.py of several test programs.
#include <cstdio>
#include <cstring>
"""
TAIL = """
int main(int argc, char** argv) {
  const char* wanted = argc > 2 && std::strcmp(argv[1], "--suite") == 0 ? argv[2] : "";
  const struct { const char* name; int (*run)(int, char**); } suites[] = {
%s
  };
  for (const auto& s : suites)
    if (std::strcmp(s.name, wanted) == 0) return s.run(argc - 2, argv + 2);
  std::fprintf(stderr, "--suite NAME [-l | WORD], of:\\n");
  for (const auto& s : suites) std::fprintf(stderr, "  %%s\\n", s.name);
  return 2;
}
"""


def includes(folder, text):
    """The lines, with a header that lies beside the source by its whole path."""
    for line, name in ((m.group(0), m.group(1)) for m in INCLUDE.finditer(text)):
        beside = os.path.join(folder, name or "")
        yield f'#include "{beside}"' if name and os.path.exists(beside) else line


def run_of(text, space):
    """The text with a function in the place of its main()."""
    text, tables = TABLE.subn(lambda m: f"int suite_main(int argc, char** argv) {{ return ::kilim::test::run_cases("
                              f"{m.group(1)}, {m.group(2)}, argc, argv); }}", text)
    text, mains = MAIN.subn("int suite_main(int argc, char** argv) {", text)
    if tables + mains != 1:
        raise SystemExit(f"{space}: has no main() that join.py knows")
    return text


def apart(text, space):
    """The text with all its names in a namespace of their own."""
    opened = set(OPENED.findall(text))
    if not opened:
        return f"namespace {space} {{\n{run_of(text, space)}\n}}", f"{space}::suite_main"
    head, main = re.split(r"(?=^KILIM_UT_MAIN|^int main)", text, maxsplit=1, flags=re.M)
    head = OPENED.sub(lambda m: f"namespace {m.group(1)}::{space} {{", head)
    for name in sorted(opened, key=len, reverse=True):
        main = re.sub(rf"\b{name}::(?=\w+\b(?!::))", f"{name}::{space}::", main)
    return f"{head}namespace {space} {{\n{run_of(main, space)}\n}}", f"{space}::suite_main"


def main(output, depfile, folder, ending, names):
    heads, parts, rows = {}, [], []
    paths = [os.path.join(folder, name + ending) for name in names]
    for name, path in zip(names, paths):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        found = ALONE.search(text)
        if found:
            raise SystemExit(f"{path}: stays a program of its own: {found.group(0).strip()}")
        heads.update(dict.fromkeys(includes(folder, text)))
        space = "suite_" + re.sub(r"\W", "_", name)
        made, run = apart(INCLUDE.sub("", text), space)
        wrapped = made.startswith("namespace " + space)
        first, rest = made.split("\n", 1) if wrapped else ("", made)
        parts.append(f'{first}\n#line 1 "{path}"\n{rest}')
        rows.append(f'    {{"{name}", {run}}},')
    with open(output, "w", encoding="utf-8") as f:
        f.write(HEAD + "\n".join(heads) + "\n" + "\n".join(parts) + '\n#line 1 "join.py"\n' + TAIL % "\n".join(rows))
    with open(depfile, "w", encoding="utf-8") as f:
        f.write(f"{output}: {' '.join(p.replace(' ', chr(92) + ' ') for p in paths)}\n")


if __name__ == "__main__":
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    main(*sys.argv[1:5], sys.argv[5:])
