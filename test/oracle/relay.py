# SPDX-License-Identifier: BSD-3-Clause
"""The wire between the virtual adapter and the guest: two unix datagram sockets, a thread for each
direction, and a plan that says which packets are lost."""

import os
import random
import socket
import threading

ROCE_PORT = 4791


def is_roce(frame):
    """IPv6 and UDP to RoCE's port: nothing else is ever lost."""
    return (len(frame) > 62 and frame[12:14] == b"\x86\xdd" and frame[20] == 17 and
            int.from_bytes(frame[56:58], "big") == ROCE_PORT)


ACKNOWLEDGE = 0x11
KINDS = {1: "rnr", 3: "nak"}    # bits 6:5 of an AETH's syndrome


def answer_of(frame):
    """"rnr" or "nak" for an acknowledgement that says no."""
    if len(frame) > 75 and frame[62] == ACKNOWLEDGE:
        return KINDS.get(frame[74] >> 5 & 3)
    return None


class Plan:
    """What is lost in one direction: packets by their number from now (the first is 1), all of
    them, or each with a probability that a seed decides. `answers`: what else was seen."""

    def __init__(self, words="", seed=0):
        self.all = words == "all"
        self.rate = float(words) if "." in words else 0.0
        self.numbers = set() if self.all or self.rate or not words else {
            int(w) for w in words.split(",")}
        self.random = random.Random(seed)
        self.seen = self.lost = 0
        self.answers = set()

    def loses(self, frame):
        self.seen += 1
        self.answers.add(answer_of(frame))
        lost = self.all or self.seen in self.numbers or self.random.random() < self.rate
        self.lost += lost
        return lost


class Relay:
    """`plans` may be replaced at any time; one of each direction, by the end that it leads to."""

    def __init__(self, folder):
        self.plans = {"hca": Plan(), "guest": Plan()}
        self.ends = {end: f"{folder}/{end}" for end in self.plans}
        self.sockets = {}
        for end in self.plans:
            s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
            s.bind(f"{folder}/to-{end}")
            self.sockets[end] = s
        self.threads = [threading.Thread(target=self.carry, args=pair, daemon=True)
                        for pair in (("hca", "guest"), ("guest", "hca"))]
        for thread in self.threads:
            thread.start()

    def carry(self, source, target):
        while True:
            frame = self.sockets[source].recv(1 << 16)
            if is_roce(frame) and self.plans[target].loses(frame):
                continue
            try:
                self.sockets[target].sendto(frame, self.ends[target])
            except OSError:
                pass    # nobody there yet, or any more

    def clean(self):
        self.plans = {"hca": Plan(), "guest": Plan()}


def names_of(folder):
    """What the adapter's wire is called."""
    return f"dgram:{os.path.join(folder, 'hca')}:{os.path.join(folder, 'to-hca')}"
