# SPDX-License-Identifier: BSD-3-Clause
"""One of two processes is killed in the middle of a transfer. Usage: kill_test.py KILIM_VHCA

Both send all the time (perftest's -b), so a peer of a reliable connection always waits for an
acknowledgement: it ends with IBV_WC_RETRY_EXC_ERR. Unreliable peers hear nothing any more; they go
on, and end when they are told to.
"""

import itertools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

# Of a receive queue that is looked at first, what the same failure has flushed.
RETRY_EXCEEDED = "Failed status 12|Completion with error at server\n Failed status 5"
POLL, EVENTS = ["-D", "30"], ["-e", "-n", "5000000"]    # longer than the test takes
RELIABLE = [("ib_write_bw", POLL), ("ib_send_bw", POLL), ("ib_read_bw", POLL),
            ("ib_atomic_bw", POLL), ("ib_send_bw", EVENTS), ("ib_read_bw", EVENTS)]


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        words = f.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


class Kill(pair.PairTest):
    def begun(self, *words):
        """A pair in the middle of its transfer: both have used more time than a start takes."""
        both = pair.Pair([words[0], "-d", "vhca0", "-x", "0", "-F", "-b", *words[1:]])
        end = time.monotonic() + pair.PATIENCE
        for process in (both.server, both.clients[0]):
            while cpu_ticks(both.program_of(process)) < 30 and time.monotonic() < end:
                time.sleep(0.02)
            if process.poll() is not None:
                raise AssertionError("it has ended by itself: " + both.text())
        return both

    def test_reliable(self):
        """a reliable peer of a killed process ends with retries exceeded"""
        for (program, wait), side in itertools.product(RELIABLE, ("server", "client")):
            with self.subTest(program=program, wait=wait, killed=side):
                both = self.begun(program, *wait)
                dead, alive = both.server, both.clients[0]
                if side == "client":
                    dead, alive = alive, dead
                both.kill(dead)
                codes, text = both.end()
                self.assertNotIn(0, codes, text)
                self.assertRegex(both.output_of(alive), RETRY_EXCEEDED, text)

    def test_unreliable(self):
        """an unreliable peer of a killed process sees no error and ends when told to"""
        for transport in ("UC", "UD"):
            with self.subTest(transport=transport):
                both = self.begun("ib_send_bw", *POLL, "-c", transport, "-s", "2048")
                both.kill(both.server)
                both.server.wait(timeout=pair.PATIENCE)
                time.sleep(1)
                alive = both.clients[0]
                self.assertIsNone(alive.poll(), both.text())
                self.assertNotIn("Failed status", both.output_of(alive))
                alive.terminate()
                alive.wait(timeout=pair.PATIENCE)
                both.end()

    def test_afterwards(self):
        """processes that come later meet where others were killed"""
        both = self.begun("ib_write_bw", *POLL)
        both.kill(both.server)
        both.kill(both.clients[0])
        both.end()
        self.good(["ibv_rc_pingpong", "-g", "0", "-c", "-n", "20"])


if __name__ == "__main__":
    pair.need("ib_write_bw", "perftest")
    pair.main()
