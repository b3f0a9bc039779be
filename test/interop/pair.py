# SPDX-License-Identifier: BSD-3-Clause
"""Two processes, each with an adapter of its own, that run a program of others and meet on a wire.

The programs exchange addresses over TCP on localhost. A port is reserved by a bound socket that
does not listen for as long as the pair lives, so that nobody else is given it.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

LAUNCHER = os.path.abspath(sys.argv[1])
LONG = os.environ.get("KILIM_CHECK") == "long"
# Only whether anything fails is asked (usertools/mutants.sh): the first failure ends the test.
FIRST_FAILURE = "KILIM_FIRST_FAILURE" in os.environ
# Seconds until a program that should have ended counts as stuck.
PATIENCE = 30 if FIRST_FAILURE else 120
STDIN = subprocess.DEVNULL


def need(program, package):
    if shutil.which(program) is None:
        raise AssertionError(f"there is no {program}: apt-get install {package}")


class Port:
    """A TCP port that is ours although a program of others will listen on it."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET6)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::", 0))
        self.number = self.socket.getsockname()[1]

    def listened(self):
        """Whether a process waits there; a look, not a visit: a server takes one client."""
        wanted = "%04X" % self.number
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as lines:
                for line in lines:
                    words = line.split()
                    if words[1].endswith(":" + wanted) and words[3] == "0A":
                        return True
        return False


class Pair:
    """A server and its clients, the same program all of them."""

    def __init__(self, words, server_wire=None, client_wire=None, server_words=(), clients=1,
                 options=(), client_options=None):
        self.port = Port()
        self.words = [words[0], "-p", str(self.port.number), *words[1:]]
        self.outputs = []
        self.server = self.start(server_wire, options, *server_words)
        self.wait_for_server()
        if client_options is None:
            client_options = options    # both of the launcher
        self.clients = [self.start(client_wire, client_options, "127.0.0.1")
                        for _ in range(clients)]

    def wait_for_server(self):
        end = time.monotonic() + PATIENCE
        while not self.port.listened() and self.server.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def start(self, wire, options, *more):
        """The output goes to a file: a pipe that nobody reads would stop a talkative program."""
        options = [*options, *(["--wire", wire] if wire else [])]
        self.outputs.append(tempfile.TemporaryFile("w+"))
        return subprocess.Popen([LAUNCHER, *options, "--", *self.words, *more],
                                stdin=STDIN, stdout=self.outputs[-1],
                                stderr=subprocess.STDOUT)

    def text(self):
        for file in self.outputs:
            file.seek(0)
        return "".join(f"$ {' '.join(self.words)}\n{file.read()}" for file in self.outputs)

    def output_of(self, process):
        file = self.outputs[[self.server, *self.clients].index(process)]
        file.seek(0)
        return file.read()

    @staticmethod
    def program_of(launcher):
        """The process that a launcher runs."""
        with open("/proc/{0}/task/{0}/children".format(launcher.pid), encoding="ascii") as f:
            return int(f.read().split()[0])

    def resident_bytes(self, process):
        """The most that the program has had of the machine's memory, its libraries' pages among them (proc(5), VmHWM)."""
        with open(f"/proc/{self.program_of(process)}/status", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmHWM:"))

    def kill(self, process):
        """Nothing is cleaned up: neither the program nor its launcher lives on."""
        os.kill(self.program_of(process), signal.SIGKILL)

    def stop_all(self):
        for process in (self.server, *self.clients):
            if process.poll() is None:
                process.terminate()    # the launcher hands it on
                process.wait(timeout=PATIENCE)

    def end(self):
        """Exit statuses of all and what they said."""
        try:
            for process in (*self.clients, self.server):
                process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.stop_all()
            raise AssertionError("it does not end:\n" + self.text()) from None
        finally:
            self.stop_all()
            self.port.socket.close()
        return [p.returncode for p in (self.server, *self.clients)], self.text()


class PairTest(unittest.TestCase):
    """Each test has a folder of its own, where its processes meet."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.environ["XDG_RUNTIME_DIR"] = self.folder

    def tearDown(self):
        shutil.rmtree(self.folder)

    def good(self, words, **more):
        codes, text = Pair(words, **more).end()
        self.assertEqual(set(codes), {0}, text)
        return text


def main():
    program = unittest.main(argv=sys.argv[:1], verbosity=2, failfast=FIRST_FAILURE, exit=False)
    for case, reason in program.result.skipped:
        print(f"skipped: {case}: {reason}")
    # Meson takes 77 for a skip: one that is hidden in a pass would be none.
    sys.exit(1 if not program.result.wasSuccessful() else 77 if program.result.skipped else 0)
