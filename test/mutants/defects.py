# SPDX-License-Identifier: BSD-3-Clause
"""All small defects that a source could have, by kind: what lot.py draws from.

A source is read by clang's syntax tree (Debian's python3-clang), as its own compile command says. Where that
is not possible, patterns of its text give fewer kinds, and the caller is told. A defect is a replacement of
some bytes that leaves the number of lines; whether it compiles is found out by compiling it."""

import bisect
import collections
import errno
import re
import sys

try:
    sys.path.append("/usr/lib/python3/dist-packages")   # where Debian's lies, whichever python3 this is
    from clang import cindex
    from clang.cindex import CursorKind as Kind
except ImportError:
    cindex = Kind = None

Defect = collections.namedtuple("Defect", "file line kind begin end was now")

# Calls that no test on this machine can miss, or that are no behaviour.
SPARED = re.compile(r"fence|barrier|prefetch|doorbell|ring_|unlock|lock\b|count|journal|trace|assert|reserve|"
                    r"yield|pause|relax|sleep|printf|perror|advise")
SKIPPED_LINES = re.compile(r"KILIM_ASSERT|static_assert|^\s*#|^\s*//")
ERRNO = re.compile(r"\b(?:%s)\b" % "|".join(sorted(set(errno.errorcode.values()), key=len, reverse=True)))
COMPARES = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
EQUALS = {"==": "!=", "!=": "=="}
JOINS = {"&&": "||", "||": "&&"}
LEAVES = ("return", "continue", "break")


def defects_of(path, name, arguments):
    """The defects of the source at `path`, which they call `name`, and whether clang has read it."""
    with open(path, encoding="utf-8") as f:
        text = f.read()
    reader = Reader(name, text)
    if cindex is not None and parse(path, arguments, reader):
        return reader.sorted(), True
    reader.found.clear()
    by_text(reader)
    return reader.sorted(), False


def parse(path, arguments, reader):
    try:
        unit = cindex.Index.create().parse(path, arguments)
    except cindex.TranslationUnitLoadError:
        return False
    if any(d.severity >= cindex.Diagnostic.Error for d in unit.diagnostics):
        return False
    tree = Tree(path, reader)
    for top in unit.cursor.get_children():
        if top.location.file is not None and top.location.file.name == path:
            tree.visit(top, None, False)
    return True


class Reader:
    """The text and what was found in it."""

    def __init__(self, name, text):
        self.name, self.text, self.found = name, text, set()
        self.bytes = text.encode()
        self.starts = [0] + [i + 1 for i, c in enumerate(self.bytes) if c == 10]

    def add(self, kind, begin, end, now):
        was = self.bytes[begin:end].decode(errors="replace")
        line = bisect.bisect_right(self.starts, begin)
        if now == was or self.is_skipped(line):
            return
        if (lost := was.count("\n") - now.count("\n")) > 0:
            now += "\n" * lost
        self.found.add(Defect(self.name, line, kind, begin, end, was, now))

    def is_skipped(self, line):
        end = self.starts[line] if line < len(self.starts) else len(self.bytes)
        return SKIPPED_LINES.search(self.bytes[self.starts[line - 1]:end].decode(errors="replace"))

    def slice(self, begin, end):
        return self.bytes[begin:end].decode(errors="replace")

    def sorted(self):
        return sorted(self.found)


def span(cursor):
    return cursor.extent.start.offset, cursor.extent.end.offset


def bare(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S).strip()


