# SPDX-License-Identifier: BSD-3-Clause
"""Open MPI on the adapter: each rank a process with one of its own, its messages by UCX and none by
shared memory. Usage: mpi_test.py KILIM_VHCA

With KILIM_CHECK=long in the environment: all transports with two, three and four ranks.
"""

import itertools
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "mpi_data.c")
MIB = 1 << 20
# What UCX may use, ranks, the longest message.
RUNS = [("rc_x,ud_x:aux,self", 2, MIB), ("rc_v,ud_v:aux,self", 4, 65536)]
if pair.LONG:
    RUNS = list(itertools.product(("rc_x,ud_x:aux,self", "rc_v,ud_v:aux,self", "ud_x,self",
                                   "ud_v,self", "dc_x,ud_x:aux,self"), (2, 3, 4), (8 * MIB,)))


class OpenMpi(pair.PairTest):
    def test_data(self):
        """every byte of messages, sums, exchanges and windows is right"""
        program = os.path.join(self.folder, "mpi_data")
        subprocess.run(["mpicc", "-O2", "-o", program, SOURCE], check=True)
        for transport, ranks, largest in RUNS:
            with self.subTest(transport=transport, ranks=ranks):
                self.run_ranks(transport, ranks, [program, str(largest)])

    def run_ranks(self, transport, ranks, words):
        # Fewer processors than ranks, and the checks of a container's root.
        settings = ["--allow-run-as-root", "--oversubscribe", "-np", str(ranks),
                    "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self",
                    "--mca", "mpi_yield_when_idle", "1",
                    "-x", "UCX_NET_DEVICES=vhca0:1", "-x", "UCX_TLS=" + transport]
        done = subprocess.run(["mpirun", *settings, pair.LAUNCHER, "--", *words],
                              capture_output=True, text=True, timeout=4 * pair.PATIENCE,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, rf"(?m)^{ranks} ranks, \d+ messages each, 0 wrong$")


if __name__ == "__main__":
    pair.need("mpirun", "openmpi-bin")
    pair.need("mpicc", "libopenmpi-dev")
    pair.main()
