# SPDX-License-Identifier: BSD-3-Clause
"""librdmacm's own programs, one in the guest and one on the adapter, in both directions, over a wire
that may lose packets. A program verifies what it receives, or its output is looked at."""

import re
import subprocess
import tempfile
import time

import guest
import relay

SECONDS = 90    # for one program; the connection manager's timeouts are seconds each
SERVER_SECONDS = 1.0    # from a start on the adapter until it listens: nothing tells

IPS = {"hca": "10.7.0.1", "guest": guest.IP}
REFUSED = r"REJECTED, error 8"    # by who listens elsewhere, and says nothing
RPING = r"(?s)(?!.*(error|mismatch))"
# Name, server, client; what both have to say; what is lost on the way to the server and the client.
# {a}: the server's address with its scope; {o}: the client's own; {a4}, {o4}: of IPv4, which both
# have to find by ARP.
PROGRAMS = (
    ("rping", "rping -s -a {a} -v -V -C 10", "rping -c -a {a} -v -V -C 10",
     RPING + r".*rdma-ping-9", "", ""),
    ("rping of 20000 bytes", "rping -s -a {a} -V -C 10 -S 20000", "rping -c -a {a} -V -C 10 -S 20000",
     RPING, "", ""),
    ("rdma_server", "rdma_server -s {a}", "rdma_client -s {a}", r"end 0", "", ""),
    ("ucmatose", "ucmatose -b {a} -c 3 -C 20 -S 3000", "ucmatose -s {a} -b {o} -c 3 -C 20 -S 3000",
     r"data transfers complete[\s\S]*return status 0", "", ""),
    ("udaddy", "udaddy -b {a} -c 2 -C 20", "udaddy -s {a} -b {o} -c 2 -C 20",
     r"data transfers complete[\s\S]*return status 0", "", ""),
    ("rstream", "rstream -b {a} -S 5000 -C 20", "rstream -s {a} -S 5000 -C 20", r"custom +4.8k +20", "", ""),
    ("rping by IPv4 and ARP", "rping -s -a {a4} -v -V -C 10", "rping -c -a {a4} -v -V -C 10",
     RPING + r".*rdma-ping-9", "", ""),
    ("ucmatose by IPv4", "ucmatose -b {a4} -c 3 -C 20 -S 3000", "ucmatose -s {a4} -c 3 -C 20 -S 3000",
     r"data transfers complete[\s\S]*return status 0", "", ""),
    ("mckey", "mckey -b {a4} -m 239.7.0.1 -c 1 -C 10", "mckey -b {o4} -m 239.7.0.1 -s -c 1 -C 10",
     r"return status 0", "", ""),
    ("rping, 5 % lost", "rping -s -a {a} -V -C 40 -S 8000", "rping -c -a {a} -V -C 40 -S 8000",
     RPING, "0.05", "0.05"),
    ("rdma_server, 10 % lost", "rdma_server -s {a}", "rdma_client -s {a}", r"end 0", "0.1", "0.1"),
    ("rping, the first REQ lost", "rping -s -a {a} -v -V -C 3", "rping -c -a {a} -v -V -C 3",
     RPING + r".*rdma-ping-2", "1", ""),
    ("rping, MRA and first REP lost", "rping -s -a {a} -v -V -C 3", "rping -c -a {a} -v -V -C 3",
     RPING + r".*rdma-ping-2", "", "1,2"),
    ("rping, the RTU lost", "rping -s -a {a} -v -V -C 3", "rping -c -a {a} -v -V -C 3",
     RPING + r".*rdma-ping-2", "2", ""),
    ("nobody listens", "timeout 6 rping -s -a {a} -p 9999", "rping -c -a {a} -C 1", REFUSED, "", ""),
)


class Host:
    """The program on the adapter."""

    def __init__(self, launcher, words):
        self.out = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([*launcher, *words.split()], stdin=subprocess.DEVNULL,
                                        stdout=self.out, stderr=subprocess.STDOUT,
                                        preexec_fn=guest.end_with_parent)

    def end(self, seconds):
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "no end"
        self.out.seek(0)
        text = self.out.read()
        self.out.close()
        return code, text


class Inside:
    """The program in the guest."""

    def __init__(self, shell, words, name):
        self.shell, self.file = shell, "/run/" + name
        shell.get(f"timeout {SECONDS} {words} > {self.file} 2>&1 &")
        self.number = shell.get("echo $!").strip()

    def end(self, _seconds):
        code, _ = self.shell.run(f"wait {self.number}")
        return code, self.shell.run(f"cat {self.file}")[1]


class Peers:
    def __init__(self, shell, launcher, wires, seed, gids):
        self.shell, self.launcher, self.wires, self.seed = shell, launcher, wires, seed
        scope = {"hca": "1", "guest": "eth0"}
        self.address = {(of, at): f"{gids[of]}%{scope[at]}" for of in gids for at in gids}

    def start(self, end, words, name):
        return Host(self.launcher, words) if end == "hca" else Inside(self.shell, words, name)

    def started(self, end):
        if end == "hca":
            time.sleep(SERVER_SECONDS)
        else:
            self.shell.try_until("rdma resource show cm_id | grep -q LISTEN", 5)    # mckey does not

    def run(self, row, server_end):
        """("" or what was wrong, packets lost)"""
        name, server, client, wanted, to_server, to_client = row
        client_end = "guest" if server_end == "hca" else "hca"
        self.wires.clean()
        ips = {"a4": IPS[server_end], "o4": IPS[client_end]}
        words = {"a": self.address[server_end, server_end]} | ips
        ends = [self.start(server_end, server.format(**words), "server")]
        self.started(server_end)
        self.wires.plans[server_end] = relay.Plan(to_server, self.seed)
        self.wires.plans[client_end] = relay.Plan(to_client, self.seed + 1)
        words = {"a": self.address[server_end, client_end],
                 "o": self.address[client_end, client_end]} | ips
        ends.append(self.start(client_end, client.format(**words), "client"))
        found = [end.end(SECONDS) for end in reversed(ends)]
        lost = sum(p.lost for p in self.wires.plans.values())
        good = all(re.search(wanted, text) and code == 0 for code, text in found)
        if wanted == REFUSED:
            good = re.search(wanted, found[0][1]) is not None
        if (to_server or to_client) and not lost:
            return "nothing was lost", 0
        told = "".join(f"\n    ended with {code}:\n" + "".join(
            f"      {line}\n" for line in text.splitlines()[-12:]) for code, text in found)
        return ("" if good else told), lost
