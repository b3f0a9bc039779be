#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A running program through the eyes of others: dpdk-telemetry.py, Prometheus, a terminal, a capture's reader.

Usage: run_telemetry.py SOURCE_ROOT KILIM_TESTPMD EXAMPLE_01 CASE     CASE is a function below"""

import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import time
import urllib.request

import dpkt
from prometheus_client.parser import text_string_to_metric_families

sys.dont_write_bytecode = True
SECONDS = 30
EAL = ["--no-huge", "--no-shconf", "--no-pci", "--log-level", "error", "-m", "256", "-l", "0-1"]
ANSI = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Job:
    """kilim-testpmd whose two ports send to each other, until it is told to stop."""

    def __init__(self, root, program, folder, own=("--fwd=txonly",)):
        self.root, self.folder = root, folder
        self.prefix = f"t{os.getpid()}"
        self.env = os.environ | {"RUNTIME_DIRECTORY": folder}
        os.environ["RUNTIME_DIRECTORY"] = folder
        sys.path.insert(0, os.path.join(root, "usertools"))
        words = [program, *EAL, f"--file-prefix={self.prefix}"]
        for n in (0, 1):
            words += ["--vdev", f"net_kilim{n},hca=vhca{n},wire=cable:x,rxq=8,txq=8"]
        self.process = subprocess.Popen([*words, "--", *own, "--json=" + os.path.join(folder, "stats")],
                                        env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: self.metrics()["kilim_port_tx_packets_total", "net_kilim0"] > 0)

    def wait_for(self, holds):
        end = time.monotonic() + SECONDS
        while True:
            assert self.process.poll() is None, self.process.stderr.read()
            try:
                if holds():
                    return
            except (KeyError, AssertionError):
                pass
            assert time.monotonic() < end, "it did not begin"
            time.sleep(0.1)

    def tool(self, name, *words, **kwargs):
        return subprocess.run([sys.executable, os.path.join(self.root, "usertools", name), "--file-prefix",
                               self.prefix, *words], env=self.env, capture_output=True, text=True,
                              timeout=SECONDS, check=False, **kwargs)

    def metrics(self, text=None):
        """Value by sample name and port, by name alone where there is none."""
        if text is None:
            done = self.tool("kilim-exporter.py", "--once")
            assert done.returncode == 0, done.stderr
            text = done.stdout
        return {(s.name, s.labels.get("port")): s.value for family in text_string_to_metric_families(text)
                for s in family.samples}

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=SECONDS)[1]
        assert self.process.returncode == 0, said
        with open(os.path.join(self.folder, "stats"), encoding="utf-8") as f:
            return json.load(f)


def endpoints(job):
    """Debian's dpdk-telemetry.py reads all commands, and what it says of wrong ones is a sentence."""
    from kilim_telemetry import Client
    commands = [c for c in Client(prefix=job.prefix).ask("/") if c.startswith("/kilim/")]
    assert len(commands) == 14, commands
    of_ports = ("/kilim/xstats", "/kilim/queues", "/kilim/flows")
    asked = [c + (",net_kilim1" if c in of_ports else "") for c in commands]
    wrong = ["/kilim/xstats", "/kilim/queues,9", "/kilim/device,none", "/kilim/pools,x", "/kilim/workers,77"]
    helps = ["/help," + c for c in commands]
    done = subprocess.run(["dpdk-telemetry.py", "-f", job.prefix], input="\n".join(asked + wrong + helps) + "\nquit\n",
                          env=job.env, capture_output=True, text=True, timeout=SECONDS, check=True)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(asked + wrong + helps), done.stdout + done.stderr
    for command, answer in zip(asked + wrong + helps, answers):
        value = next(iter(answer.values()))
        assert value, f"{command}: {answer}"
        assert ("error" in value) == (command in wrong), f"{command}: {answer}"
    by_name = dict(zip(asked, answers))
    stats = by_name["/kilim/stats"]["/kilim/stats"]
    assert set(stats) == {"net_kilim0", "net_kilim1"} and stats["net_kilim0"]["tx_packets"] > 0, stats
    assert by_name["/kilim/workers"]["/kilim/workers"]["lcore_1"]["busy_rounds"] > 0


def often(job):
    """1,000 questions, every one answered, while packets go round and round; none of these is lost."""
    from kilim_telemetry import Client
    client = Client(prefix=job.prefix)
    commands = ["/kilim/stats", "/kilim/queues,0", "/kilim/xstats,1", "/kilim/workers", "/kilim/flows,0", "/kilim/mr",
                "/kilim/umr", "/kilim/list"]
    sent = 0
    for n in range(1000):
        answer = client.ask(commands[n % len(commands)])
        assert answer and "error" not in answer, commands[n % len(commands)]
        if n % len(commands) == 0:
            now = answer["net_kilim0"]["tx_packets"]
            assert now >= sent, f"{now} behind {sent}"
            sent = now
    stats = job.stop()
    total = stats["total"]
    assert total["tx_packets"] >= sent > 0 and total["tx_completed"] == total["tx_packets"], total
    assert sum(total["drops"].values()) == 0, total
    # What is under way at the end, at most: the bursts with which it began.
    assert 0 <= total["tx_packets"] - total["rx_packets"] <= 2 * 8 * 32, total


