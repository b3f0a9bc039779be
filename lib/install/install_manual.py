#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs a manual page for each program, made of what its --help prints, so that there is one text of an option;
run by `meson install`.

Usage: install_manual.py VERSION FOLDER PROGRAM...      FOLDER: below the prefix, or absolute"""

import os
import re
import subprocess
import sys


def escaped(line):
    """As roff prints it: a hyphen that can be searched for, and no command at the line's begin."""
    line = line.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return "\\&" + line if line[:1] in (".", "\\") else line


def about(name, text):
    """The first sentence that is no usage, without the program's name in front."""
    paragraphs = [p for p in re.split(r"\n\n", text) if p.strip()]
    plain = [" ".join(line.strip() for line in p.splitlines() if not line.lower().startswith("usage:")) for p in paragraphs]
    first = next(p for p in plain if p)
    sentence = re.split(r"[.:;](?:\s|$)", first)[0].removeprefix(name).strip()
    return sentence[:1].lower() + sentence[1:]


def page(name, version, text):
    head = [f'.TH {name.upper()} 1 "" "kilim {version}" "Kilim"', ".SH NAME", f"{escaped(name)} \\- {escaped(about(name, text))}"]
    body = [".SH DESCRIPTION", ".nf", *(escaped(line.rstrip()) or ".sp" for line in text.strip().splitlines()), ".fi"]
    tail = [".SH SEE ALSO", "The guides in", ".I /usr/share/doc/kilim/doc/guides", "(package kilim\\-doc)."]
    return "\n".join(head + body + tail) + "\n"


def main(version, folder, programs):
    prefix = os.environ.get("MESON_INSTALL_DESTDIR_PREFIX", "/")
    if os.path.isabs(folder):
        prefix = os.environ.get("DESTDIR", "") + "/"
    to = os.path.join(prefix, folder.lstrip("/"))
    os.makedirs(to, exist_ok=True)
    for program in programs:
        words = [sys.executable, program] if program.endswith(".py") else [program]
        said = subprocess.run([*words, "--help"], capture_output=True, text=True, check=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
        path = os.path.join(to, os.path.basename(program) + ".1")
        with open(path, "w", encoding="utf-8") as f:
            f.write(page(os.path.basename(program), version, said.stdout or said.stderr))
        os.chmod(path, 0o644)
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    try:
        sys.exit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
    except KeyboardInterrupt:
        sys.exit(130)
