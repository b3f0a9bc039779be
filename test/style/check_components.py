#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Meson's option `components`: what is asked for is made and nothing else, and where the device cannot be built the
rest goes without it, with a word.

Usage: check_components.py ROOT

Configures folders and builds nothing. The machine that has no device is this one under another name (a cross file)."""

import json
import os
import subprocess
import sys
import tempfile

OTHER = """[binaries]
c = 'cc'
cpp = 'c++'
ar = 'ar'
strip = 'strip'
pkgconfig = 'pkg-config'
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
[properties]
needs_exe_wrapper = true
"""
LEFT_OUT = "component vhca is left out: this is linux on aarch64"
# Options, whether the machine is the other one; then a part of what is said where it is refused, or None, and of the
# programs and libraries those that are made and those that are not.
CASES = (
    (["-Dcomponents=vhca"], False, None, {"kilim-vhca", "kilim_vhca"}, {"kilim", "kilim-testpmd", "kilim-perf", "kilim_mem"}),
    (["-Dcomponents=library,apps"], False, None, {"kilim", "kilim-testpmd", "kilim-perf"}, {"kilim-vhca", "kilim_vhca_apart"}),
    (["-Dcomponents=vhca,library"], False, None, {"kilim", "kilim-vhca"}, {"kilim-testpmd", "kilim-perf"}),
    (["-Dcomponents=vhca,apps"], False, "-Dcomponents=vhca,apps,library", set(), set()),
    ([], True, None, {"kilim", "kilim-testpmd", "kilim-perf"}, {"kilim-vhca", "kilim_vhca_apart"}),
    (["-Dcomponents=vhca"], True, "component vhca cannot be built here: this is linux on aarch64", set(), set()),
)


def faults_of(root, folder, case):
    options, elsewhere, refusal, made, not_made = case
    build = os.path.join(folder, "build")
    words = ["meson", "setup", build, root, "-Dtests=false", *options]
    done = subprocess.run([*words, *(["--cross-file", os.path.join(folder, "other.ini")] if elsewhere else [])],
                          capture_output=True, text=True, check=False)
    if refusal is not None:
        if done.returncode == 0 or refusal not in done.stdout:
            yield f"it is not refused with '{refusal}': {done.stdout[-300:]}"
        return
    if done.returncode != 0:
        yield done.stdout[-600:]
        return
    if (LEFT_OUT in done.stdout) != elsewhere:
        yield f"'{LEFT_OUT}' is {'not ' if elsewhere else ''}said"
    named = {target["name"] for target in json.loads(subprocess.run(
        ["meson", "introspect", build, "--targets"], capture_output=True, text=True, check=True).stdout)}
    yield from (f"{name} is missing" for name in sorted(made - named))
    yield from (f"{name} is there" for name in sorted(not_made & named))


def main(root):
    faults = 0
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "other.ini"), "w", encoding="utf-8") as f:
                f.write(OTHER)
            for fault in faults_of(root, folder, case):
                print(f"meson_options.txt:1: {' '.join(case[0])}{' elsewhere' if case[1] else ''}: {fault}")
                faults += 1
    print(f"{len(CASES)} choices, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
