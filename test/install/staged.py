# SPDX-License-Identifier: BSD-3-Clause
"""An installation in a folder of its own, and compilers that know nothing of this tree."""

import glob
import json
import os
import re
import shlex
import subprocess


def run(*words, seconds=300, **more):
    """What it said; a failure is an AssertionError with that."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          stdin=subprocess.DEVNULL, timeout=seconds, **more)
    assert done.returncode == 0, f"{shlex.join(words)}: {done.returncode}\n{done.stdout[-4000:]}"
    return done.stdout


class Staged:
    def __init__(self, build, folder):
        self.folder = folder
        run("meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", folder)
        options = {o["name"]: o["value"] for o in json.loads(run("meson", "introspect", build, "--buildoptions"))}
        self.prefix = folder + options["prefix"]
        self.libdir = os.path.join(self.prefix, options["libdir"])
        self.bindir = os.path.join(self.prefix, options["bindir"])
        for path in glob.glob(os.path.join(self.libdir, "pkgconfig/*.pc")):   # DESTDIR moves the prefix too
            with open(path, encoding="utf-8") as f:
                text = f.read()
            with open(path, "w", encoding="utf-8") as f:
                f.write(re.sub(r"(?m)^prefix=.*$", lambda m: "prefix=" + self.prefix, text))
        self.plugin = next(iter(glob.glob(f"{folder}/**/librte_net_kilim.so", recursive=True)), None)
        self.env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.libdir, "pkgconfig"),
                    "LD_LIBRARY_PATH": self.libdir, "KILIM_VHCA_MEMLOCK": "ignore", "XDG_RUNTIME_DIR": folder}

    def flags(self, what, package):
        return run("pkg-config", what, package, env=self.env).split()

    def compile(self, compiler, source, to, package, *more):
        """Without a warning, from DPDK's headers either, whatever the prefix is."""
        said = run(*compiler, *more, *self.flags("--cflags", package), "-c", source, "-o", to)
        assert "warning" not in said, said
        return to

    def check(self, compiler, source, package):
        """It compiles, with no warning; nothing is written."""
        said = run(*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror",
                   *self.flags("--cflags", package), source)
        assert not said, said

    def link(self, compiler, source, to, package, *more):
        run(*compiler, source, "-o", to, *more, *self.flags("--libs", package), env=self.env)
        return to

    def run(self, *words, **more):
        return run(*words, env=self.env, **more)
