# SPDX-License-Identifier: BSD-3-Clause
"""UCX on the adapter, as it comes. Usage: ucx_test.py KILIM_VHCA

With KILIM_CHECK=long in the environment: all of its tests, 1 B to 8 MiB.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

# What UCX calls the ways of an adapter: through libibverbs (v), or its own queues on mlx5 (x).
TRANSPORTS = ("rc_v,ud_v:aux", "rc_x,ud_x:aux", "dc_x,ud_x:aux", "ud_v", "ud_x")
OFFERED = {"rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs", "ud_mlx5"}
# Test, bytes, how often.
BATCH = [("tag_lat", 1, 10), ("tag_bw", 65536, 4), ("ucp_put_bw", 4096, 10), ("ucp_get", 4096, 10),
         ("ucp_am_lat", 64, 10), ("ucp_fadd", 8, 10), ("ucp_cswap", 8, 10)]
HOOKS = [("rc_v,ud_v:aux", "ucp_put_bw", {"UCX_MEM_MMAP_HOOK_MODE": "none"}),
         # Debian's libucm waits for itself in this mode unless it stands in front of libc.
         ("rc_x,ud_x:aux", "tag_lat",
          {"UCX_MEM_MMAP_HOOK_MODE": "reloc", "LD_PRELOAD": "libucm.so.0"})]
if pair.LONG:
    BATCH = [(test, size, 4 if size > 100_000 else 20)
             for test in ("tag_lat", "tag_bw", "tag_sync_lat", "ucp_put_lat", "ucp_put_bw",
                          "ucp_get", "stream_bw", "stream_lat", "ucp_am_lat", "ucp_am_bw")
             for size in (1, 8, 63, 1024, 4095, 65536, 1 << 20, 8 << 20)]
    BATCH += [(test, size, 20) for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")
              for size in (4, 8)]
    pair.PATIENCE = 1800


# Where ucx_perftest is built with MPI, as Debian 13's is, it leaves MPI alone only if its input is a terminal
# (UCX v1.18 src/tools/perf/perftest.c, main()).
pair.STDIN = os.openpty()[1]


def on_one_processor():
    """A loopback sends before it receives; where the adapter has no processor of its own the receive is posted first."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Ucx(pair.PairTest):
    def setUp(self):
        super().setUp()
        os.environ["UCX_NET_DEVICES"] = "vhca0:1"
        os.environ.pop("UCX_TLS", None)

    def test_info(self):
        """ucx_info finds the device and its transports"""
        out = subprocess.run([pair.LAUNCHER, "--", "ucx_info", "-d"], capture_output=True,
                             text=True, timeout=pair.PATIENCE, check=True).stdout
        of_device = out.partition("# Memory domain: vhca0")[2].partition("# Memory domain")[0]
        self.assertLessEqual(OFFERED, set(re.findall(r"Transport: (\w+)", of_device)), out)

    def test_perftest(self):
        """ucx_perftest tags, writes, reads, adds and sends active messages on each transport"""
        batch = os.path.join(self.folder, "batch")
        with open(batch, "w", encoding="ascii") as lines:
            for test, size, rounds in BATCH:
                lines.write(f"{test}_{size} -t {test} -s {size} -n {rounds} -w 2\n")
        for transport in TRANSPORTS:
            os.environ["UCX_TLS"] = transport
            with self.subTest(transport=transport):
                text = self.good(["ucx_perftest", "-b", batch])
                done = re.findall(r"(?m)^Final: +(\d+) ", text)
                self.assertEqual([int(n) for n in done], [n for _, _, n in BATCH], text)

    def test_devx(self):
        """UCX's queues are made by firmware commands where it is told that nothing else will do"""
        os.environ["UCX_IB_MLX5_DEVX"] = "y"
        self.addCleanup(os.environ.pop, "UCX_IB_MLX5_DEVX")
        for transport in TRANSPORTS:
            with self.subTest(transport=transport):
                os.environ["UCX_TLS"] = transport
                text = self.good(["ucx_perftest", "-t", "tag_lat", "-n", "10", "-w", "2", "-s", "4096"])
                self.assertRegex(text, r"(?m)^Final: +10 ")

    def test_tag_matching(self):
        """the adapter matches UCX's tags, in a queue by a command (CREATE_XRQ) and in one of verbs"""
        os.environ["UCX_TLS"] = "rc_x,ud_x:aux"
        journal = os.path.join(self.folder, "journal")
        for devx, made in (("y", 1), ("n", 0)):
            for size in ("4096", "65536", "1048576"):
                with self.subTest(devx=devx, size=size):
                    settings = {"UCX_IB_MLX5_DEVX": devx, "UCX_RC_MLX5_TM_ENABLE": "y",
                                "UCX_TM_THRESH": "64"}
                    run = subprocess.run(
                        [pair.LAUNCHER, "--profile", "infiniband", "--journal", journal, "--",
                         "ucx_perftest", "-l", "-t", "tag_lat", "-n", "400", "-w", "2", "-s", size],
                        env=os.environ | settings, stdin=pair.STDIN, capture_output=True, text=True,
                        timeout=pair.PATIENCE, check=False, preexec_fn=on_one_processor)
                    self.assertRegex(run.stdout, r"(?m)^Final: +400 ", run.stderr)
                    with open(journal, encoding="ascii") as file:
                        said = file.read()
                    os.unlink(journal)
                    self.assertEqual(said.count("opcode=0x717 status=0 "), made)
                    # TagNews: of each message that matched, its entry's end, then its data.
                    matched, arrived = (len(re.findall(r" tag srq=\S+ news=%s " % news, said))
                                        for news in ("0x1", "0x2"))
                    self.assertGreater(matched, 0)
                    self.assertEqual(arrived, matched)

    def test_hooks(self):
        """each way of UCX to watch memory leaves the device's pages alone"""
        for transport, test, settings in HOOKS:
            with self.subTest(**settings):
                os.environ["UCX_TLS"] = transport
                os.environ.update(settings)
                text = self.good(["ucx_perftest", "-t", test, "-n", "10", "-w", "2", "-s", "8"])
                self.assertRegex(text, r"(?m)^Final: +10 ")
                for name in settings:
                    del os.environ[name]

    def test_long_messages(self):
        """a message of a MiB goes by rendezvous"""
        os.environ["UCX_TLS"] = TRANSPORTS[0]
        text = self.good(["ucx_perftest", "-t", "tag_bw", "-n", "4", "-w", "2", "-s", "1048576"])
        self.assertRegex(text, r"(?m)^Final: +4 ")


if __name__ == "__main__":
    pair.need("ucx_perftest", "ucx-utils")
    pair.main()
