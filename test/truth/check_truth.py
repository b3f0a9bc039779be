#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the virtual device says of itself beside what real cards say: facts.tsv, asked by unmodified rdma-core
(ibv_devinfo -v and a program that sends QUERY_HCA_CAP).

Each fact is a figure, a have (an ability that both have) or a lack (the device has not the function that
lacks.tsv names). What differs in a figure or a have stands in differences.tsv with the reason, and what a profile
answers otherwise than the default card in profiles.tsv: one more or one less is a fault.

Usage: check_truth.py LAUNCHER QUERY_CAPS [--write]    --write: profiles.tsv anew"""

import concurrent.futures
import csv
import fnmatch
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT = "cx6dx"
KINDS = ("figure", "have", "lack")
# Of device_cap_flags and device_cap_flags_ex, those that Linux tells user space (include/rdma/ib_verbs.h,
# enum ib_device_cap_flags). A dump of an older kernel has its own flags too: 22, 27, 30, 31, 32.
FLAGS = {1: "BAD_PKEY_CNTR", 2: "BAD_QKEY_CNTR", 4: "AUTO_PATH_MIG", 5: "CHANGE_PHY_PORT", 10: "PORT_ACTIVE_EVENT",
         11: "SYS_IMAGE_GUID", 12: "RC_RNR_NAK_GEN", 17: "MEM_WINDOW", 20: "XRC", 21: "MEM_MGT_EXTENSIONS",
         24: "MEM_WINDOW_TYPE_2B", 26: "RAW_IP_CSUM", 29: "MANAGED_FLOW_STEERING", 34: "RAW_SCATTER_FCS",
         36: "PCI_WRITE_END_PADDING"}
ASKED = "QUERY_HCA_CAP"
LISTS = {"general_odp_caps", "rc_odp_caps", "uc_odp_caps", "ud_odp_caps", "xrc_odp_caps"}


def table(name):
    with open(os.path.join(HERE, name), encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def address_kind(gid):
    return "link local" if gid.startswith("fe80:") else "IPv4 mapped" if "ffff:" in gid else "other"


class Devinfo:
    """The fields of `ibv_devinfo -v`, by the names of facts.tsv."""

    def __init__(self, text):
        self.fields, self.section, self.port = {"tag_matching": "supported"}, "", False
        for line in text.splitlines():
            depth = len(line) - len(line.lstrip("\t"))
            self.take(depth, line.strip())

    def take(self, depth, line):
        name, colon, value = (part.strip() for part in line.partition(":"))
        if line == "tag matching not supported":
            self.fields["tag_matching"] = "not supported"
        elif line.startswith("GID["):
            self.gid(int(re.search(r"\d+", line)[0]), value)
        elif not colon:
            self.word(depth, line)
        elif value:
            self.value(depth, name, value)
        elif name == "supported_qp":
            self.section = self.section.removesuffix("_caps") + "_supported_qp"
        else:
            self.section = name.replace(" ", "_")
            if self.section in LISTS:
                self.fields[self.section] = ""

    def gid(self, index, value):
        address, _, kind = value.partition(", ")
        self.fields[f"gid_{index}_type"] = f"{kind} ({address_kind(address)})"

    def word(self, depth, word):
        if depth != 5 or self.section.startswith("device_cap_flags"):
            return
        if self.section == "raw_packet_caps":
            self.fields[f"raw_packet_caps {word}"] = "1"
        elif self.section:
            word = word.removeprefix("SUPPORT_")
            self.fields[self.section] = (self.fields.get(self.section, "") + " " + word).strip()

    def value(self, depth, name, value):
        self.port = self.port or name == "port"
        if name.startswith("device_cap_flags"):
            self.section = name
            for bit, flag in FLAGS.items():
                if int(value, 16) >> bit & 1:
                    self.fields[f"device_cap_flags {flag}"] = "1"
            return
        name = {"completion timestamp_mask": "completion_timestamp_mask",
                "maximum available device memory": "max_device_memory"}.get(name, name)
        if self.port and not name.startswith("port_"):
            name = "port_" + name
        self.fields[name] = re.sub(r"(Bytes|kHZ)$", "", value)


def capabilities(text, layout):
    """The fields of the answers to QUERY_HCA_CAP; nothing of a device without DevX."""
    groups = {}
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["caps"]:
            groups[int(words[1])] = int(words[2], 16)
    found = {}
    for row in layout:
        number, bit, width = (int(row[k], 0) for k in ("number", "bit", "width"))
        if number in groups:
            value = groups[number] >> (4096 * 8 - bit - width) & ((1 << width) - 1)
            found[f"{row['group']} {row['field']}"] = str(value)
    return found


def ask(launcher, program, profile, layout):
    """What a profile answers: by field; a field that is not told is "0" where facts have it."""
    numbers = sorted({row["number"] for row in layout})
    words = f"ibv_devinfo -v && echo DEVX && {program} {' '.join(numbers)}"
    done = subprocess.run([launcher, "--profile", profile, "--", "sh", "-c", words], capture_output=True, text=True,
                          timeout=60, check=False)
    if done.returncode != 0 or "DEVX" not in done.stdout:
        raise SystemExit(f"profile {profile}: the questions failed: {done.stderr.strip()}")
    info, _, caps = done.stdout.partition("DEVX\n")
    found = capabilities(caps, layout)
    return Devinfo(info).fields | found | {ASKED: "answered" if found else "not answered"}


def profiles_of(launcher):
    """The names that the launcher knows, from its sentence about one that it does not."""
    said = subprocess.run([launcher, "--profile", "?", "--", "true"], capture_output=True, text=True, timeout=60,
                          check=False).stderr
    names = re.search(r"no such profile: (.*?) are known", said, re.S)
    if names is None:
        raise SystemExit(f"the launcher names no profiles: {said}")
    return re.findall(r"[a-z0-9-]+", names[1].replace(" and ", " "))


class Judge:
    def __init__(self):
        self.facts, self.faults, self.lacks = table("facts.tsv"), [], []
        self.cards = {}
        for f in self.facts:
            self.cards.setdefault(f["field"], []).append(f)
        for f in self.facts:
            if f["kind"] not in KINDS or not f["source"]:
                self.faults.append(f"facts.tsv, {f['field']}: kind {f['kind']!r}, source {f['source']!r}")

    def functions(self):
        """For each lack the function that is not there."""
        rows, used = table("lacks.tsv"), set()
        for field, facts in self.cards.items():
            if facts[0]["kind"] != "lack":
                continue
            row = next((r for r in rows if fnmatch.fnmatchcase(field, r["field"].replace("[", "[[]"))), None)
            if row is None:
                self.faults.append(f"{field}: a lack, and lacks.tsv does not say which function is not there")
                continue
            used.add(row["field"])
            self.lacks.append((field, facts[0]["value"], row["function"]))
        self.faults += [f"lacks.tsv, {r['field']}: no fact of this name lacks" for r in rows if r["field"] not in used]

    def card(self, answers):
        """The default card's answers beside the facts."""
        known = {r["field"]: r for r in table("differences.tsv")}
        for field, facts in self.cards.items():
            values, mine = [f["value"] for f in facts], answers.get(field, "0")
            row = known.pop(field, None)
            same = mine in values
            if facts[0]["kind"] == "lack":
                if same:
                    self.faults.append(f"{field}: told as a card does ({mine}); facts.tsv calls it a lack")
            elif same and row is not None:
                self.faults.append(f"{field}: told as a card does ({mine}); differences.tsv has it still")
            elif not same and row is None:
                self.faults.append(f"{field}: a card says {' or '.join(values)}, the device {mine}")
            elif row is not None and (row["device"] != mine or not row["why"]):
                self.faults.append(f"{field}: the device says {mine}, differences.tsv {row['device']} ({row['why']})")
            if row is not None and not same:
                print(f"known  {field}: a card {' or '.join(values)}, the device {mine}: {row['why']}")
        self.faults += [f"differences.tsv, {f}: there is no such fact" for f in known]

    def others(self, asked, write):
        """What other profiles answer otherwise than the default one."""
        found = []
        for profile, answers in asked.items():
            silent = answers[ASKED] == "not answered"
            for field in (*sorted(self.cards), ASKED):
                mine = answers.get(field, "0")
                if mine != asked[DEFAULT].get(field, "0") and not (silent and re.match(r"[A-Z_0-9]+ ", field)):
                    found.append((profile, field, mine))
        if write:
            with open(os.path.join(HERE, "profiles.tsv"), "w", encoding="utf-8") as f:
                f.writelines("\t".join(row) + "\n" for row in [("profile", "field", "device"), *found])
        known = {(r["profile"], r["field"], r["device"]) for r in table("profiles.tsv")}
        self.faults += [f"profile {p}, {f}: {v}, which profiles.tsv does not say" for p, f, v in found
                        if (p, f, v) not in known]
        self.faults += [f"profiles.tsv, {p}, {f}: the device does not say {v}" for p, f, v in
                        sorted(known - set(found))]


def main():
    launcher, program = (os.path.abspath(p) for p in sys.argv[1:3])
    layout, judge, names = table("capabilities.tsv"), Judge(), profiles_of(launcher)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        asked = dict(zip(names, pool.map(lambda p: ask(launcher, program, p, layout), names)))
    judge.functions()
    judge.card(asked[DEFAULT])
    judge.others(asked, "--write" in sys.argv[3:])
    for field, value, function in judge.lacks:
        print(f"lack   {field} ({value}): {function}")
    for fault in judge.faults:
        print(f"FAULT  {fault}")
    print(f"{len(judge.facts)} facts, {len(names)} profiles, {len(judge.lacks)} lacks, {len(judge.faults)} faults")
    return 1 if judge.faults else 0


if __name__ == "__main__":
    sys.exit(main())