def exporter(job):
    """Its text is Prometheus', counts grow, and the dashboard asks for nothing else."""
    first = job.metrics()
    text = job.tool("kilim-exporter.py", "--once").stdout
    second = job.metrics(text)
    assert second["kilim_up", None] == 1
    for name in ("kilim_port_tx_packets_total", "kilim_port_tx_bytes_total"):
        assert second[name, "net_kilim0"] >= first[name, "net_kilim0"] > 0, name
    queues = [s for f in text_string_to_metric_families(text) for s in f.samples
              if s.name == "kilim_queue_tx_packets_total" and s.labels["port"] == "net_kilim0"]
    assert {q.labels["queue"] for q in queues} == {str(n) for n in range(8)}, queues
    with open(os.path.join(job.root, "usertools", "kilim-dashboard.json"), encoding="utf-8") as f:
        board = json.load(f)
    asked = [t["expr"] for p in board["panels"] for t in p["targets"]]
    asked += [v["query"] for v in board["templating"]["list"]]
    named = {name for text in asked for name in re.findall(r"\bkilim_\w+", text)}
    lacking = named - {name for name, _ in second}
    assert len(named) > 15 and not lacking, f"the dashboard asks for {lacking}"


def scraped(job):
    """Over HTTP, also when the program has gone."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([sys.executable, os.path.join(job.root, "usertools", "kilim-exporter.py"),
                               "--file-prefix", job.prefix, "--listen", str(port)], env=job.env,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout.readline().startswith("kilim-exporter: http://127.0.0.1:")

        def fetch():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as answer:
                return job.metrics(answer.read().decode())
        assert fetch()["kilim_up", None] == 1
        job.stop()
        assert fetch() == {("kilim_up", None): 0}
    finally:
        server.kill()
        server.wait()
    done = job.tool("kilim-exporter.py", "--once")
    assert done.returncode == 1 and "no program answers" in done.stderr, done.stderr
    done = job.tool("kilim-top.py", "--once")
    assert done.returncode == 1 and done.stderr.startswith("kilim-top: no program answers"), done.stderr


def in_a_terminal(job, rows, columns, *words):
    """What kilim-top.py writes to a terminal of this size."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen([sys.executable, os.path.join(job.root, "usertools", "kilim-top.py"), "--file-prefix",
                                job.prefix, *words], env=job.env, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    written, end = b"", time.monotonic() + SECONDS
    while time.monotonic() < end:
        if select.select([master], [], [], 0.2)[0]:
            try:
                written += os.read(master, 65536)
            except OSError:   # the last one has closed it
                break
        if "--count" not in words and b"net_kilim1" in written:
            os.write(master, b"q")
    assert process.wait(timeout=SECONDS) == 0, written
    os.close(master)
    return written.decode()


def top(job):
    """It fits a terminal of 80 columns and 24 lines with 16 queues in each direction, and a small one too."""
    done = job.tool("kilim-top.py", "--once", "--interval", "0.3")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80, done.stdout
    assert "\x1b" not in done.stdout
    for word in ("kilim-testpmd", "net_kilim0", "net_kilim1", "lcore 1", "queues"):
        assert word in done.stdout, done.stdout
    rate = lines[2].split()[2]
    assert float(re.match(r"[\d.]+", rate).group()) > 0, lines[2]
    assert "missed" in done.stdout, done.stdout   # nobody receives what they send
    for rows, columns in ((24, 80), (10, 50)):
        text = in_a_terminal(job, rows, columns, "--count", "2", "--interval", "0.2")
        assert text.startswith("\x1b[?1049h") and text.endswith("\x1b[?25h\x1b[?1049l"), repr(text)
        views = text.split("\x1b[H")[1:]
        assert len(views) == 2, repr(text)
        for view in views:
            shown = ANSI.sub("", view).split("\r\n")   # the terminal adds the returns
            assert len(shown) <= rows and max(map(len, shown)) <= columns, shown
    in_a_terminal(job, 24, 80, "--interval", "0.2")


