#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How long files and functions are: median, 95th percentile and longest, in lines,
over the sources of lib, drivers, app, test, examples and usertools (C++, C,
Python, shell).

Usage: sizes.py [--worst N] [FOLDER...]

  --worst N   also the N longest files and the N longest functions
  FOLDER      only what lies below it, as test/vhca

A function counts from its first line to its closing brace, as the test `layers`
counts it; what lies within another function counts as part of that. The numbers
that are wanted are in CONTRIBUTING.md."""

import argparse
import ast
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "test/style"))
import source  # noqa: E402

FOLDERS = ("lib", "drivers", "app", "test", "examples", "usertools")
SHELL = re.compile(r"^(\w[\w-]*)\(\) [{(]$.*?^[})]", re.M | re.S)


def cpp_functions(text):
    for f in source.functions(text):
        yield f.last - f.first + 1, f.name, f.first


def python_functions(text):
    scopes = [ast.parse(text)]
    while scopes:
        for node in scopes.pop().body:
            if isinstance(node, ast.ClassDef):
                scopes.append(node)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield node.end_lineno - node.lineno + 1, node.name, node.lineno


def shell_functions(text):
    for m in SHELL.finditer(text):
        yield m.group(0).count("\n") + 1, m.group(1), text.count("\n", 0, m.start()) + 1


READERS = {".py": python_functions, ".sh": shell_functions,
           **{suffix: cpp_functions for suffix in source.CODE}}


def measure(wanted):
    """([(lines, path)], [(lines, path:line: name)])"""
    files, functions = [], []
    for path in source.project_files(ROOT, tuple(READERS), FOLDERS):
        if wanted and not any(path.startswith(w.rstrip("/") + "/") for w in wanted):
            continue
        text = source.read(ROOT, path)
        files.append((len(text.splitlines()), path))
        for lines, name, first in READERS[os.path.splitext(path)[1]](text):
            functions.append((lines, f"{path}:{first}: {name}"))
    return sorted(files), sorted(functions)


def percentile(measured, share):
    """The smallest length that `share` percent do not exceed."""
    return measured[(len(measured) * share + 99) // 100 - 1][0]


def main():
    options = argparse.ArgumentParser(usage="sizes.py, see --help")
    options.format_help = lambda: __doc__ + "\n"
    options.add_argument("--worst", type=int, default=0, metavar="N")
    options.add_argument("folders", nargs="*", metavar="FOLDER")
    asked = options.parse_args()
    for what, measured in zip(("files", "functions"), measure(asked.folders)):
        if not measured:
            sys.exit("sizes.py: no source lies there")
        print(f"{len(measured)} {what}: p50 {percentile(measured, 50)}, "
              f"p95 {percentile(measured, 95)}, max {measured[-1][0]} lines")
        for lines, where in reversed(measured[-asked.worst:] if asked.worst else []):
            print(f"  {lines:4} {where}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
