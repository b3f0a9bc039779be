#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""kilim-exporter.py and kilim-top.py before programs that answer late, never, for ever or in another
shape: a sentence within a scrape's time. Usage: run_telemetry_hostile.py SOURCE_ROOT"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.abspath(sys.argv[1])
SCRAPE = 9      # seconds; Prometheus gives up after ten. The tools take two and their start
GREETING = {"version": "DPDK 22.11", "pid": 7, "max_output_len": 16384}
INFO = {"program": "p", "pid": 7, "version": "1", "tsc_hz": 10 ** 9, "started": 1, "speed_mbps": 1}


def well(command):
    """What a program without ports says."""
    name = command.split(",")[0]
    return {name: {"/kilim/info": INFO, "/kilim/mkeys": {"size": 0, "available": 0, "pools": 0},
                   "/kilim/umr": {"poisoned": 0}}.get(name, {})}


def with_a_port(command):
    if command == "/kilim/stats":
        return {command: {"port0": {"queues_down": 0}}}
    if command.startswith("/kilim/queues"):
        return {"/kilim/queues": {"next_queue": 0}}
    return well(command)


def late(command):
    time.sleep(1.5)
    return well(command)


PROGRAMS = {
    "never answers": lambda command: None,
    "answers late": late,
    "lists its queues for ever": with_a_port,
    "answers with lists": lambda command: {command: [1, 2]},
    "answers with a list": lambda command: [1],
    "answers with lists in objects": lambda command: {command: {"port0": [1], "program": [], "pid": {}}},
    "answers with words for numbers": lambda command: {command: {"port0": {"queues_down": "x"}, **INFO,
                                                                 "tsc_hz": "fast"}},
    "answers with nothing": lambda command: {},
    "answers with what is no JSON": lambda command: b"{",
}


class Fake:
    """A program with a telemetry socket (DPDK, lib/telemetry)."""

    def __init__(self, path, answer, greeting=GREETING):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.bind(path)
        self.socket.listen(8)
        self.answer, self.greeting = answer, greeting
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            if self.greeting is not None:
                client.send(json.dumps(self.greeting).encode())
            while command := client.recv(1024):
                answer = self.answer(command.decode())
                if answer is not None:
                    client.send(answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        except OSError:
            pass


class Hostile(unittest.TestCase):
    def asked(self, tool, *paths):
        """Its status and what it says, in time and without a traceback."""
        words = [sys.executable, f"{ROOT}/usertools/{tool}", "--once"]
        begun = time.monotonic()
        done = subprocess.run(words + [word for path in paths for word in ("--socket", path)], text=True,
                              capture_output=True, timeout=4 * SCRAPE, check=False)
        self.assertLess(time.monotonic() - begun, SCRAPE)
        self.assertNotIn("Traceback", done.stderr)
        return done

    def test_exporter(self):
        """of all such programs at once the exporter says that they are not up, and of a good one that it is"""
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, str(i)) for i in range(len(PROGRAMS) + 3)]
            fakes = [Fake(path, answer) for path, answer in zip(paths, PROGRAMS.values())]
            fakes.append(Fake(paths[-3], well, greeting=None))
            fakes.append(Fake(paths[-2], well, greeting=[1]))
            fakes.append(Fake(paths[-1], well))
            done = self.asked("kilim-exporter.py", *paths)
            for fake in fakes:
                fake.socket.close()
        self.assertEqual(done.returncode, 1, done.stderr)
        endless = list(PROGRAMS).index("lists its queues for ever")   # all but that is right
        for i, path in enumerate(paths):
            up = i in (endless, len(paths) - 1)
            self.assertIn(f'kilim_up{{socket="{path}"}} {up:.1f}', done.stdout, done.stderr)

    def test_top(self):
        """kilim-top ends with a sentence"""
        for name, answer in PROGRAMS.items():
            with self.subTest(program=name), tempfile.TemporaryDirectory() as folder:
                fake = Fake(folder + "/s", answer)
                done = self.asked("kilim-top.py", folder + "/s")
                fake.socket.close()
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, r"^kilim-top: .*\n$")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
