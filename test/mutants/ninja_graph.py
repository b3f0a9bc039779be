# SPDX-License-Identifier: BSD-3-Clause
"""What a build folder knows of itself, asked of ninja and Meson: which objects are compiled of a file, by which
command, what is linked of them, and which tests run that. Nothing is assumed of how sources are put together."""

import collections
import json
import os
import re
import shlex
import subprocess

NODE = re.compile(r'^"(0x\w+)" \[label="([^"]*)"')
EDGE = re.compile(r'^"(0x\w+)" -> "(0x\w+)"')


def said(words, folder):
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


class Graph:
    """Of one build folder; paths are relative to it."""

    def __init__(self, build):
        self.build = build
        self.above = self.edges(said(["ninja", "-t", "graph"], build))
        self.commands = {row["output"]: row["command"] for row in json.loads(said(["ninja", "-t", "compdb"], build))
                         if row["output"].endswith(".o")}
        self.objects = self.read_by(said(["ninja", "-t", "deps"], build))
        targets = json.loads(said(["meson", "introspect", build, "--targets"], build))
        self.files = {t["id"]: [self.relative(f) for f in t["filename"]] for t in targets}
        self.tests = json.loads(said(["meson", "introspect", build, "--tests"], build))
        self.outputs = {f for files in self.files.values() for f in files}
        self.known = {}

    def relative(self, path):
        return os.path.relpath(os.path.join(self.build, path), self.build)

    @staticmethod
    def edges(text):
        """From what is an input to what is made of it. A rule with several ends is a node without a file."""
        names, ways = {}, collections.defaultdict(set)
        for line in text.splitlines():
            if m := NODE.match(line):
                names[m.group(1)] = (m.group(2), "shape=ellipse" in line)
            elif (m := EDGE.match(line)) and "style=dotted" not in line:
                ways[m.group(1)].add(m.group(2))
        above = collections.defaultdict(set)
        for node, to in ways.items():
            name, is_rule = names[node]
            if is_rule:
                continue
            for end in to:
                ends = ways[end] if names[end][1] else {end}
                above[name].update(names[e][0] for e in ends)
        return above

    def read_by(self, text):
        """Objects by the absolute path of each file that their compilation read."""
        objects, output = collections.defaultdict(set), None
        for line in text.splitlines():
            if line.startswith("    "):
                if output in self.commands:
                    objects[os.path.normpath(os.path.join(self.build, line.strip()))].add(output)
            elif ": #deps" in line:
                output = line.split(": #deps")[0]
        return objects

    def objects_of(self, path):
        return sorted(self.objects.get(path, ()))

    def made_of(self, node):
        """Everything that is linked, directly or not, of this file."""
        if node in self.known:
            return self.known[node]
        found, pending = set(), [node]
        while pending:
            for name in self.above.get(pending.pop(), ()):
                if name not in found:
                    found.add(name)
                    pending.append(name)
        self.known[node] = found
        return found

    def needs(self, test):
        """What has to be built for a test: its program, its targets, and what its command names."""
        needed = {f for target in test["depends"] for f in self.files.get(target, ())}
        for word in test["cmd"]:
            if word.startswith(self.build + "/") and self.relative(word) in self.outputs:
                needed.add(self.relative(word))
        return needed

    def arguments(self, path):
        """What clang needs to read a file as the compiler did, without what is precompiled; None: nobody knows."""
        of = self.objects_of(path)
        if not of:
            return None
        words, kept = iter(shlex.split(self.commands[of[0]])), ["-x", "c++", "-w"]
        for word in words:
            if word in ("-isystem", "-include"):
                value = next(words)
                if "/precompiled/" not in value:
                    kept += [word, os.path.join(self.build, value) if word == "-isystem" else value]
            elif word.startswith("-I"):
                kept.append("-I" + os.path.normpath(os.path.join(self.build, word[2:])))
            elif word.startswith(("-isystem", "-D", "-std=", "-march=", "-fno-exceptions", "-fno-rtti")):
                kept.append(word)
        return kept
