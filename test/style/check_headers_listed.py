#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every header on disk is listed by its room's meson.build, so that it is compiled alone.

Usage: check_headers_listed.py ROOT LISTED...   prints the headers of lib, drivers and app that
                                                are not among LISTED, exits 1 if there are any;
                                                what is there for cpp_pch alone (pch/) is not asked"""

import os
import sys

import source


def main(root, listed):
    known = {os.path.realpath(p) for p in listed}
    on_disk = source.project_files(root, (".hh", ".h"), ("lib", "drivers", "app"))
    on_disk = [p for p in on_disk if os.path.basename(os.path.dirname(p)) != "pch"]
    missing = [p for p in on_disk if os.path.realpath(os.path.join(root, p)) not in known]
    for path in missing:
        print(f"{path}:1: not listed in {os.path.dirname(path)}/meson.build, so never compiled alone")
    print(f"{len(on_disk)} headers, {len(missing)} not listed")
    return 1 if missing or not on_disk else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
