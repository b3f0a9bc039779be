# SPDX-License-Identifier: BSD-3-Clause
"""Reads C++ sources for the style checks: the project's files, text without comments and strings,
and the functions of a file with their lines. Not a compiler: it relies on clang-format's layout
only where it must, and never runs what it reads."""

import os
import re

CODE = (".cc", ".hh", ".h", ".c")
SKIP_FOLDERS = {".git", "subprojects", "__pycache__", ".mesonpy"}


def project_files(root, suffixes=None, folders=None):
    """Paths below `root` (relative, sorted), without build folders and hidden ones but .ci."""
    found = []
    for folder, names, files in os.walk(root):
        top = os.path.relpath(folder, root)
        names[:] = sorted(n for n in names if n not in SKIP_FOLDERS and not
                          (top == "." and (n.startswith("build") or
                                           (n.startswith(".") and n != ".ci"))))
        for name in sorted(files):
            path = os.path.normpath(os.path.join(top, name))
            if suffixes and not name.endswith(suffixes):
                continue
            if folders and path.split(os.sep)[0] not in folders:
                continue
            found.append(path)
    return found


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as f:
        return f.read()


_NOISE = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n]){1,8}\'|'
                    r'//[^\n]*|/\*.*?\*/', re.S)


def blank(text, keep_includes=False, literal=" "):
    """The text with comments replaced by spaces and literals by `literal`; lines keep their numbers."""
    def cover(m):
        s = m.group(0)
        if keep_includes and s[0] == '"':
            return s
        cover_by = " " if s[0] == "/" else literal
        return "".join(c if c == "\n" else cover_by for c in s)
    return _NOISE.sub(cover, text)


def opening_comment(text):
    """Lines of the comment behind the SPDX line, without their slashes."""
    lines = []
    for line in text.splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return lines


class Function:
    """One function body: its name, first and last line, text, and whether a class hides it."""

    def __init__(self, name, first, last, body, private):
        self.name, self.first, self.last = name, first, last
        self.body, self.private = body, private


_SCOPE = re.compile(r"^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(namespace|extern|class|struct|union|enum)\b",
                    re.S)
_NAME = re.compile(r"(~?\w+|operator\s*[^\s(]+|operator\s*\(\))\s*\($")


def _function_name(head):
    """The name before the first parenthesis that opens at depth 0 and is not a decoration."""
    depth = 0
    for i, c in enumerate(head):
        if c == "(":
            if depth == 0:
                m = _NAME.search(head[:i + 1])
                if m and m.group(1) not in ("requires", "noexcept", "alignas", "decltype",
                                            "__attribute__", "if", "for", "while", "switch"):
                    return m.group(1)
            depth += 1
        elif c == ")":
            depth -= 1
    return None


def functions(text):
    """Every function with a body outside other functions. Preprocessor lines are left out."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)),
                  blank(text), flags=re.M)
    found, stack, start = [], [], 0   # stack: (kind, name, line, offset, private now)
    line_at = [m.start() for m in re.finditer("\n", code)]

    def line(offset):
        import bisect
        return bisect.bisect_left(line_at, offset) + 1

    for m in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", code):
        token, at = m.group(0), m.start()
        if token[0] == "p" and stack and stack[-1][0] == "class":
            stack[-1][4] = not token.startswith("public")
            start = m.end()
        elif token == ";":
            start = m.end()
        elif token == "{":
            head = code[start:at]
            inside = stack and stack[-1][0] in ("function", "other")
            scope = None if inside else _SCOPE.match(head)
            if scope and scope.group(1) in ("namespace", "extern") and "(" not in head:
                stack.append(["namespace", "", 0, at, False])
            elif scope and "(" not in re.sub(r"alignas\s*\([^)]*\)|\[\[.*?\]\]", "", head):
                kind = "other" if scope.group(1) == "enum" else "class"
                stack.append([kind, "", 0, at, scope.group(1) == "class"])
            else:
                name = None if inside else _function_name(head)
                if name and not re.search(r"=\s*$", head):
                    first = line(start + len(head) - len(head.lstrip()))
                    stack.append(["function", name, first, at, False])
                else:
                    stack.append(["other", "", 0, at, False])
            start = m.end()
        elif token == "}" and stack:
            kind, name, first, offset, _ = stack.pop()
            if kind == "function":
                hidden = any(s[4] for s in stack)
                found.append(Function(name, first, line(at), code[offset:at + 1], hidden))
            start = m.end()
    return found
