# SPDX-License-Identifier: BSD-3-Clause
"""A program at testpmd's prompt: lines go in, and what it says is waited for, never for a time. No test."""

import os
import re
import select
import subprocess
import time

PROMPT = "testpmd> "


class Session:
    """A program that `words` start, to end within `seconds`."""

    def __init__(self, words, folder, seconds, errors=subprocess.STDOUT):
        self.end = time.monotonic() + seconds
        self.text = ""  # that came and is not looked at
        self.log = ""   # all before it
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, cwd=folder)

    def write(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def more(self, missing):
        left = self.end - time.monotonic()
        assert left > 0, f"{missing}: {(self.log + self.text)[-3000:]}"
        ready, _, _ = select.select([self.process.stdout], [], [], left)
        if not ready:
            return
        more = os.read(self.process.stdout.fileno(), 65536).decode(errors="replace")
        assert more, f"it ended: {(self.log + self.text)[-3000:]}"
        self.text += more.replace("\r", "")

    def read(self):
        """What comes up to the next prompt."""
        while PROMPT not in self.text:
            self.more("no prompt")
        got, self.text = self.text.split(PROMPT, 1)
        self.log += got + PROMPT
        return got

    def say(self, line):
        self.write(line)
        return self.read()

    def seen(self, pattern, count=1):
        """Waits for the pattern, so often, in what is not looked at; what is behind it stays so."""
        while len(found := list(re.finditer(pattern, self.text))) < count:
            self.more(f"{pattern} not {count} times")
        end = found[count - 1].end()
        self.log, self.text = self.log + self.text[:end], self.text[end:]

    def rest(self):
        """What it says until it ends; no further lines come for it."""
        out, _ = self.process.communicate(timeout=max(self.end - time.monotonic(), 1))
        return self.text + out.decode(errors="replace").replace("\r", "")

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
