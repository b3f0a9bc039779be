#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-testpmd --pcap into pipes and full disks: it ends when it is asked to, and its status says
that packets are missing. Usage: run_capture_ends.py KILIM_TESTPMD"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

TESTPMD = os.path.abspath(sys.argv[1])
SECONDS = 60    # of a program that should have ended
EAL = "-l 0 --no-huge --no-shconf --no-pci -m 256 --no-telemetry --vdev net_kilim0,hca=vhca0"


class CaptureEnds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.pipe = os.path.join(self.folder.name, "pipe")
        os.mkfifo(self.pipe)

    def tearDown(self):
        self.folder.cleanup()

    def begun(self, to, *more):
        return subprocess.Popen([TESTPMD, *EAL.split(), "--", "--forward-mode=txonly", *more,
                                 f"--pcap=0:{to}"], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                errors="replace")

    def ended(self, program):
        try:
            text, _ = program.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()
            raise AssertionError("it does not end") from None
        return program.returncode, text

    def stalled(self, *more):
        """One whose reader takes a first piece and then reads no more."""
        reader = threading.Thread(target=lambda: setattr(self, "end", open(self.pipe, "rb", 0)))
        reader.start()
        program = self.begun(self.pipe, *more)
        reader.join()
        self.end.read(4096)
        return program

    def test_no_reader(self):
        """a pipe that nobody reads is refused with a sentence"""
        code, text = self.ended(self.begun(self.pipe, "--duration=1"))
        self.assertEqual(code, 1, text)
        self.assertIn("start its reader first", text)

    def test_duration(self):
        """a reader that stops does not keep the program from ending in time"""
        program = self.stalled("--duration=2")
        code, text = self.ended(program)
        self.end.close()
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"capture of .* [1-9]\d* left out: the capture's file took not all")

    def test_signals(self):
        """nor by SIGINT or SIGTERM"""
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                program = self.stalled()
                time.sleep(2)
                program.send_signal(number)
                code, text = self.ended(program)
                self.end.close()
                self.assertEqual(code, 1, text)

    def test_reader_goes(self):
        """a reader that goes away ends the capture, not the program"""
        program = self.stalled("--duration=2")
        self.end.close()
        code, text = self.ended(program)
        self.assertEqual(code, 1, text)
        self.assertIn("final statistics", text)

    def test_full_disk(self):
        """what a full disk did not take is missing, and the status says so"""
        folder = os.path.join(self.folder.name, "small")
        os.mkdir(folder)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            self.skipTest("no file system can be mounted")
        try:
            code, text = self.ended(self.begun(folder + "/x.pcapng", "--duration=1"))
        finally:
            subprocess.run(["umount", folder], check=True)
        self.assertEqual(code, 1, text)
        self.assertIn("took not all packets", text)


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False)
    for case, reason in program.result.skipped:
        print(f"skipped: {case}: {reason}")
    sys.exit(1 if not program.result.wasSuccessful() else 77 if program.result.skipped else 0)
