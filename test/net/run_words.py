#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The words of dpdk-testpmd that testpmd_words.txt lists, typed at Debian's on a net_kilim port and on DPDK's own mlx5
driver (kilim-vhca --pci): both take the same ones, or the list says why not.

Usage: run_words.py PLUGIN SOURCE_ROOT KILIM_VHCA SECTION...     SECTION as in the list
       run_words.py PLUGIN SOURCE_ROOT KILIM_VHCA flow_perf      dpdk-test-flow-perf makes and takes back rules"""

import os
import re
import shutil
import sys
import tempfile

from dpdk_bench import NO_HUGE, Bench, Testpmd
from dpdk_words import neighbours
from prompt_session import Session

# Why answers may differ: the first two say what it is, the third names one of the features that net_kilim lacks until
# further work on packets.
REASONS = ("a card refuses it", "the driver emulates it", "packets issue")
LACKING = ("buffer split", "outer checksums", "TSO in tunnels", "last", "shared receive queues",
           "flow control", "link up and down", "UDP tunnel ports", "runtime queue setup", "power monitor", "KEEP_CRC",
           "reset of flow counters", "xstats by id", "metadata negotiation", "packet types of ARP and ICMP")
LONGEST = 500  # seconds of a session, where the machine is busy
SENTENCE = 20  # letters that a reason takes at least
TAKERS = {"both": (True, True), "none": (False, False), "kilim": (True, False), "mlx5": (False, True)}
# What the port has to take, of how many.
LEAST = {"patterns": (35, 43), "actions": (10, 24)}
COMPLAINT = re.compile(r"(?i)(?<![-\w])(error(?! handling)|failed|fail|invalid|bad arguments|not supported|don't support|can't|"
                       r"cannot|can not|unable|not found|not implemented)\b(?!:? 0)|return code = -|diag=-|\(-\d+\)")
# What drivers log, and testpmd's warnings, beside an answer.
ASIDE = re.compile(r"^(mlx5_\w+|net_kilim\d*|Warning): .*\n?", re.M)


def wrong_reason(reason):
    """What is wrong with why answers differ; None: nothing."""
    kind, colon, why = reason.partition(": ")
    if kind not in REASONS or not colon:
        return f"begin with one of {REASONS} and a colon"
    if kind == "packets issue":
        return None if why in LACKING else f"further work on packets names {LACKING}, not {why!r}"
    return None if len(why) >= SENTENCE else "say what it is"


def sections(root):
    """Who takes each line of words, by section: (takers, words, reason)."""
    found, now = {}, None
    with open(os.path.join(root, "test/net/testpmd_words.txt"), encoding="utf8") as f:
        for number, line in enumerate(f, 1):
            line = line.strip()
            if line.startswith("[") and line.endswith("]"):
                now = found.setdefault(line[1:-1], [])
            elif line and not line.startswith("#"):
                taker, _, rest = line.partition(" ")
                words, _, reason = rest.partition(" # ")
                assert taker in TAKERS and words, f"testpmd_words.txt:{number}: {line}"
                differs = taker in ("kilim", "mlx5")
                assert differs == bool(reason), f"testpmd_words.txt:{number}: a reason where answers differ, and only there"
                wrong = wrong_reason(reason) if differs else None
                assert wrong is None, f"testpmd_words.txt:{number}: {reason}: {wrong}"
                now.append((taker, words, reason))
    return found


class Launched(Testpmd):
    """dpdk-testpmd with DPDK's mlx5 driver under the launcher."""

    def __init__(self, bench, launcher, wire, *own):
        from testpmd import begin
        before, eal = begin(launcher, [wire], ["--mac", "02:4b:4c:00:00:01", "--profile", "cx6dx"])
        Session.__init__(self, [*before, "dpdk-testpmd", *eal, "--", "-i", "--total-num-mbufs=8192", "--rxd=256", "--txd=256",
                                "--mask-event=intr_lsc", *own], bench.folder, LONGEST)  # an event may come amid a prompt
        self.begin = self.read()


