# SPDX-License-Identifier: BSD-3-Clause
"""The other end's process dies, or is only stopped. Usage: peer_life_test.py KILIM_VHCA

A kernel destroys the ids of a process that is killed, so its peer hears of it; a card answers for a
process that is stopped."""

import os
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair
import processes

ADDRESS = "198.18.9.1"
SERVER = f"rping -s -a {ADDRESS} -C 1000000 -v"
CLIENT = f"rping -c -a {ADDRESS} -C 1000000 -v"


class Ends:
    """Two of rping in the middle of their pings: the server's process and the client's."""

    def __init__(self, wire, folder):
        self.folder = folder
        server, client = (f"exec {words} > {folder}/{words[7]} 2>&1" for words in (SERVER, CLIENT))
        if wire == "shared":
            words = [["--shared", "--ip", f"{ADDRESS}/24", "--", "sh", "-c",
                      f"({server}) & sleep 1; ({client}) & wait"]]
        else:
            words = [["--wire", f"{wire}:{folder}/w+ip:{ip}/24", "--", "sh", "-c", run]
                     for ip, run in ((ADDRESS, server), ("198.18.9.2", "sleep 1; " + client))]
        self.launchers = [subprocess.Popen([pair.LAUNCHER, *one], stdin=subprocess.DEVNULL)
                          for one in words]
        end = time.monotonic() + pair.PATIENCE
        while self.pings() < 20 and time.monotonic() < end:
            time.sleep(0.05)
        self.pids = [self.found(which) for which in "sc"]

    def found(self, which):
        for launcher in self.launchers:
            for one in processes.family(launcher.pid):
                with open(f"/proc/{one}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
                if words[0] == b"rping" and words[1] == b"-" + which.encode():
                    return one
        raise AssertionError("rping has ended")

    def pings(self):
        path = f"{self.folder}/c"
        if not os.path.exists(path):
            return 0
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read().count("ping data")

    def end(self):
        for launcher in self.launchers:
            if launcher.poll() is None:
                processes.kill_family(launcher.pid)
            launcher.wait()


def ended(pid, seconds):
    """Whether the process has ended before the time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


class PeerLife(pair.PairTest):
    def test_killed(self):
        """an end whose peer is killed is told that it has disconnected, on every wire with slots"""
        for wire in ("unix", "shm", "shared"):
            for dead in (0, 1):
                with self.subTest(wire=wire, killed="server client".split()[dead]):
                    with tempfile.TemporaryDirectory(prefix="kilim-life") as folder:
                        os.chmod(folder, 0o700)
                        ends = Ends(wire, folder)
                        try:
                            os.kill(ends.pids[dead], signal.SIGKILL)
                            self.assertTrue(ended(ends.pids[1 - dead], 10))
                        finally:
                            ends.end()

    def test_stopped(self):
        """an end whose peer is stopped waits for it, and both go on"""
        with tempfile.TemporaryDirectory(prefix="kilim-life") as folder:
            os.chmod(folder, 0o700)
            ends = Ends("unix", folder)
            try:
                with processes.halted(ends.launchers[0].pid):
                    time.sleep(3)
                    self.assertFalse(ended(ends.pids[1], 0.1))
                    before = ends.pings()
                end = time.monotonic() + pair.PATIENCE
                while ends.pings() < before + 20 and time.monotonic() < end:
                    time.sleep(0.05)
                self.assertGreaterEqual(ends.pings(), before + 20)
            finally:
                ends.end()

    def test_stopped_in_a_transfer(self):
        """a WRITE waits for a peer that is stopped longer than its retries last"""
        pair.need("ib_write_bw", "perftest")
        both = pair.Pair(["ib_write_bw", "-d", "vhca0", "-x", "0", "-F", "-D", "9"])
        time.sleep(2)
        with processes.halted(both.server.pid):
            time.sleep(4)      # a timeout of 14 and 7 retries last 2 s
        codes, text = both.end()
        self.assertNotIn("Failed status", text)
        self.assertEqual(set(codes), {0}, text)


if __name__ == "__main__":
    pair.main()
