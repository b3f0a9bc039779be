# SPDX-License-Identifier: BSD-3-Clause
"""On-demand paging in programs of others. Usage: paging_test.py KILIM_VHCA"""

import os
import re
import subprocess

import pair

STANDARD = ("invalidations_faults_contentions", "num_invalidation_pages", "num_invalidations",
            "num_page_fault_pages", "num_page_faults", "num_prefetchs_handled",
            "num_prefetch_pages")
DEBUG = ("num_failed_resolutions", "num_mrs_not_found", "num_odp_mr_pages", "num_odp_mrs")


class Paging(pair.PairTest):
    def setUp(self):
        super().setUp()
        self.journal = self.folder + "/journal"

    def counted(self, words, event, options=()):
        """{process: how often its journal has the event}; both ended well."""
        self.good(words, options=["--journal", self.journal, *options])
        with open(self.journal, encoding="ascii") as f:
            lines = [line.split() for line in f]
        os.unlink(self.journal)
        counts = {line[0]: 0 for line in lines}
        for line in lines:
            counts[line[0]] += line[2] == event
        self.assertEqual(len(counts), 2)
        return counts

    def test_pingpong(self):
        """ibv_rc_pingpong -o and -O send right data and fault on both sides"""
        for option in ("-o", "-O"):
            for size in ("4096", "65536"):
                with self.subTest(option=option, size=size):
                    counts = self.counted(["ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", "-s",
                                           size, option], "page_fault")
                    self.assertTrue(all(n > 0 for n in counts.values()), counts)

    def test_prefetch(self):
        """ibv_rc_pingpong -o -P brings its pages in by advice"""
        counts = self.counted(["ibv_rc_pingpong", "-g", "0", "-c", "-n", "100", "-o", "-P"],
                              "page_prefetch")
        self.assertTrue(all(n > 0 for n in counts.values()), counts)

    def test_perftest(self):
        """ib_write_bw --odp runs, and both sides fault"""
        pair.need("ib_write_bw", "perftest")
        counts = self.counted(["ib_write_bw", "-d", "vhca0", "-x", "0", "-F", "-n", "200",
                               "--odp"], "page_fault")
        self.assertTrue(all(n > 0 for n in counts.values()), counts)

    def test_statistics(self):
        """the documents' paths have every counter, at fixed width, of all processes together"""
        port = pair.Port()
        one = f"ibv_rc_pingpong -g 0 -o -n 10 -p {port.number}"
        # A server takes a while to listen: the client asks again.
        script = (f"{one} >/dev/null & for i in $(seq 100); do {one} 127.0.0.1 >/dev/null 2>&1 && "
                  "break; sleep 0.1; done; wait; cd /sys/class/infiniband_verbs/uverbs*/ && "
                  "for f in *num_* invalidations*; do echo \"standard $f:$(cat $f)\"; "
                  "wc -c < $f; done; cd /sys/kernel/debug/mlx5/$(basename $(readlink "
                  "/sys/class/infiniband/vhca0/device))/odp_stats && "
                  "for f in *; do echo \"debug $f:$(cat $f)\"; done")
        done = subprocess.run([pair.LAUNCHER, "--sysfs", "mount", "--", "bash", "-c", script],
                              capture_output=True, text=True, timeout=pair.PATIENCE, check=True)
        port.socket.close()
        found = {(kind, name): int(value) for kind, name, value in
                 re.findall(r"(\w+) (\w+): *(\d+)", done.stdout)}
        self.assertEqual(set(re.findall(r"^\d+$", done.stdout, re.M)), {"21"})
        for name in STANDARD:
            self.assertIn(("standard", name), found)
        for name in DEBUG:
            self.assertIn(("debug", name), found)
        self.assertGreaterEqual(found["standard", "num_page_faults"], 2)
        self.assertGreaterEqual(found["standard", "num_page_fault_pages"],
                                found["standard", "num_page_faults"])
        self.assertEqual(found["standard", "num_prefetchs_handled"],
                         found["standard", "num_prefetches_handled"])
        self.assertEqual(found["debug", "num_odp_mrs"], 0)       # all are deregistered
        self.assertEqual(found["debug", "num_odp_mr_pages"], 0)


if __name__ == "__main__":
    pair.main()
