# SPDX-License-Identifier: BSD-3-Clause
"""The guest's shell (guest.SHELL), a line at a time. What runs in the background keeps its output
in a file of its own."""


class Shell:
    def __init__(self, stream):
        self.stream = stream
        line = stream.readline().strip()
        if line != "ok ready":
            raise RuntimeError(f"the guest says '{line}'")

    def run(self, line):
        """(how it ended, what it said)"""
        self.stream.write(line + "\n")
        self.stream.flush()
        text = []
        for answer in self.stream:
            if answer.startswith("ended "):
                return int(answer.split()[1]), "".join(text)
            text.append(answer)
        raise RuntimeError(f"the guest went during '{line}'")

    def get(self, line):
        code, text = self.run(line)
        if code != 0:
            raise RuntimeError(f"in the guest '{line}' ended with {code}: {text}")
        return text

    def wait(self, process, seconds):
        """Until a background process is over, or the time is: a program may hang in the kernel."""
        for _ in range(seconds):
            if self.run(f"kill -0 {process} && sleep 1")[0] != 0:
                return

    def try_until(self, line, seconds):
        """Repeats it until it succeeds, or the time is over."""
        return self.run(f"for i in $(seq {seconds * 10}); do {line} && break; usleep 100000; done; {line}")

    def until(self, line, seconds=30):
        """The same of what has to succeed."""
        code, text = self.try_until(line, seconds)
        if code != 0:
            raise RuntimeError(f"in the guest '{line}' ended with {code}: {text}")
