#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""usertools/pcap_file.py compare: what is no pcap file, or has no end, is a sentence. Usage:
run_pcap_file.py SOURCE_ROOT"""

import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.abspath(sys.argv[1]), "usertools", "pcap_file.py")


def run(*words):
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, timeout=20,
                          check=False)


class PcapFile(unittest.TestCase):
    def test_refused(self):
        """a folder, a device, a pipe, a file that is only long, and a frame that claims a gigabyte"""
        with tempfile.TemporaryDirectory() as folder:
            good, pipe, long, claims = (os.path.join(folder, n) for n in ("good", "pipe", "long", "claims"))
            self.assertEqual(run("make", good, "10").returncode, 0)
            os.mkfifo(pipe)
            with open(long, "wb") as f:
                f.truncate(1 << 42)
            with open(good, "rb") as f:
                bytes_of = bytearray(f.read())
            bytes_of[32:36] = (1 << 30).to_bytes(4, "little")
            with open(claims, "wb") as f:
                f.write(bytes_of)
            self.assertIn("10 frames arrived", run("compare", good, good).stdout)
            for path, why in ((folder, "directory"), ("/dev/zero", "no regular file"), (pipe, "no regular file"),
                              (long, "longer than"), (claims, "a frame of"), (folder + "/none", "No such file")):
                with self.subTest(path=os.path.basename(path)):
                    done = run("compare", path, good)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(why, done.stderr)
                    self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
