#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Draws doc/picture.svg from doc/picture.txt, so that the picture can be read and compared as text.

Usage: check_picture.py ROOT [--write]     compares, or draws it anew

A line of the text is a box or an arrow; its head says how they are written."""

import os
import shlex
import sys
from xml.sax.saxutils import escape

CELL, ROW, EDGE = 56, 26, 12     # pixels of a column, of a row, around the picture
COLOURS = {"kilim": "#dfe8f6", "hot": "#f7dcc4", "device": "#dcefdc", "other": "#eeeeee",
           "card": "#ffffff"}
HEAD = ('<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}" '
        'font-family="sans-serif" font-size="13">\n'
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>\n'
        '<rect width="100%" height="100%" fill="white"/>\n')


def place(column, row):
    return EDGE + int(column) * CELL, EDGE + int(row) * ROW


def text(x, y, words, size):
    return (f'<text x="{x}" y="{y}" text-anchor="middle" font-size="{size}">{escape(words)}</text>\n'
            if words else "")


def box(column, row, width, height, kind, name, *more):
    x, y = place(column, row)
    w, h = int(width) * CELL, int(height) * ROW
    dashes = ' stroke-dasharray="4"' if kind == "card" else ""
    out = (f'<rect x="{x}" y="{y}" width="{w - 4}" height="{h - 4}" rx="4" fill="{COLOURS[kind]}" '
           f'stroke="#555"{dashes}/>\n')
    top = y + (h - 4) // 2 + 5 - 8 * len(more)
    out += text(x + w // 2, top, name, 14)
    return out + "".join(text(x + w // 2, top + 16 * n, words, 11) for n, words in enumerate(more, 1))


def arrow(column, row, to_column, to_row, words=""):
    (x, y), (to_x, to_y) = place(column, row), place(to_column, to_row)
    out = (f'<line x1="{x}" y1="{y - 4}" x2="{to_x}" y2="{to_y - 1}" stroke="black" '
           'marker-end="url(#tip)"/>\n')
    return out + text((x + to_x) // 2 + 46, (y + to_y) // 2 + 2, words, 11)


def draw(lines):
    """The SVG of these lines. ValueError names a line that is neither box nor arrow."""
    out, right, bottom = "", 0, 0
    for n, line in enumerate(lines, 1):
        words = shlex.split(line, comments=True)
        if not words:
            continue
        try:
            out += {"box": box, "arrow": arrow}[words[0]](*words[1:])
        except (KeyError, TypeError, ValueError) as why:
            raise ValueError(f"line {n}: no box and no arrow: {why}") from why
        if words[0] == "box":
            right = max(right, int(words[1]) + int(words[3]))
            bottom = max(bottom, int(words[2]) + int(words[4]))
    return HEAD.format(*(end + EDGE for end in place(right, bottom))) + out + "</svg>\n"


def main(arguments):
    text_of, picture = (os.path.join(arguments[0], "doc", name) for name in ("picture.txt", "picture.svg"))
    try:
        with open(text_of, encoding="utf-8") as f:
            drawn = draw(f)
    except ValueError as why:
        print(f"doc/picture.txt: {why}")
        return 1
    if "--write" in arguments:
        with open(picture, "w", encoding="utf-8") as f:
            f.write(drawn)
        return 0
    with open(picture, encoding="utf-8") as f:
        if f.read() == drawn:
            return 0
    print("doc/picture.svg: not what doc/picture.txt says: run test/style/check_picture.py . --write")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
