# SPDX-License-Identifier: BSD-3-Clause
"""A device room's names stand in its own namespace (ADR 0112). Of another room's a file may only declare types
that it names by pointer or reference."""

import re

OPENED = re.compile(r"^namespace kilim::vhca((?:::\w+)*) \{$(.*?)^\}", re.M | re.S)
FORWARD = re.compile(r"(class|struct|enum class) \w+( : \w+)?;")


def namespace_of(path):
    """The namespace that a file of the device defines its names in, behind kilim::vhca; None: the rule is not for it."""
    parts = path.split("/")
    if parts[:2] != ["drivers", "vhca"] or len(parts) < 4:
        return None
    return "" if parts[2] == "core" else "::" + parts[2]


def check(path, code):
    """(line, what) of each fault; the code without comments."""
    own = namespace_of(path)
    for m in OPENED.finditer(code) if own is not None else ():
        strangers = [line for line in m.group(2).split("\n") if line.strip() and not FORWARD.fullmatch(line.strip())]
        if strangers and m.group(1) != own and not m.group(1).startswith(own + "::"):
            yield code.count("\n", 0, m.start()) + 1, f"names of this room stand in namespace kilim::vhca{own}"