def captured(root, example, folder):
    """01_forward with --pcap: what it received and sent is in the file, as tshark and dpkt read it."""
    sys.path.insert(0, os.path.join(root, "usertools"))
    import pcap_file
    names = {n: os.path.join(folder, n) for n in ("in", "out", "capture")}
    pcap_file.make(names["in"], 300)
    process = subprocess.Popen([example, *EAL[:-1], "0", "--no-telemetry", "--vdev",
                                f"net_kilim0,hca=vhca0,wire=pcap:{names['in']}:{names['out']}", "--",
                                f"--pcap=0:{names['capture']}"], stdout=subprocess.PIPE, text=True)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if os.path.exists(names["out"]) and len(list(pcap_file.frames(names["out"]))) == 300:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0 and "600 packets, 0 left out" in said, said
    sent = list(pcap_file.frames(names["in"]))
    with open(names["capture"], "rb") as f:
        frames = [data for _, data in dpkt.pcapng.Reader(f)]
    assert sorted(frames) == sorted(sent * 2), f"{len(frames)} frames, not the 600"
    done = subprocess.run(["tshark", "-r", names["capture"], "-T", "fields", "-e", "frame.packet_flags_direction", "-e",
                           "frame.interface_name", "-e", "frame.time_epoch"], capture_output=True, text=True,
                          timeout=SECONDS, check=True)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert sorted(r[0] for r in rows) == ["0x00000001"] * 300 + ["0x00000002"] * 300, rows[:3]
    assert {r[1] for r in rows} == {"net_kilim0"}, rows[:3]
    assert all(abs(float(r[2]) - time.time()) < 2 * SECONDS for r in rows), rows[:3]


def by_keys(root, program, folder):
    """kilim-testpmd --pcap in mode umr: a packet under a key is in the file as it leaves."""
    sys.path.insert(0, os.path.join(root, "usertools"))
    import pcap_file
    names = {n: os.path.join(folder, n) for n in ("in", "out", "capture")}
    pcap_file.make(names["in"], 300)
    command = [program, *EAL[:-1], "0", "--no-telemetry", "--vdev",
               f"net_kilim0,hca=vhca0,wire=pcap:{names['in']}:{names['out']}", "--", "--fwd=umr", "--num-packets=300"]
    done = subprocess.run([*command, f"--pcap=0:{names['capture']}"], capture_output=True, text=True, timeout=SECONDS,
                          check=True)
    assert f"capture of net_kilim0 in {names['capture']}: 600 packets, 0 left out" in done.stdout, done.stdout
    with open(names["capture"], "rb") as f:
        frames = [data for _, data in dpkt.pcapng.Reader(f)]
    assert sorted(frames) == sorted(list(pcap_file.frames(names["in"])) * 2), f"{len(frames)} frames, not the 600"
    for word, sentence in (("7:x", "there is no such port"), ("0:/nowhere/x", "cannot be written"), ("x", "not PORT:FILE")):
        done = subprocess.run([*command, "--pcap=" + word], capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 1 and sentence in done.stderr, done.stderr


def prompted(root, program, folder):
    """capture start and stop at kilim-testpmd's prompt, while it forwards."""
    sys.path.insert(0, os.path.join(root, "usertools"))
    first, second = (os.path.join(folder, n) for n in ("first", "second"))
    process = subprocess.Popen([program, *EAL, "--no-telemetry", "--vdev", "net_kilim0,hca=vhca0,wire=cable:x", "--vdev",
                                "net_kilim1,hca=vhca1,wire=cable:x", "--", "-i"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)

    def grown(path, size):
        end = time.monotonic() + SECONDS
        while not os.path.exists(path) or os.path.getsize(path) < size:
            assert time.monotonic() < end and process.poll() is None, path
            time.sleep(0.05)
    lines = ["show captures", f"capture start 0 {first}", f"capture start 0 {second}", "start tx_first", None,
             f"capture start 1 {second}", "capture stop 0", "capture stop 0", "capture start 9 x", None, "stop", "quit"]
    for line in lines:
        if line is None:
            grown(second if os.path.exists(second) else first, 10000)
        else:
            process.stdin.write(line + "\n")
    said = process.communicate(timeout=SECONDS)[0]
    assert process.returncode == 0, said
    for sentence in ("no port is captured", "the port has a capture already", "port 0 is not captured",
                     f"capture of net_kilim0 in {first}: ", f"capture of net_kilim1 in {second}: "):
        assert sentence in said, f"{sentence}\n{said}"
    for path in (first, second):
        with open(path, "rb") as f:
            count = sum(1 for _ in dpkt.pcapng.Reader(f))
        assert count > 20 and f"in {path}: {count} packets" in said, f"{count}\n{said}"


CASES = {f.__name__: f for f in (endpoints, often, exporter, scraped, top)}


def main(root, program, example, case):
    with tempfile.TemporaryDirectory(prefix="kilim.") as folder:
        if case == "captured":
            return captured(root, example, folder)
        if case in ("by_keys", "prompted"):
            return globals()[case](root, program, folder)
        job = Job(root, program, folder, ("--fwd=io", "--tx-first") if case == "often" else ("--fwd=txonly",))
        try:
            CASES[case](job)
        finally:
            if job.process.poll() is None:
                job.process.kill()
            job.process.wait()
    return 0


if __name__ == "__main__":
    main(*sys.argv[1:])