class Tree:
    """Goes through the syntax tree of one source."""

    def __init__(self, path, reader):
        self.path, self.reader = path, reader
        self.rows = {Kind.BINARY_OPERATOR: self.operator, Kind.IF_STMT: self.condition,
                     Kind.CONDITIONAL_OPERATOR: self.choice, Kind.CALL_EXPR: self.call,
                     Kind.RETURN_STMT: self.leaves, Kind.INTEGER_LITERAL: self.literal,
                     Kind.COMPOUND_STMT: self.statements, Kind.INIT_LIST_EXPR: self.fields,
                     Kind.CXX_BOOL_LITERAL_EXPR: self.flag}

    def visit(self, cursor, parent, inside):
        at = cursor.extent.start
        if at.file is not None and at.file.name != self.path:
            return
        inside = inside or cursor.kind in (Kind.COMPOUND_STMT, Kind.VAR_DECL, Kind.FIELD_DECL)
        if cursor.kind in (Kind.STATIC_ASSERT, Kind.TYPE_REF, Kind.TEMPLATE_REF, Kind.ENUM_DECL):
            return
        row = self.rows.get(cursor.kind)
        if inside and row is not None:
            row(cursor, parent)
        for child in cursor.get_children():
            self.visit(child, cursor, inside)

    def text(self, cursor):
        return self.reader.slice(*span(cursor))

    def operator(self, cursor, _):
        sides = list(cursor.get_children())
        if len(sides) != 2:
            return
        (first, left), (right, last) = span(sides[0]), span(sides[1])
        word = bare(self.reader.slice(left, right))
        at = self.reader.text.encode().find(word.encode(), left, right) if word else -1
        if at < 0 or not first < left <= right < last:   # from a macro
            return
        end = at + len(word)
        if word in COMPARES:
            self.reader.add("comparison", at, end, COMPARES[word])
            if is_integer(sides[1]):
                for sign in "+-":
                    self.reader.add("bound", right, last, f"({self.text(sides[1])}) {sign} 1")
        elif word in EQUALS:
            self.reader.add("negation", at, end, EQUALS[word])
        elif word in JOINS:
            self.reader.add("and or", at, end, JOINS[word])
            self.reader.add("condition dropped", first, right, "")
            self.reader.add("condition dropped", left, last, "")
        elif word in ("&", "|") and is_integer(sides[1]) and self.is_mask(sides[1]):
            self.reader.add("mask", right, last, f"(({self.text(sides[1])}) & (({self.text(sides[1])}) - 1))")

    def is_mask(self, cursor):
        return re.fullmatch(r"0x[0-9a-fA-F']+u?l*|\(?[a-z_:0-9]+ ?(?:- 1\)?)?", self.text(cursor)) is not None

    def condition(self, cursor, _):
        parts = list(cursor.get_children())
        begin, end = span(cursor)
        if len(parts) < 2 or not is_expression(parts[0]):
            return
        first, last = span(parts[0])
        if bare(self.reader.slice(begin, first)).replace(" ", "") != "if(":
            return    # an `if constexpr`, or one that says a name first
        said = self.text(parts[0])
        self.reader.add("negation", first, last, f"!({said})")
        self.reader.add("condition dropped", first, last, "true")
        if len(parts) > 2 or self.last_word(parts[1]) not in LEAVES:
            self.reader.add("condition dropped", first, last, "false")
            return
        stop = ";" if parts[1].kind == Kind.COMPOUND_STMT else ""    # else it is behind the statement
        self.reader.add("early return", begin, end, f"(void)({said}){stop}")

    def last_word(self, cursor):
        if cursor.kind == Kind.COMPOUND_STMT:
            parts = list(cursor.get_children())
            return self.last_word(parts[-1]) if parts else ""
        found = re.match(r"\w+", self.text(cursor))
        return found.group(0) if found else ""

    def choice(self, cursor, _):
        parts = list(cursor.get_children())
        if len(parts) == 3 and span(parts[0])[0] == span(cursor)[0]:
            self.reader.add("negation", *span(parts[0]), f"!({self.text(parts[0])})")

    def call(self, cursor, _):
        words = [c for c in cursor.get_arguments() if c is not None]
        for a, b in zip(words, words[1:]):
            self.exchange("arguments", a, b)
        self.without_conversion(cursor, words)

    def fields(self, cursor, _):
        parts = list(cursor.get_children())
        for a, b in zip(parts, parts[1:]):
            self.exchange("fields", a, b)

    def exchange(self, kind, a, b):
        (first, left), (right, last) = span(a), span(b)
        if not first < left <= right < last or bare(self.reader.slice(left, right)) != ",":
            return
        one, other = self.text(a), self.text(b)
        if one != other and same_type(a, b) and not one.startswith("."):
            self.reader.add(kind, first, last, other + self.reader.slice(left, right) + one)

    def without_conversion(self, cursor, words):
        begin, end = span(cursor)
        said = self.text(cursor)
        if said.endswith(".host()"):
            self.reader.add("byte order", end - len("host()"), end, "raw()")
        elif (m := re.match(r"(?:::)?(?:kilim::)?(be(?:16|32|64))\{", said)) and len(words) == 1:
            self.reader.add("byte order", begin, end, f"{m.group(1)}::from_raw({self.text(words[0])})")
        elif re.match(r"(?:__builtin_bswap|rte_cpu_to_be_|rte_be_to_cpu_|swap_bytes|hton|ntoh|htobe|be)\w*\(", said) \
                and len(words) == 1:
            self.reader.add("byte order", begin, end, f"({self.text(words[0])})")

    def leaves(self, cursor, _):
        begin, end = span(cursor)
        said = self.text(cursor)
        for m in ERRNO.finditer(said):
            at = begin + len(said[:m.start()].encode())
            self.reader.add("error code", at, at + len(m.group(0)), "ENOENT" if m.group(0) == "EINVAL" else "EINVAL")
        if re.fullmatch(r"return -E[A-Z0-9]+", said):
            self.reader.add("error code dropped", begin, end, "return 0")
        for child in cursor.walk_preorder():
            if child.kind == Kind.DECL_REF_EXPR and child.referenced is not None and \
                    child.referenced.kind == Kind.ENUM_CONSTANT_DECL:
                self.other_value(child)

    def other_value(self, cursor):
        values = [c.spelling for c in cursor.referenced.semantic_parent.get_children()
                  if c.kind == Kind.ENUM_CONSTANT_DECL]
        said, name = self.text(cursor), cursor.referenced.spelling
        if len(values) > 1 and said.endswith(name):
            other = values[(values.index(name) + 1) % len(values)]
            self.reader.add("error code", *span(cursor), said[:-len(name)] + other)

    def literal(self, cursor, parent):
        said = self.text(cursor)
        m = re.fullmatch(r"(\d+)(u?l*)", said, re.I)
        if not m or parent is None or parent.kind == Kind.CASE_STMT:
            return
        number = int(m.group(1))
        for other in {number + 1, max(number - 1, 0)} - {number}:
            self.reader.add("constant", *span(cursor), f"{other}{m.group(2)}")

    def flag(self, cursor, _):
        self.reader.add("flag", *span(cursor), {"true": "false", "false": "true"}.get(self.text(cursor), "true"))

    def statements(self, cursor, _):
        """What a block does without a value: calls, increments, assignments."""
        for c in cursor.get_children():
            begin, end = span(c)
            said = self.text(c)
            if c.kind == Kind.CALL_EXPR and c.type.spelling == "void" and not SPARED.search(said.split("(")[0]):
                self.reader.add("call removed", begin, end, "")
            elif c.kind in (Kind.COMPOUND_ASSIGNMENT_OPERATOR, Kind.UNARY_OPERATOR) and \
                    re.search(r"\+\+|--|[-+|&^]=", said):
                self.reader.add("increment removed", begin, end, "")
            elif c.kind == Kind.BINARY_OPERATOR and re.match(r"[\w.>\[\]:-]+ = ", said):
                self.reader.add("assignment removed", begin, end, "")


