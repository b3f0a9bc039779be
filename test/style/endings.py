# SPDX-License-Identifier: BSD-3-Clause
"""What may not depend on another process's good will: a map of a file whose length nobody keeps
(the next touch is a SIGBUS), and a wait that has no end and does not say until when. Called by
check_layers.py for lib, drivers and app."""

import re

import source

FOLDERS = ("lib/", "drivers/", "app/")
# The call by number itself, with a client's own arguments.
WRAPPER = "drivers/vhca/entry/raw.hh"
MAP = re.compile(r"(?:(?<!\w)::mmap(?:64)?\s*\(|\braw::map\s*\(|\bSYS_mmap,)[^;]*")
# What a client maps: a file of its own, or what the device made for it.
CLIENTS = re.compile(r"\bfd, offset\b|\bmapping\.map_fd\b")
# All its blocks are there, or it is sealed memory.
KEPT = re.compile(r"\b(sealed_memory|is_sealed_memory|(?:posix_)?fallocate)\s*\(")
ENDLESS = (
    (re.compile(r"\bpoll\s*\([^;{}]*,\s*-1\s*\)"), "poll()"),
    (re.compile(r"\bppoll\s*\([^;{}]*(?:\?\s*nullptr\s*:|,\s*nullptr\s*,\s*nullptr\s*\))"),
     "ppoll()"),
    (re.compile(r"\bepoll_p?wait2?\s*\([^;{}]*,\s*-1\s*[,)]"), "epoll_wait()"),
    (re.compile(r"\bflock\s*\([^;{}]*?,\s*LOCK_(?:EX|SH)\s*\)"), "flock()"),
    (re.compile(r"\bF_(?:OFD_)?SETLKW\b"), "fcntl()"),
    (re.compile(r"\b(pthread_join|sem_wait|sigwait|sigwaitinfo|pthread_cond_wait)\s*\("), ""),
    (re.compile(r"\bwaitpid\s*\([^;{}]*,\s*0\s*\)"), "waitpid()"),
    (re.compile(r"(?:\.|->)join\s*\(\s*\)"), "join()"),
)
UNTIL = re.compile(r"//.*\buntil\b", re.IGNORECASE)


def _line(text, offset):
    return text.count("\n", 0, offset) + 1


def _said(lines, functions, number):
    """Whether a comment between the begin of the function's own and this line says `until`."""
    inside = [f for f in functions if f.first <= number <= f.last]
    first = inside[-1].first if inside else number
    while first > 1 and lines[first - 2].lstrip().startswith("//"):
        first -= 1
    return any(UNTIL.search(line) for line in lines[first - 1:number])


def check(path, text):
    """[(line, what)]"""
    if not path.startswith(FOLDERS) or path == WRAPPER:
        return []
    code, lines, found = source.blank(text), text.splitlines(), []
    for m in MAP.finditer(code):
        if "MAP_ANONYMOUS" not in m.group(0) and not KEPT.search(code) and \
                not CLIENTS.search(m.group(0)):
            found.append((_line(code, m.start()), "a map of a file whose length nobody "
                          "keeps: sealed_memory(), or fallocate() before it"))
    functions = source.functions(text)
    for pattern, name in ENDLESS:
        for m in pattern.finditer(code):
            number = _line(code, m.start())
            if not _said(lines, functions, number):
                found.append((number, f"{name or m.group(1) + '()'} without an end: say in a "
                              "comment until when, or give it one"))
    return found
