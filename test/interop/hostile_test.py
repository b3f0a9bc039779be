# SPDX-License-Identifier: BSD-3-Clause
"""What goes wrong under programs of others. Usage: hostile_test.py KILIM_VHCA HOSTILE_CLIENT"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LAUNCHER, CLIENT = (os.path.abspath(a) for a in sys.argv[1:3])
PHASES = ("before", "open", "objects", "transfer", "closed")


class Hostile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.environ["XDG_RUNTIME_DIR"] = os.environ["TMPDIR"] = self.folder

    def tearDown(self):
        shutil.rmtree(self.folder)

    def run_client(self, mode, *options):
        return subprocess.run([LAUNCHER, *options, "--", CLIENT, mode], capture_output=True,
                              text=True, timeout=60)

    def left(self):
        """Every file below the private folder but the empty folder of the default wire."""
        return sorted(os.path.join(d, f) for d, _, files in os.walk(self.folder) for f in files)

    def trees(self):
        return [n for n in os.listdir(self.folder) if n.startswith("kilim-vhca")]

    def test_fatal(self):
        """An adapter that dies flushes, tells, refuses and lets go; nothing waits"""
        for at in (1, 2, 17):
            with self.subTest(at=at):
                done = self.run_client("fatal", "--fault", f"fatal@{at}")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, f"{at} writes before the end\n")

    def test_fault_words(self):
        """A fault that is not fatal@N is refused"""
        for word in ("fatal", "fatal@", "fatal@0", "fatal@x", "fatal@-1", "drop@3", "wqe@0", "wqe@1+", ""):
            done = self.run_client("numbers", "--fault", word)
            self.assertEqual(done.returncode, 2, word)
            self.assertRegex(done.stderr, "^kilim-vhca: --fault")

    def test_seed(self):
        """Numbers of keys and queues follow from the seed and nothing else"""
        said = [self.run_client("numbers", "--seed", seed).stdout for seed in ("1", "1", "2", "3")]
        self.assertRegex(said[0], "^key [0-9a-f]+ queue [0-9a-f]+ address ")
        self.assertEqual(said[0], said[1])
        for other in said[2:]:
            self.assertNotEqual(said[0].split()[1], other.split()[1])
            self.assertNotEqual(said[0].split()[3], other.split()[3])
        self.assertNotEqual(said[2], said[3])

    def start(self, phase):
        process = subprocess.Popen([LAUNCHER, "--", CLIENT, phase], stdout=subprocess.PIPE,
                                   text=True, start_new_session=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), phase + "\n")
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(30)

    def program_of(self, launcher):
        with open(f"/proc/{launcher.pid}/task/{launcher.pid}/children", encoding="ascii") as f:
            return int(f.read().split()[0])

    def wait_for_the_end_of(self, pid):
        """An orphan is somebody else's child."""
        for _ in range(300):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                    if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                        return
            except OSError:
                return
            time.sleep(0.1)
        self.fail(f"{pid} lives on")

    def next_start_works(self):
        """Alone again: the lowest slot, and nothing of the dead one."""
        done = self.run_client("numbers")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("address 02:4b:4c:00:00:01", done.stdout)
        self.assertEqual(self.trees(), [])
        locks = self.folder + "/kilim/slot-"   # they stay, empty
        self.assertEqual([f for f in self.left() if not f.startswith(locks)], [])

    def test_terminated(self):
        """SIGTERM in every phase ends the program and leaves nothing"""
        for phase in PHASES:
            with self.subTest(phase=phase):
                process = self.start(phase)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(30), -signal.SIGTERM)
                process.stdout.close()
                self.assertEqual(self.trees(), [])
                self.next_start_works()

    def test_program_killed(self):
        """kill -9 of the program in every phase: the launcher says so and cleans up"""
        for phase in PHASES:
            with self.subTest(phase=phase):
                process = self.start(phase)
                os.kill(self.program_of(process), signal.SIGKILL)
                self.assertEqual(process.wait(30), -signal.SIGKILL)
                process.stdout.close()
                self.assertEqual(self.trees(), [])
                self.next_start_works()

    def test_everything_killed(self):
        """kill -9 of launcher and program: the next start removes what they left"""
        for phase in PHASES:
            with self.subTest(phase=phase):
                process = self.start(phase)
                program = self.program_of(process)
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(30)
                process.stdout.close()
                self.wait_for_the_end_of(program)
                self.next_start_works()

    def test_the_tree_of_the_living_stays(self):
        """A start removes no device list that is in use, with or without its launcher"""
        first, orphan = self.start("objects"), self.start("open")
        program = self.program_of(orphan)
        os.kill(orphan.pid, signal.SIGKILL)
        orphan.wait(30)
        self.assertEqual(self.run_client("numbers").returncode, 0)
        self.assertEqual(len(self.trees()), 2)
        os.kill(program, signal.SIGKILL)
        first.send_signal(signal.SIGTERM)
        first.wait(30)
        for process in (first, orphan):
            process.stdout.close()
        self.wait_for_the_end_of(program)
        self.next_start_works()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