def is_expression(cursor):
    return cursor.kind.is_expression() or cursor.kind.is_unexposed()


def is_integer(cursor):
    kind = cursor.type.get_canonical().kind
    return cindex.TypeKind.CHAR_U.value <= kind.value <= cindex.TypeKind.INT128.value


def same_type(a, b):
    one, other = inner_type(a), inner_type(b)
    return one == other and one != ""


def inner_type(cursor):
    """Before what it is converted to: an argument that is converted is of another type than it looks."""
    while cursor.kind == Kind.UNEXPOSED_EXPR:
        parts = list(cursor.get_children())
        if len(parts) != 1:
            break
        cursor = parts[0]
    return cursor.type.get_canonical().spelling.replace("const ", "")


PATTERNS = (
    ("comparison", re.compile(r"(?<=[\w)\]] )(<=?|>=?)(?= [\w(])"), lambda m: COMPARES[m.group(0)]),
    ("negation", re.compile(r"(?<= )(==|!=)(?= )"), lambda m: EQUALS[m.group(0)]),
    ("and or", re.compile(r"(?<= )(&&|\|\|)(?= )"), lambda m: JOINS[m.group(0)]),
    ("error code", ERRNO, lambda m: "ENOENT" if m.group(0) == "EINVAL" else "EINVAL"),
    ("early return", re.compile(r"(?<=  )if \([^;{}]*\) return\b[^;]*;"), lambda m: ";"),
    ("increment removed", re.compile(r"(?<=  )[\w.>\[\]-]+(?:\+\+|--| [-+|]= [^;{}]+);"), lambda m: ";"),
    ("constant", re.compile(r"(?<=[ (])\d+(?=[;,)])"), lambda m: str(int(m.group(0)) + 1)),
)


def by_text(reader):
    for kind, pattern, now in PATTERNS:
        for m in pattern.finditer(reader.text):
            if "//" in reader.text[reader.text.rfind("\n", 0, m.start()) + 1:m.start()]:
                continue
            begin, end = (len(reader.text[:i].encode()) for i in m.span())
            reader.add(kind, begin, end, now(m))
