# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests of one module of rdma-core's suite in this process. Usage, under kilim-vhca:
module.py RESULTS JOURNAL SEED ID...

A line goes to the file RESULTS when a test starts and when it ends: id, how, what it said, and what
the device's journal in the file JOURNAL shows of it. A test that takes the process with it is known
by its missing end."""

import json
import os
import random
import sys
import unittest

import work


class Recorder(unittest.TestResult):
    def __init__(self, path, journal, seed):
        super().__init__()
        self.out, self.seed = open(path, "a", encoding="utf-8"), seed
        self.journal, self.begin = journal, 0

    def say(self, test, how, why="", seen=None):
        self.out.write(json.dumps([test.id(), how, why, seen or {}]) + "\n")
        self.out.flush()

    def written(self):
        """Lines of the journal since the test began."""
        try:
            with open(self.journal, "rb") as f:
                f.seek(self.begin)
                return f.read().splitlines()
        except FileNotFoundError:
            return []             # nobody has opened the device

    def startTest(self, test):
        super().startTest(test)
        random.seed(self.seed)
        self.begin = os.path.getsize(self.journal) if os.path.exists(self.journal) else 0
        self.say(test, "started")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say(test, "pass", seen=work.summary(self.written()))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(test, "fail", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.say(test, "error", self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.say(test, "fail", self._exc_info_to_string(err, test))


def main(results, journal, seed, ids):
    from args_parser import parser   # of the suite; its tests read what it parsed
    sys.argv[1:] = []
    parser.parse_args()
    unittest.defaultTestLoader.loadTestsFromNames(ids).run(
        Recorder(results, journal, int(seed)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
