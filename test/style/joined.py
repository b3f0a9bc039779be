# SPDX-License-Identifier: BSD-3-Clause
"""Finds assertions of tests that join conditions by &&, and says how they are told apart: CU_ASSERT(a && b) does not
say which of the two was false. What is read only because something in front of it is true stays behind that: a
pointer's target, an optional's value, an entry of a list whose size was compared, what waits for what was begun.

Used by check_asserts.py; reads, and never writes. Not a compiler: macros' bodies are left alone."""

import re

from source import blank

ASSERTION = re.compile(r"\bCU_ASSERT(_TRUE)?(_FATAL)?\s*\(")
NAME = r"[A-Za-z_]\w*"
CHAIN = rf"{NAME}(?:(?:\.|->|::){NAME}|\[[^\[\]]*\]|\(\))*"
# Calls that would wait for something that was not begun.
WAITS = re.compile(rf"\b\w*(?:wait|poll|until|join|recv|accept|read|comes|drain|run)\w*\s*\(")


class Joined:
    """One assertion: where its statement lies in the text, and its operands."""

    def __init__(self, begin, end, line, macro, operands, bare):
        self.begin, self.end, self.line = begin, end, line
        self.macro, self.operands = macro, operands
        self.bare = bare    # it is the body of an if or a loop, without braces

    @property
    def fatal(self):
        return self.macro.endswith("_FATAL")


def closing(code, opening):
    """Where the bracket ends that opens there."""
    depth = 0
    for at in range(opening, len(code)):
        if code[at] in "([{":
            depth += 1
        elif code[at] in ")]}":
            depth -= 1
            if depth == 0:
                return at
    return -1


def unwrapped(code, begin, end):
    """The range without spaces and brackets around all of it."""
    while True:
        while begin < end and code[begin].isspace():
            begin += 1
        while end > begin and code[end - 1].isspace():
            end -= 1
        if begin < end and code[begin] == "(" and closing(code, begin) == end - 1:
            begin, end = begin + 1, end - 1
        else:
            return begin, end


def split(code, begin, end):
    """Ranges of the operands of the outermost &&; none where something binds weaker."""
    begin, end = unwrapped(code, begin, end)
    cuts, at = [], begin
    while at < end:
        c = code[at]
        if c in "([{":
            at = closing(code, at)
            if at < 0:
                return []
        elif code.startswith("&&", at):
            cuts.append(at)
            at += 1
        elif code.startswith("||", at) or c in "?,;":
            return []
        elif c == "=" and code[at - 1] not in "=!<>" and code[at + 1] != "=":
            return []
        at += 1
    if not cuts:
        return []
    found = []
    for a, b in zip([begin, *(c + 2 for c in cuts)], [*cuts, end]):
        a, b = unwrapped(code, a, b)
        found += split(code, a, b) or [(a, b)]
    return found


def in_macro(text, at):
    """Whether the line belongs to a directive."""
    begin = text.rfind("\n", 0, at) + 1
    if text[begin:at].lstrip().startswith("#"):
        return True
    before = text[:max(begin - 1, 0)]
    return before.endswith("\\")


def joined_of(text):
    """Every assertion that joins conditions, in order."""
    code, found = blank(text, literal="0"), []    # a literal at an operand's end is no space
    for m in ASSERTION.finditer(code):
        opening, begin = m.end() - 1, m.start()
        end = closing(code, opening)
        if end < 0 or in_macro(text, begin) or not code[end + 1:].lstrip().startswith(";"):
            continue
        operands = split(code, opening + 1, end)
        before = code[:begin].rstrip()
        if not operands or not before.endswith((";", "{", "}", ")", "else", ":")):
            continue
        bare = before.endswith((")", "else"))
        stop = code.index(";", end) + 1
        found.append(Joined(begin, stop, text.count("\n", 0, begin) + 1, "CU_ASSERT" + (m.group(1) or "") + (m.group(2) or ""),
                            [" ".join(text[a:b].split()) if '"' not in text[a:b] else text[a:b] for a, b in operands], bare))
    return found


def guarded_by(operand):
    """Names that may only be used where the operand is true."""
    op = blank(operand).strip()
    for pattern in (rf"({CHAIN}) != nullptr", rf"nullptr != ({CHAIN})", rf"!?({CHAIN})\.(?:ok|has_value)\(\)", rf"!?({CHAIN})",
                    rf"static_cast<bool>\(({CHAIN})\)"):
        if m := re.fullmatch(pattern, op):
            name = m.group(1)
            return {name.removesuffix(".ok()").removesuffix(".has_value()")}
    names = set(re.findall(rf"({CHAIN})\.(?:size|length)\(\)", op))
    names |= set(re.findall(rf"!({CHAIN})\.empty\(\)", op))
    names |= set(re.findall(rf"({CHAIN}) != nullptr", op))
    names |= set(re.findall(rf"({CHAIN})\.(?:ok|has_value)\(\)", op))
    return names


def uses(operand, name):
    return re.search(rf"(?<![\w.>]){re.escape(name)}(?!\w)", blank(operand)) is not None


def indexes(operand):
    """Names of lists of which the operand reads an entry."""
    op = blank(operand)
    return set(re.findall(rf"({NAME}(?:(?:\.|->){NAME})*)\[", op)) | set(re.findall(rf"({NAME}(?:(?:\.|->){NAME})*)\.(?:front|back)\(\)", op)) \
        | set(re.findall(rf"\*({NAME})", op)) | set(re.findall(rf"({NAME}(?:\.{NAME})*)->", op))


def depends(later, earlier):
    if uses(later, "errno"):    # of the call in front of it
        return True
    if any(uses(later, name) for name in guarded_by(earlier)):
        return True
    # What the earlier one reads already it does not stand in front of.
    if any(uses(earlier, name) for name in indexes(later) - indexes(earlier)):
        return True
    assigned = re.findall(rf"\(({NAME})\s*=[^=]|&({NAME})\b", blank(earlier))
    if any(uses(later, a or b) for a, b in assigned):
        return True
    return WAITS.search(blank(later)) is not None and "(" in blank(earlier)


def groups(j):
    """The operands in groups that can be asserted one behind the other: what depends stays with what it depends on."""
    if j.fatal:    # the first that is false ends the test, as && did
        return [[op] for op in j.operands]
    found = []
    for op in j.operands:
        at = next((i for i, g in enumerate(found) if any(depends(op, earlier) for earlier in g)), None)
        if at is None:
            found.append([op])
        else:
            found[at:] = [[x for g in found[at:] for x in g] + [op]]
    return found


def can_be_told_apart(j):
    return len(groups(j)) > 1
