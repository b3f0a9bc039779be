#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What README's first command configures is content with the packages that it installs.

Usage: check_packages.py ROOT [KIND,... [OPTION...]]

Shows pkg-config the files of the packages of kinds build and run, or of these (usertools/packages.txt), and of what
they depend on, no others, and configures a folder as usertools/quickstart.sh does, or with these options of Meson.
A machine on which everything is installed would not notice a dependency that a bare one lacks. That the others are
hidden is seen where the packages of kind device do not do for the quickstart's options."""

import os
import re
import subprocess
import sys
import tempfile

KINDS = "build,run"


def said(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more).stdout


def wanted(root, kinds):
    with open(os.path.join(root, "usertools/packages.txt"), encoding="utf-8") as f:
        rows = [line.split()[:2] for line in f if line.strip() and not line.startswith("#")]
    return [name for kind, name in rows if kind in kinds.split(",")]


def with_dependencies(packages):
    """The packages that apt would install for these, as far as they are installed here."""
    out = said("apt-cache", "depends", "--recurse", "--installed", "--no-recommends", "--no-suggests", "--no-conflicts",
               "--no-breaks", "--no-replaces", "--no-enhances", *packages)
    return sorted({line.split(":")[0] for line in out.splitlines() if re.match(r"[a-z0-9]", line)})


def pc_files(packages):
    names = [line.split()[0] for line in said("dpkg-query", "-W", "-f", "${binary:Package} ${db:Status-Status}\\n").splitlines()
             if line.endswith(" installed") and line.split()[0].split(":")[0] in packages]
    return sorted({path for path in said("dpkg", "-L", *names).splitlines() if path.endswith(".pc")})


def own_options(root):
    """The options with which the quickstart makes build/."""
    with open(os.path.join(root, "usertools/quickstart.sh"), encoding="utf-8") as f:
        call = re.search(r'configure "\$ROOT/build" ([^|]*)', f.read())
    return [word.removeprefix("new:") for word in call.group(1).split()]


def configured(root, shown, options):
    with tempfile.TemporaryDirectory() as folder:
        packages = os.path.join(folder, "pkgconfig")
        os.mkdir(packages)
        for path in shown:
            os.symlink(path, os.path.join(packages, os.path.basename(path)))
        return subprocess.run(["meson", "setup", os.path.join(folder, "build"), root, *options], capture_output=True,
                              text=True, check=False, env={**os.environ, "PKG_CONFIG_LIBDIR": packages})


def main(root, kinds=KINDS, options=()):
    shown = pc_files(set(with_dependencies(wanted(root, kinds))))
    options = options or own_options(root)
    done = configured(root, shown, options)
    print(f"{len(shown)} files of pkg-config, meson setup {' '.join(options)}")
    if done.returncode != 0 or not shown:
        print(done.stdout[-1500:], done.stderr[-500:])
        return 1
    if kinds == "device" and "libdpdk" not in configured(root, shown, own_options(root)).stdout:
        print("a build of everything is content with these packages too: the others are not hidden")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if sys.argv[2:] else KINDS, sys.argv[3:]))
