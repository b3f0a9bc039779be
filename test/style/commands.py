# SPDX-License-Identifier: BSD-3-Clause
"""The commands of the documents: fenced blocks of a shell, code spans that begin as a command of this tree
does, and the head comments of the examples.

Usage: commands.py ROOT [MARKS [DOCUMENT]]   README's first command, or that of another document, then each line of its
                                             blocks `sh run` and `sh fresh` (MARKS `run`: without those that only a
                                             machine of their own should run)"""

import glob
import os
import re
import shlex
import sys

SHELLS = ("sh", "bash", "console")
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
SPAN = re.compile(r"(?<!`)`((?:build/|usertools/|test/\S+\.py |meson test|ninja -C)[^`]*)`(?!`)")
HEAD = re.compile(r"(?:^//.*\n)+", re.M)
SHOWN = re.compile(r"^//   (build/\S+(?:.*\n//       )*.*|usertools/\S+ .*)$", re.M)
BETWEEN = {"&", "&&", "|", "||", ";", "(", ")"}


class Block:
    def __init__(self, path, line, text, marks=()):
        self.path, self.line, self.text = path, line, text
        self.runs, self.fresh = "run" in marks, "fresh" in marks


def documents(root):
    found = [os.path.join(root, name) for name in ("README.md", "CONTRIBUTING.md", "drivers/vhca/README.md")]
    return found + sorted(glob.glob(os.path.join(root, "doc/**/*.md"), recursive=True))


def blocks_of(path, text):
    """Fenced blocks of a shell. `sh run` in the fence's line: it can be run as it stands; `sh fresh`: so it can,
    but it changes the machine (usertools/fresh.sh)."""
    for m in FENCE.finditer(text):
        info = m.group(1).split()
        if info and info[0] in SHELLS:
            yield Block(path, text.count("\n", 0, m.start(2)) + 1, m.group(2), info[1:])


def spans_of(path, text):
    plain = FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text)
    for m in SPAN.finditer(plain):
        yield Block(path, plain.count("\n", 0, m.start()) + 1, " ".join(m.group(1).split()))


def examples_of(root):
    for path in sorted(glob.glob(os.path.join(root, "examples/*.cc"))):
        with open(path, encoding="utf-8") as f:
            head = HEAD.search(f.read()).group(0)
        for m in SHOWN.finditer(head):
            text = m.group(1).replace("\n//", " ")
            yield Block(os.path.relpath(path, root), head.count("\n", 0, m.start()) + 1, text)


def all_blocks(root):
    for path in documents(root):
        with open(path, encoding="utf-8") as f:
            text = f.read()
        name = os.path.relpath(path, root)
        yield from blocks_of(name, text)
        if "/decisions/" not in path:   # what they say was true on their day
            yield from spans_of(name, text)
    yield from examples_of(root)


def words_of(line):
    """The words of a line of a shell, and what stands between its commands; none where it is no shell's."""
    reader = shlex.shlex(line, posix=True, punctuation_chars=True)
    reader.wordchars += "$:,+[]{}%^!"   # none of them ends a word here
    reader.commenters = "#"
    reader.whitespace_split = True
    return list(reader)


def commands_of(block):
    """(line, words) of each command, variables of the block put in, redirections and assignments left out."""
    text = re.sub(r"\\\n", lambda m: "  ", block.text)
    known, line = {}, block.line
    for row in text.split("\n"):
        row = row.split(" #")[0] if "'" not in row else row
        for inner in re.findall(r"\$\(([^()]*)\)", row):
            yield line, words_of(inner)
        row = re.sub(r"\$\([^()]*\)", "SAID", row)
        row = re.sub(r"\$(\w+)", lambda m: known.get(m.group(1), m.group(0)), row.removeprefix("$ "))
        command = []
        for word in words_of(row) + [";"]:
            if word in BETWEEN:
                if command:
                    yield line, command
                command = []
                continue
            assigned = re.fullmatch(r"(\w+)=(.*)", word)
            if assigned and not command:
                known[assigned.group(1)] = assigned.group(2)
            else:
                command.append(word)
        line += 1


def typed(text):
    """The lines of a block that a reader types, without what is said about them."""
    for row in re.sub(r"\\\n\s*", "", text).split("\n"):
        row = row.split(" #")[0].strip()
        if row:
            yield row


def main(root, marks="run fresh", document="README.md"):
    with open(os.path.join(root, document), encoding="utf-8") as f:
        blocks = list(blocks_of(document, f.read()))
    print(next(typed(blocks[0].text)))
    for block in blocks:
        for row in typed(block.text) if block.runs or (block.fresh and "fresh" in marks) else ():
            print(row)


if __name__ == "__main__":
    main(*sys.argv[1:4])