PATTERNS, ACTIONS, EGRESS, KEEPS = ("patterns", "items"), ("actions", "changes"), ("egress",), ("flow",)


def typed(section, words):
    """The line that says it."""
    if words.startswith(("set ", "show ")):
        return words
    if section in PATTERNS:
        return f"flow create 0 ingress pattern {words} / end actions queue index 0 / end"
    if section in EGRESS:
        return f"flow create 0 egress pattern {words} / end" if not words.endswith("actions end") else \
            f"flow create 0 egress pattern {words}"
    return f"flow create 0 ingress pattern {words} / end" if section in ACTIONS else words


def takes(t, line, keeps):
    """Whether it takes the line, and its answer; a rule goes again, unless the section is about rules that stay."""
    said = t.say(line)
    answer = said.split("\n", 1)[-1] if line in said else said  # without what was typed
    if line.startswith("flow create"):
        taken = "created" in answer
        if taken and not keeps:
            t.say("flow flush 0")
    else:
        taken = COMPLAINT.search(ASIDE.sub("", answer)) is None
    return taken, answer


def compare(b, launcher, names):
    lists = sections(b.root)
    wires, _ = neighbours(b, 2)
    own = ["--rxq=2", "--txq=2", "--portmask=1"]
    kilim = b.testpmd([f"net_kilim0,{wires[0]}"], *own)
    mlx5 = Launched(b, launcher, wires[1].split("=", 1)[1], *own)
    b.running.append(mlx5)
    kilim.end = mlx5.end
    wrong = []
    for name in names:
        taken = 0
        for taker, words, _ in lists[name]:
            line = typed(name, words)
            (here, why), (there, why_there) = (takes(t, line, name in KEEPS) for t in (kilim, mlx5))
            taken += here
            if (here, there) != TAKERS[taker]:
                now = {v: k for k, v in TAKERS.items()}[(here, there)]
                wrong.append(f"{taker}, is {now}: {line}\n  net_kilim: {why.strip()[-300:]}\n  mlx5: {why_there.strip()[-300:]}")
        if name in LEAST:
            least, of = LEAST[name]
            assert len(lists[name]) == of, (name, len(lists[name]))
            print(f"{name}: net_kilim takes {taken} of {of}", flush=True)
            if taken < least:
                wrong.append(f"{name}: {taken} taken, fewer than {least}")
    assert not wrong, "answers are not as testpmd_words.txt says:\n" + "\n".join(wrong)
    kilim.quit()
    mlx5.quit()


def flow_perf(b):
    """Debian's dpdk-test-flow-perf inserts, counts and removes rules of several kinds."""
    if shutil.which("dpdk-test-flow-perf") is None:
        print("Debian's package dpdk has no dpdk-test-flow-perf")
        sys.exit(77)
    (wire,), _ = neighbours(b, 1)
    for rules in (["--queue"], ["--rss"], ["--drop"], ["--queue", "--mark", "--count"]):
        said = b.run("dpdk-test-flow-perf", *NO_HUGE, *b.eal(), "-l", "0-1", "--vdev", f"net_kilim0,{wire}", "--", "--ingress",
                     "--ether", "--ipv4", "--udp", *rules, "--rules-count=1000", "--rules-batch=500", "--deletion-rate",
                     "--portmask=1")
        assert "Insertion" in said or "insertion" in said, said
        assert not re.search(r"(?i)error|fail", said), said


def main():
    plugin, root, launcher = sys.argv[1:4]
    if shutil.which("dpdk-testpmd") is None:
        print("Debian's package dpdk is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="kilim-words-") as folder:
        b = Bench(os.path.abspath(plugin), root, folder)
        try:
            if sys.argv[4:] == ["flow_perf"]:
                flow_perf(b)
            else:
                compare(b, os.path.abspath(launcher), sys.argv[4:])
        finally:
            for t in b.running:
                t.kill()


if __name__ == "__main__":
    main()
