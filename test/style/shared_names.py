# SPDX-License-Identifier: BSD-3-Clause
"""What a source shares with the others of its program: types, inline functions and inline variables outside of
unnamed namespaces. The linker keeps one of each name and says nothing when two files mean different things by it."""

import re

NAMESPACE = re.compile(r"(?:inline )?namespace ?([\w:]*) ?\{(?!.*\})")
TYPE = re.compile(r"(?:template <.*> ?)?(?:struct|class|union|enum class|enum) (?:alignas\(\S*\) )?(\w+)[^;]*\{")
INLINE = re.compile(r"inline (?:constexpr |const )*(?!namespace)(.*)", re.S)


def statements(text):
    """(line, namespaces, statement) of each one that begins in column 0 outside of unnamed namespaces."""
    spaces, begun, at = [], [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if begun:
            begun.append(line)
        elif (opened := NAMESPACE.match(line)):
            spaces.append(opened.group(1))
            continue
        elif spaces and line.startswith("}  // namespace"):
            spaces.pop()
            continue
        elif "" not in spaces and (TYPE.match(line) or INLINE.match(line)):
            begun, at = [line], number
        if begun and (line.startswith("}") or line.endswith(";") and not begun[0].endswith("{")
                      or len(begun) == 1 and line.endswith("}")):
            yield at, "::".join(spaces), "\n".join(begun)
            begun = []


def flat(text):
    """The text without what stands in brackets."""
    last = None
    while text != last:
        last, text = text, re.sub(r"\{[^{}]*\}|\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>", " ", text)
    return text


def names_of(statement):
    """A type's name, a function's with its parameters, or the names of variables."""
    named = TYPE.match(statement)
    if named:
        return [named.group(1)]
    rest = INLINE.match(statement).group(1)
    head = re.split(r"[={]", rest, maxsplit=1)[0]
    if "(" in head:
        return [re.sub(r"\s+", " ", re.search(r"[\w~]+\(.*|operator.*", head, re.S).group(0)).strip()]
    return [part.split("=")[0].split()[-1] for part in flat(rest).rstrip(";").split(",") if part.split("=")[0].split()]


def shared_names(text):
    """(line, name with its namespaces, how it is defined) of all of them."""
    for line, space, statement in statements(text):
        for name in names_of(statement):
            yield line, f"{space}::{name}", re.sub(r"\s+", " ", statement)
