# SPDX-License-Identifier: BSD-3-Clause
"""Figures of programs of others on the virtual adapter, each beside what the machine does without.
Usage: report.py KILIM_VHCA REFERENCE ROUNDS. Started by usertools/report-interop.sh; no gate.
"""

import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import pair

REFERENCE, ROUNDS = sys.argv[2], int(sys.argv[3])
NUMBER = r"([0-9.]+)"
DEVICE = ["-d", "vhca0", "-x", "0", "-F"]
pair.PATIENCE = 900    # ib_write_lat spins: beside other work it takes its time


class BarePair(pair.Pair):
    """The same two processes without an adapter."""

    def start(self, wire, options, *more):
        self.outputs.append(tempfile.TemporaryFile("w+"))
        return subprocess.Popen([*self.words, *more], stdin=subprocess.DEVNULL,
                                stdout=self.outputs[-1], stderr=subprocess.STDOUT)


def two(kind, words):
    """What the client says."""
    both = kind(words)
    codes, text = both.end()
    if set(codes) != {0}:
        sys.exit(text)
    return both.output_of(both.clients[0])


def on_adapter(words):
    return two(pair.Pair, words)


def on_shm(words):
    """Through memory that the two processes share."""
    wire = "shm:" + os.path.join(os.environ["XDG_RUNTIME_DIR"], "shm")
    return two(lambda w: pair.Pair(w, server_wire=wire, client_wire=wire), words)


def on_mlx5_queues(words):
    """UCX reads the completion queues itself: only the adapter's thread runs the adapter."""
    settings = {"UCX_TLS": "rc_x,ud_x:aux", "UCX_NET_DEVICES": "vhca0:1"}
    os.environ.update(settings)
    try:
        return two(pair.Pair, words)
    finally:
        for name in settings:
            del os.environ[name]


def bare(words):
    return two(BarePair, words)


def alone(words):
    return subprocess.run([REFERENCE, *words[1:]], capture_output=True, text=True,
                          check=True).stdout


# What, in which unit, how it is run, the command, and where its output has the figure.
FIGURES = (
    ("4 KiB there and back, adapter", "us", on_adapter,
     ["ibv_rc_pingpong", "-g", "0", "-s", "4096", "-n", "10000"], rf"{NUMBER} usec/iter"),
    ("4 KiB there and back, unix socket", "us", alone,
     ["reference", "pingpong", "4096", "50000"], rf"{NUMBER} usec/iter"),
    ("64 KiB writes, adapter", "MiB/s", on_adapter,
     ["ib_write_bw", *DEVICE, "-s", "65536", "-n", "5000"],
     rf"(?m)^ 65536\s+5000\s+{NUMBER}\s+{NUMBER}"),
    ("64 KiB copies, memcpy", "MiB/s", alone,
     ["reference", "memcpy", "65536", "100000"], rf"{NUMBER} MB/sec"),
    ("8 B one way, adapter", "us", on_adapter,
     ["ib_write_lat", *DEVICE, "-s", "8", "-n", "10000"],
     rf"(?m)^ 8\s+10000\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}"),
    ("8 B one way, adapter, shm:", "us", on_shm,
     ["ib_write_lat", *DEVICE, "-s", "8", "-n", "10000"],
     rf"(?m)^ 8\s+10000\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}"),
    ("8 B one way by SEND, adapter", "us", on_adapter,
     ["ib_send_lat", *DEVICE, "-s", "8", "-n", "10000"],
     rf"(?m)^ 8\s+10000\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}"),
    ("8 B fetched by READ, adapter", "us", on_adapter,
     ["ib_read_lat", *DEVICE, "-s", "8", "-n", "10000"],
     rf"(?m)^ 8\s+10000\s+{NUMBER}\s+{NUMBER}\s+{NUMBER}"),
    ("8 B one way, adapter, ucx rc_mlx5", "us", on_mlx5_queues,
     ["ucx_perftest", "-t", "tag_lat", "-s", "8", "-n", "1000", "-w", "10"],
     rf"(?m)^Final:\s+[0-9]+\s+{NUMBER}"),
    ("8 B one way, ucx posix", "us", bare,
     ["ucx_perftest", "-x", "posix", "-d", "memory", "-t", "am_lat", "-s", "8", "-n", "100000"],
     rf"(?m)^Final:\s+[0-9]+\s+{NUMBER}"),
)


LAUNCHED = {on_adapter: "kilim-vhca -- ", on_mlx5_queues: "kilim-vhca -- ",
            on_shm: "kilim-vhca --wire=shm:DIR -- "}


def main():
    found = [[] for _ in FIGURES]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder    # where the adapters' wire is
        for _ in range(ROUNDS):
            for values, (what, _, run, words, pattern) in zip(found, FIGURES):
                text = run(words)
                match = re.search(pattern, text)
                if match is None:
                    sys.exit(f"{what}: no figure in\n{text}")
                values.append(float(match.groups()[-1]))
    for values, (what, unit, run, words, _) in zip(found, FIGURES):
        launcher = LAUNCHED.get(run, "")
        print(f"{what:36}{statistics.median(values):12.2f} {unit:6}"
              f"({min(values):.2f} to {max(values):.2f})  {launcher}{' '.join(words)}")
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        model = next((line.split(":")[1].strip() for line in lines if "model name" in line), "?")
    print(f"median of {ROUNDS}, {os.cpu_count()} x {model}, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
