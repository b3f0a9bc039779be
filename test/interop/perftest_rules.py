# SPDX-License-Identifier: BSD-3-Clause
"""perftest's programs, transports and options, and what has to come of each combination: a table of
results, or a refusal in certain words. From perftest's sources (4.5+0.17, Debian 12): which checks
it makes, in which order, what it says; and from what the adapter's transports are good for."""

import collections

PROGRAMS = ("ib_write_bw", "ib_write_lat", "ib_read_bw", "ib_read_lat", "ib_send_bw",
            "ib_send_lat", "ib_atomic_bw", "ib_atomic_lat")
TRANSPORTS = ("RC", "UC", "UD", "XRC", "DC")
OPTIONS = {    # as the table of results names them, and as a program is told
    "-a": ["-a"], "--inline_recv": ["--inline_recv=32"], "--use_hugepages": ["--use_hugepages"],
    "--mr_per_qp": ["--mr_per_qp"], "--use-srq": ["--use-srq"], "--odp": ["--odp"],
    "-l 8": ["-l", "8"], "-e": ["-e"], "-q 8": ["-q", "8"], "--out_json": ["--out_json"]}
HUGEPAGES = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"

Case = collections.namedtuple("Case", "program transport options")


def verb(case):
    return case.program.split("_")[1]


def is_latency(case):
    return case.program.endswith("_lat")


def queues(case):
    return 8 if "-q 8" in case.options else 1


def rounds(case):
    """Enough to fill a queue twice; a multiple of a list's length. All sizes take long."""
    if "-a" in case.options:
        return 6 if is_latency(case) else 16
    return 40 if is_latency(case) else 280


def sizes(case):
    """Of the messages, one for each row of results."""
    if "-a" in case.options:
        return [1 << n for n in range(1, 13 if case.transport == "UD" else 24)]
    if verb(case) == "atomic":
        return [8]
    if is_latency(case):
        return [2]
    return [4096 if case.transport == "UD" else 65536]


def command(case):
    return [case.program, "-d", "vhca0", "-x", "0", "-F", "-n", str(rounds(case)), "-c",
            case.transport, *(word for o in case.options for word in OPTIONS[o])]


def free_hugepages():
    try:
        with open(HUGEPAGES, encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return 0


def hugepages_for(case):
    """Of both sides: a buffer to send from and one to receive into, of each queue pair."""
    return 2 * queues(case) * max(1, 2 * sizes(case)[-1] >> 21)


# When, and what both sides say; the first that holds counts.
REFUSALS = (
    (lambda c: c.transport == "UC" and verb(c) in ("read", "atomic"),
     "UC connection not possible in READ/ATOMIC verbs"),
    (lambda c: c.transport == "UD" and verb(c) != "send",
     "UD connection only possible in SEND verb"),
    (lambda c: "-e" in c.options and verb(c) == "write",
     "Events feature not available on WRITE verb"),
    (lambda c: "-q 8" in c.options and is_latency(c), "Multiple QPs only available on bw tests"),
    (lambda c: "-a" in c.options and verb(c) == "atomic",
     "Message size cannot be changed for Atomic tests"),
    (lambda c: "--use-srq" in c.options and verb(c) != "send",
     "Using SRQ only avavilible in SEND tests"),
    (lambda c: "-l 8" in c.options and is_latency(c), "Post list is supported in BW tests only"),
    (lambda c: "--odp" in c.options and verb(c) == "atomic",
     "ODP does not support ATOMICS for now"),
    (lambda c: "--odp" in c.options and c.transport == "UC", "ODP does not support UC"),
    (lambda c: "--use_hugepages" in c.options and free_hugepages() < hugepages_for(c),
     "Failed to allocate hugepages. Please configure hugepages"),
)


def refusal(case):
    """What perftest says when it refuses; None where it runs."""
    return next((words for when, words in REFUSALS if when(case)), None)


# What does not run although perftest would: how it ends, and why. Without a pattern it never ends,
# and is not tried; in a race it may end well too.
Limit = collections.namedtuple("Limit", "when pattern why race", defaults=(False,))
LIMITS = (
    Limit(lambda c: "-e" in c.options and is_latency(c) and verb(c) in ("read", "atomic"),
          "Couldn't post send",
          "a race of perftest's: it asks for the next event before it has polled the entry that the "
          "last one was about, so an event is always there early; then it posts although its queue "
          "of one request is full. A card's interrupt comes later than the answer of a READ, which "
          "hides it; here the event is at once and the answer takes a process", True),
    Limit(lambda c: "-e" in c.options and c.program == "ib_send_lat",
          "Couldn't post|Failed status|Failed to close connection",
          "the same race, and one more: an event of the receive queue is taken for one of the send "
          "queue, which is then found empty; the entry that was not read is judged all the same", True),
    Limit(lambda c: "--odp" in c.options and c.transport == "UD", "Failed status 4",
          "on-demand paging of UD is for what it sends, says ibv_query_device_ex: a datagram that is "
          "received into a page which the adapter does not have ends with a local protection error"),
    Limit(lambda c: "--mr_per_qp" in c.options and c.program == "ib_write_lat" and
          c.transport in ("XRC", "DC"), None,
          "not tried, it would wait for ever on any card: ib_write_lat has no such option, takes it all "
          "the same, and looks for its peer's data behind the end of the first queue's buffer"),
    Limit(lambda c: "-e" in c.options and c.transport == "DC",
          "Failed to close event channel",
          "perftest makes a receive CQ for DC and destroys it with SEND alone, and not in the server: "
          "then it cannot close the channel of its events. The data has passed"),
)


def limit(case):
    return next((known for known in LIMITS if known.when(case)), None)
