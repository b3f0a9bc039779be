# SPDX-License-Identifier: BSD-3-Clause
"""One end of the oracle's pair: a peer program (peer.cc), asked in lines."""


def pattern(size, seed):
    """What a peer fills a region with."""
    return bytearray(((i * 7) ^ (i >> 8) ^ (seed * 37)) & 255 for i in range(size))


class End:
    """A peer program: lines to it, answers from it."""

    def __init__(self, name, stream_in, stream_out, gid):
        self.name, self.input, self.output, self.gid = name, stream_in, stream_out, gid

    def ask(self, line):
        """(error number, {key: value} or the words of the answer)"""
        self.input.write(line + "\n")
        self.input.flush()
        answer = self.output.readline().split()
        if not answer or answer[0] == "error:" or answer[0] not in ("ok", "error"):
            raise RuntimeError(f"{self.name}: '{line}' was answered by {answer}")
        if answer[0] == "error":
            return int(answer[1]), []
        return 0, answer[1:]

    def get(self, line):
        code, words = self.ask(line)
        if code:
            raise RuntimeError(f"{self.name}: '{line}' ended with error {code}")
        return {k: int(v, 0) for k, v in (w.split("=", 1) for w in words if "=" in w)}
