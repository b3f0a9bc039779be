#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ports of kilim-testpmd come and go by one name and with other wires: what they had is given back.
Usage: run_attach_again.py KILIM_TESTPMD"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

TESTPMD = os.path.abspath(sys.argv[1])
SECONDS = 60
ROUNDS = 50
EAL = "-l 0-1 --no-huge --no-shconf --no-pci -m 512 --no-telemetry --vdev net_kilim0,hca=vhca0"


class AttachAgain(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.folder.name, "out")
        with open(self.out, "w", encoding="utf-8") as out:
            self.program = subprocess.Popen([TESTPMD, *EAL.split(), "--", "-i"], stdin=subprocess.PIPE,
                                            stdout=out, stderr=subprocess.STDOUT, text=True)

    def tearDown(self):
        if self.program.poll() is None:
            self.program.kill()
        self.program.communicate()
        self.folder.cleanup()

    def say(self, line, answer, times):
        """Until the answer has come so often."""
        self.program.stdin.write(line + "\n")
        self.program.stdin.flush()
        end = time.monotonic() + SECONDS
        while True:
            with open(self.out, encoding="utf-8", errors="replace") as f:
                text = f.read()
            if text.count(answer) >= times:
                return
            self.assertLess(time.monotonic(), end, text[-800:])
            self.assertIsNone(self.program.poll(), text[-800:])
            time.sleep(0.02)

    def descriptors(self):
        """What each leads to, without the numbers of sockets and files."""
        folder = f"/proc/{self.program.pid}/fd"
        return sorted(re.sub(r":\[\d+\]$", "", os.readlink(f"{folder}/{fd}")) for fd in os.listdir(folder))

    def test_rounds(self):
        """a name is taken again with another wire, and no round but the first leaves a descriptor"""
        before = []
        for i in range(ROUNDS):
            wire = f"unix:{self.folder.name}/w{i % 2}"
            self.say(f"port attach net_kilim7,hca=vhca7,wire={wire}", "is attached", i + 1)
            self.assertEqual(os.listdir(f"{self.folder.name}/w{i % 2}").count("0"), 1)
            self.say("port stop 1", "Stopping ports", i + 1)
            self.say("port detach 1", "is detached", i + 1)
            self.say(f"set nbport {i}", f"set nbport {i}", 1)    # behind it, whatever is said to it
            self.assertEqual(os.listdir(f"{self.folder.name}/w{i % 2}").count("0"), 0)
            if i == 0:
                before = self.descriptors()    # what the first one made for all
        self.assertEqual(self.descriptors(), before)
        self.program.stdin.write("quit\n")
        self.program.stdin.flush()
        self.assertEqual(self.program.wait(SECONDS), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
