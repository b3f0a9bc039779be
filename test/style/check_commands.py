#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs, scripts, tests, suites and options that the documents' commands name exist.

Usage: check_commands.py ROOT BUILD        prints `file:line: what`, exits 1 where something is missing
       check_commands.py ROOT BUILD run    runs the blocks that begin with ```sh run, in a folder of links
       check_commands.py --selftest"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import commands

SECONDS = 100   # that a block may take
# Before `--` these take EAL's options, which kilim-testpmd --help prints with its own.
EAL_PROGRAMS = ("kilim-testpmd", "kilim-perf", "01_forward", "10_eal_memory", "11_router", "12_switch",
                "13_udp_echo", "14_two_workers", "15_l2fwd")
# Programs of other people that a reader may have to install, what README installs or makes, and the shell's own words.
FOREIGN = {"perf", "valgrind", "ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "cd", "wait", "sudo", "mkdir",
           "./your-program", "./gather", "kilim-vhca", "qemu-system-x86_64"}
OPTION = re.compile(r"^(--[a-zA-Z][\w-]*|-[a-zA-Z])(=.*)?$")


class Tree:
    """What there is to be named: of the build folder, and by --help of each program."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.programs = {os.path.relpath(name, build) for target in self.introspect("--targets")
                         for name in target["filename"]}
        tests = self.introspect("--tests")
        self.tests = {test["name"] for test in tests}
        self.suites = {suite.split(":")[-1] for test in tests for suite in test["suite"]} | self.written_suites()
        self.quick = set(self.first_built())
        self.settings = {option["name"] for option in self.introspect("--buildoptions")}
        self.helps = {}

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", self.build, what], capture_output=True, text=True,
                                         check=True).stdout)

    def first_built(self):
        """What usertools/quickstart.sh builds (app/meson.build, `programs`)."""
        said = [subprocess.run(["ninja", "-C", self.build, "-t", what, "programs"], capture_output=True, text=True,
                               check=True).stdout for what in ("query", "inputs")]   # a phony target is no input
        return [line.strip(" |") for line in "".join(said).splitlines()]

    def written_suites(self):
        """Some exist in a release build only."""
        found = set()
        for path in glob.glob(os.path.join(self.root, "test/**/meson.build"), recursive=True):
            with open(path, encoding="utf-8") as f:
                for row in re.findall(r"suite: (\[[^]]*\]|'[^']*')", f.read()):
                    found |= set(re.findall(r"'([^']+)'", row))
        return found

    def exists(self, path):
        if path.startswith("build/") and not path.endswith("/"):
            return path[len("build/"):] in self.programs
        path = path.removeprefix("build/")   # folders of a build are the tree's
        return os.path.exists(os.path.join(self.root, path))

    def help(self, path):
        """What the program says of itself by --help; what a script in Python has in it."""
        if path not in self.helps:
            full = os.path.join(self.build, path[6:]) if path.startswith("build/") else os.path.join(self.root, path)
            if full.endswith(".py"):
                with open(full, encoding="utf-8") as f:
                    self.helps[path] = f.read()
            else:
                done = subprocess.run([full, "--help"], capture_output=True, text=True, check=False, timeout=60,
                                      stdin=subprocess.DEVNULL)
                self.helps[path] = done.stdout + done.stderr
        return self.helps[path]


def is_ours(word):
    return re.match(r"(build|usertools|test|app|doc|examples)/", word) is not None


def names_option(text, option):
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text) is not None


def meson_faults(tree, words):
    rest = iter(words[2:])
    for word in rest:
        if word in ("-C", "-t", "--logbase"):
            next(rest, None)
        elif word == "--suite":
            suite = next(rest, "")
            if suite not in tree.suites:
                yield f"there is no suite {suite}"
        elif not word.startswith("-") and word not in tree.tests:
            yield f"there is no test {word}"


def setting_faults(tree, words):
    """Of `meson setup` and `meson configure`: -Dname=value."""
    for word in words:
        name = re.match(r"-D([^=]+)=", word)
        if name and name.group(1) not in tree.settings:
            yield f"there is no build option {name.group(1)}"


def option_faults(tree, program, words):
    """Options of our program; behind `--` of the launcher stands another command."""
    name = os.path.basename(program)
    eal = name in EAL_PROGRAMS
    for at, word in enumerate(words):
        if word == "--" and not eal:
            yield from command_faults(tree, words[at + 1:])
            return
        if word == "--":
            eal = False
        option = OPTION.match(word)
        if option is None or option.group(1) in ("--help", "-h", "--version"):
            continue
        text = tree.help("build/app/kilim-testpmd") if eal else tree.help(program)
        if not names_option(text, option.group(1)):
            yield f"{name} has no option {option.group(1)}"


def command_faults(tree, words):
    if not words or words == ["..."]:
        return
    if words[:2] == ["meson", "test"]:
        yield from meson_faults(tree, words)
        return
    if words[0] == "meson":
        yield from setting_faults(tree, words)
        return
    ours = next((at for at, word in enumerate(words) if is_ours(word)), None)
    if ours != 0 and words[0] not in FOREIGN and not os.path.exists(words[0]) and shutil.which(words[0]) is None:
        yield f"there is no program {words[0]}"
    if ours is None:
        return
    program = words[ours]
    if re.search(r"[*<>A-Z]|x_ut", program.rsplit("/", 1)[-1]) and not tree.exists(program):
        return   # a pattern, not a name
    if not tree.exists(program):
        yield f"there is no {program}"
    elif not program.endswith(("/", ".c", ".cc", "_tests")):   # a test program's words are test/support/ut.hh's
        yield from option_faults(tree, program, words[ours + 1:])


def unbuilt_faults(tree, block, words):
    """A block that can be run as it stands stands behind README's first command, in a folder that it made."""
    for word in words:
        if block.runs and word.startswith("build/") and word[len("build/"):] not in tree.quick:
            yield f"README's first command does not build {word}"


def faults_of(tree, blocks):
    for block in blocks:
        try:
            for line, words in commands.commands_of(block):
                for fault in (*command_faults(tree, words), *unbuilt_faults(tree, block, words)):
                    yield f"{block.path}:{line}: {fault}"
        except ValueError as error:
            yield f"{block.path}:{block.line}: no shell reads this: {error}"


def run_block(text, folder):
    """Exit status and what it said; what it leaves behind is ended."""
    shell = subprocess.Popen(["bash", "-euc", text], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, start_new_session=True,
                             env={**os.environ, "KILIM_VHCA_MEMLOCK": "ignore", "XDG_RUNTIME_DIR": folder})
    try:
        said = shell.communicate(timeout=SECONDS)[0]
        return shell.returncode, said
    except subprocess.TimeoutExpired:
        return "none", f"no end after {SECONDS} s"
    finally:
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        shell.wait()


def run_blocks(root, build, blocks):
    """Each in a new folder that looks like the root after a build; (block, what it said) of those that failed."""
    for block in blocks:
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(root):
                if not name.startswith((".", "build")):
                    os.symlink(os.path.join(root, name), os.path.join(folder, name))
            os.symlink(build, os.path.join(folder, "build"))
            code, said = run_block(block.text, folder)
        print(f"{block.path}:{block.line}: exit status {code}")
        if code != 0:
            yield block, said[-2000:]


def main(arguments):
    if arguments[1:] == ["--selftest"]:
        import commands_selftest
        return commands_selftest.run(sys.modules[__name__])
    root, build = os.path.abspath(arguments[1]), os.path.abspath(arguments[2])
    blocks = list(commands.all_blocks(root))
    if arguments[3:] == ["run"]:
        runnable = [b for b in blocks if b.runs]
        failed = list(run_blocks(root, build, runnable))
        for block, said in failed:
            print(f"{block.path}:{block.line}: failed\n{said}")
        print(f"{len(runnable)} blocks run, {len(failed)} failed")
        return 1 if failed or not runnable else 0
    faults = list(faults_of(Tree(root, build), blocks))
    print("\n".join(faults))
    print(f"{len(blocks)} blocks and spans, {len(faults)} faults")
    return 1 if faults or not blocks else 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv))
