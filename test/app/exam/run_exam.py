# SPDX-License-Identifier: BSD-3-Clause
"""kilim-exam on the virtual card: two runs agree; each verdict is turned over by a profile, a fault or an order; a report
names no machine; two profiles differ in what they differ in; a question without an end is killed; a report that is no report is a
sentence.

Usage: run_exam.py KILIM_VHCA KILIM_EXAM"""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile

SECONDS = 60
# Question: its verdict on the default card, what turns it over, the verdict then. The row of a question that nothing turns
# over says so itself ("cannot fail here").
CABLE = ["--devices", "2", "--wire", "cable:c", "--wire", "cable:c"]
LOSSY = "cable:c+fault:drop:0.3"
TURNED = {
    "F1": ("read", ["--profile", "no-devx"], "no DevX"),
    "F2": (None, ["--profile", "infiniband"], "InfiniBand"),
    "E32": ("syndromes of the PRM", ["--fault", "wqe@1+1"], "other syndromes"),
    "E31": ("four modes", ["--fault", "wqe@2"], "other completions"),
    "E37": ("default rules get it", ["--netdev"], "default rules do not get it"),
    "E1": ("whole", ["--fault", "wqe@2"], "refused"),
    "E45": ("recovers", ["--fault", "wqe@4"], "dead afterwards"),
    "E35": ("none lost, in blocks", ["--devices", "2", "--wire", LOSSY, "--wire", LOSSY], "lost or doubled"),
    "E41": ("all arrive", ["--profile", "no-mpw"], "refused"),
    "E42": (None, [*CABLE, "--profile", "no-tx-offloads"], "otherwise"),
    "E24": ("taken", ["--profile", "no-crypto"], "refused"),
    "E15": ("never wrong", ["--order", "late-umr"], "wrong data"),
    "E16": ("small suffices", ["--order", "late-read"], "small lands wrong"),
    "E17": ("old data", ["--order", "resend"], "new data"),
    "E18": ("the last wins", ["--fault", "wqe@3"], "an error"),
    "E19": ("all complete", ["--fault", "wqe@100"], "an error"),
    "E4": ("2^31 bytes", ["--fault", "wqe@2"], "an error"),
    "E7": ("as the capability says", ["--fault", "wqe@3"], "another depth"),
    "E8": ("error at use", ["--fault", "wqe@1"], "error at the UMR"),
    "E9": ("old entries are alive", ["--fault", "wqe@3"], "an error"),
    "E10": ("granules are patched", ["--fault", "wqe@3"], "refused"),
    "E11": ("the usual fields", ["--profile", "plain-lists"], "fewer fields"),
    "E13": ("checked", ["--fault", "wqe@1"], "other"),
    "E14": ("old tags are refused", ["--fault", "wqe@2"], "other"),
    "E5": ("ignored", ["--fault", "wqe@3"], "some are refused"),
    "E6": ("as written", ["--fault", "wqe@2"], "some differ"),
    "E22": ("as written", ["--fault", "wqe@3"], "some fail"),
    "E20": ("free afterwards", ["--fault", "wqe@2"], "refused"),
    "E21": ("windows bind", ["--profile", "vf"], "no windows"),
    "E25": ("by indirect keys too", ["--fault", "wqe@2"], "not by indirect keys"),
    "E26": ("below keys too", ["--profile", "no-odp"], "no paging"),
    "E27": ("claimed and done", ["--profile", "less-odp"], "neither"),
    "E28": ("30 pieces", ["--fault", "wqe@2"], "fewer"),
    "E29": ("63 octowords", ["--fault", "wqe@4"], "60 or more"),
    "E34": ("the queue's event", ["--fault", "fatal@1"], "another event"),
    "E36": ("in the entry", ["--profile", "no-inline"], "in memory"),
}
MAC, GID, IP = "02:5a:11:22:33:44", "fd00::1234:5678:9abc:def1", "198.51.100.77"


class Exam:
    def __init__(self, vhca, exam, folder):
        self.vhca, self.exam, self.folder, self.faults, self.checks = vhca, exam, folder, [], 0

    def check(self, good, what):
        self.checks += 1
        if not good:
            self.faults.append(what)
            print(f"fault: {what}")

    def alone(self, *words):
        return subprocess.run([self.exam, *words], capture_output=True, text=True, timeout=SECONDS, check=False)

    def run(self, name, card, *words):
        """The report of an examination of the virtual card that these words of the launcher make."""
        path = os.path.join(self.folder, name + ".json")
        wire = [] if "infiniband" in card or "--wire" in card else ["--wire", f"unix:{self.folder}/{name}.d"]
        done = subprocess.run([self.vhca, "--no-explain", *wire, *card, "--", self.exam, "--out", path, *words], capture_output=True,
                              text=True, timeout=SECONDS, check=False)
        self.check(done.returncode == 0, f"{name}: ends with {done.returncode}: {done.stderr[-300:]}")
        if not os.path.exists(path):
            return {"questions": []}
        with open(path, encoding="ascii") as f:
            return json.load(f)


def verdicts(report):
    return {q["id"]: q["verdict"] for q in report["questions"]}


def lasting(report):
    """What a report says of the device, without the fields that it says are measured."""
    kept = dict(report)
    for field in report["measured"]:
        if field == "questions[].measured":
            kept["questions"] = [{k: v for k, v in q.items() if k != "measured"} for q in kept["questions"]]
        else:
            kept.pop(field)
    return kept


def two_runs(e, runs):
    first, second = runs["first"], runs["second"]
    for a, b in zip(first["questions"], second["questions"]):
        for name in set(a["facts"]) | set(b["facts"]):
            one, other = a["facts"].get(name), b["facts"].get(name)
            e.check(one == other, f"two runs differ in {a['id']}, {name}: {one} and {other}")
    e.check(lasting(first) == lasting(second), "two runs on one card do not agree")
    e.check(any(q["measured"] for q in first["questions"]), "nothing is measured")
    for q in first["questions"]:
        e.check(q["verdict"] not in ("hung", "died"), f"{q['id']}: {q['verdict']}")


def table(e, runs):
    listed = e.alone("--list").stdout
    rows = dict(re.findall(r"(?m)^([EF]\d+) [^\n]*\n(?:     [^\n]*\n)*?     on the virtual card: ([^\n]*)$", listed))
    seen = verdicts(runs["first"])
    e.check(set(rows) == set(seen), "--list and a report have other questions")
    for name, turned in rows.items():
        e.check(turned.startswith("cannot fail here: ") == (name not in TURNED), f"{name} is turned over by '{turned}'")
        if name in TURNED:
            e.check(" ".join(TURNED[name][1][-2:]) in turned, f"{name}: the test turns it over otherwise than '{turned}'")
    for name, (usual, card, other) in TURNED.items():
        e.check(usual is None or seen.get(name) == usual, f"{name} says '{seen.get(name)}', not '{usual}'")
        e.check(seen.get(name) != other, f"{name} says '{other}' of the default card too")
        if f"turned-{name}" in runs:
            now = verdicts(runs[f"turned-{name}"]).get(name)
            e.check(now == other, f"{name} with {' '.join(card)} says '{now}', not '{other}'")
            e.check(f"     {other}: " in listed, f"{name}: --list does not say what '{other}' means")


def forms(mac, gid, ip):
    digits = mac.replace(":", "")
    yield from (mac, digits, digits[:6] + "fffe" + digits[6:], gid, "fd0000000000000012345678" + "9abcdef1", "9abcdef1", ip,
                "ffff" + bytes(map(int, ip.split("."))).hex())


def names(e, runs):
    told, kept = (json.dumps(runs[k]).lower() for k in ("hidden", "kept"))
    leaked = [f for f in forms(MAC, GID, IP) if f in told]
    e.check(not leaked, f"a report names {leaked}")
    shown = [f for f in forms(MAC, GID, IP) if f in kept]
    e.check(len(shown) >= 3, f"--keep-names shows {shown} alone: the search finds nothing")
    e.check(runs["hidden"]["anonymised"] and not runs["kept"]["anonymised"], "a report does not say whether it has names")


def differences(e, runs):
    """--compare says each fact and verdict that differs, and nothing else."""
    a, b = runs["first"], runs["less-odp"]
    want = []
    for one, other in zip(a["questions"], b["questions"]):
        want += ["verdict"] if one["verdict"] != other["verdict"] else []
        want += [k for k in one["facts"] if one["facts"][k] != other["facts"].get(k)]
        want += [k for k in other["facts"] if k not in one["facts"]]
    done = e.alone("--compare", f"{e.folder}/less-odp.json", f"{e.folder}/first.json")
    said = re.findall(r"(?m)^  (?!for Kilim|facts:)([^:\n]+): ", done.stdout)
    e.check(done.returncode == 1, f"--compare of two cards ends with {done.returncode}")
    e.check(sorted(said) == sorted(want), f"--compare lists {said}, and {want} differ")
    ids = re.findall(r"(?m)^([EF]\d+) ", done.stdout)
    e.check(ids == ["F1", "F2", "E27"], f"--compare names {ids}")
    e.check("for Kilim: profile less-odp is the card" in done.stdout, "--compare does not say what a verdict means")
    same = e.alone("--compare", f"{e.folder}/first.json", f"{e.folder}/second.json")
    e.check(same.returncode == 0 and "0 differences" in same.stdout, f"one card differs from itself: {same.stdout}")


def beside_a_device(e):
    """--compare with one report asks the device at hand."""
    for profile, code, count in (("cx6dx", 0, 0), ("less-odp", 1, 3)):
        done = subprocess.run([e.vhca, "--profile", profile, "--wire", f"unix:{e.folder}/one.d", "--", e.exam, "--compare",
                               f"{e.folder}/first.json", "--only", "E1,E27"], capture_output=True, text=True, timeout=SECONDS, check=False)
        said = re.findall(r"(?m)^  (?!for Kilim|facts:)", done.stdout)
        e.check((done.returncode, len(said)) == (code, count),
                f"--compare of one report beside {profile}: {done.returncode}, {done.stdout}")


def hanging(e, runs):
    slow = runs["slow"]["questions"][0]
    e.check(slow["verdict"] == "hung", f"a question without an end is '{slow['verdict']}'")
    e.check(slow.get("why", "").startswith("no answer within 1 s: the child was killed"), f"it says '{slow.get('why')}'")


HOSTILE = {
    "empty": b"",
    "no JSON": b"{\"report\": \"kilim-exam\", ",
    "no object": b"[1, 2]",
    "another": b"{\"report\": \"x\"}",
    "no schema": b"{\"report\": \"kilim-exam\", \"questions\": []}",
    "newer": b"{\"report\": \"kilim-exam\", \"schema\": 99999999999, \"questions\": []}",
    "no questions": b"{\"report\": \"kilim-exam\", \"schema\": 1}",
    "questions of numbers": b"{\"report\": \"kilim-exam\", \"schema\": 1, \"questions\": [1, null, {}]}",
    "no verdict": b"{\"report\": \"kilim-exam\", \"schema\": 1, \"questions\": [{\"id\": \"E1\"}]}",
    "facts of numbers": b"{\"report\": \"kilim-exam\", \"schema\": 1, \"questions\": [{\"id\": \"E1\", \"verdict\": \"x\", \"facts\": {\"a\": 1}}]}",
    "a list of facts": b"{\"report\": \"kilim-exam\", \"schema\": 1, \"questions\": [{\"id\": \"E1\", \"verdict\": \"x\", \"facts\": []}]}",
    "twice": b"{\"report\": \"kilim-exam\", \"report\": \"kilim-exam\", \"schema\": 1, \"questions\": []}",
    "no text": b"{\"report\": \"kilim-exam\", \"schema\": 1, \"questions\": [{\"id\": \"\xff\xfe\", \"verdict\": \"x\"}]}",
    "many questions": b'{"report": "kilim-exam", "schema": 1, "questions": [' + b'{"id": "E1", "verdict": "x"},' * 100000 + b'{"id": "E1", "verdict": "x"}]}',
    "many facts": b'{"report": "kilim-exam", "schema": 1, "questions": [{"id": "E1", "verdict": "x", "facts": {'
                  + b",".join(b'"f%d": ""' % i for i in range(100000)) + b"}}]}",
    "deep": b"[" * 1000000,
    "binary": bytes(range(256)) * 64,
}


def hostile(e):
    good = f"{e.folder}/first.json"
    for name, text in HOSTILE.items():
        path = f"{e.folder}/hostile {name}"
        with open(path, "wb") as f:
            f.write(text)
        done = e.alone("--compare", path, good)
        e.check(done.returncode == 2 and path in done.stderr and len(done.stderr) < 1000 and not done.stdout,
                f"a report that is '{name}' ends with {done.returncode}: {done.stderr[:200]}")
    odd = json.loads(open(good, encoding="ascii").read())
    odd["questions"][0]["verdict"] = "\x1b]0;title\x07 a\nb"
    with open(f"{e.folder}/odd", "w", encoding="ascii") as f:
        json.dump(odd, f)
    done = e.alone("--compare", f"{e.folder}/odd", good)
    e.check(done.returncode == 1 and not re.search(r"[\x00-\x09\x0b-\x1f]", done.stdout) and "1 differences" in done.stdout,
            f"a verdict that speaks to the terminal: {done.returncode}, {done.stdout!r}")
    with open(f"{e.folder}/huge", "wb") as f:
        f.truncate(1 << 33)
    for path in (f"{e.folder}/huge", e.folder, "/dev/zero", f"{e.folder}/nowhere"):
        done = e.alone("--compare", good, path)
        e.check(done.returncode == 2 and path in done.stderr, f"{path} ends with {done.returncode}: {done.stderr[:200]}")
    for words in (["--device", "nowhere"], ["--only", "E999"], ["--effort", "0"], ["stray"], ["--compare", "a", "b", "c"], ["--cable"], ["--bogus"]):
        done = e.alone(*words)
        e.check(done.returncode == 2 and done.stderr.startswith("kilim-exam: "), f"{words} ends with {done.returncode}: {done.stderr}")


def ways_to_ask(e, runs):
    """A second device, and what --disturb allows."""
    alone, beside = verdicts(runs["first"]), verdicts(runs["peer"])
    e.check(alone["E42"] == "not run" and beside.pop("E42", None) == "as asked", f"E42 says {alone['E42']} alone, {beside}")
    e.check(len(beside) == 4 and all(alone[k] == v for k, v in beside.items()), f"with --peer: {beside}")
    asked = {q["id"]: q for q in runs["first"]["questions"]}["E48"]
    e.check((asked["verdict"], asked["why"]) == ("not run", "it changes the network interface: --disturb allows that"),
            f"E48 without --disturb: {asked}")
    if "link" in runs:
        facts = runs["link"]["questions"][0]["facts"]
        e.check((facts.get("events of down"), facts.get("events of up")) == ("port error", "port active"), f"E48 says {facts}")


def pages(e, runs):
    with open(f"{e.folder}/page.html", encoding="utf-8") as f:
        page = f.read()
    e.check(all(f"id={q['id']}>" in page for q in runs["first"]["questions"]), "the page lacks a question")
    e.check(not re.search(r"https?:|<script|<link", page), "the page names another file")


def plan(e):
    """name -> words of the launcher, words of the program."""
    all_runs = {"first": ([], ["--html", f"{e.folder}/page.html"]), "second": ([], []),
                "less-odp": (["--profile", "less-odp"], []),
                "slow": ([], ["--only", "E6", "--effort", "1000", "--limit", "1"])}
    addresses = ["--mac", MAC, "--gid", GID, "--ip", IP + "/24"]
    all_runs["hidden"] = (addresses, ["--only", "F1,F2,F5,E1,E37,E19"])
    all_runs["kept"] = (addresses, ["--only", "F2,E1", "--keep-names"])
    for name, (_, card, _) in TURNED.items():
        if card == ["--netdev"] and os.geteuid() != 0:
            print("no root: E37 is not turned over, since interfaces cannot be made")
            continue
        all_runs[f"turned-{name}"] = (card, ["--only", name] + (["--peer", "vhca1", "--cable"] if "--devices" in card else []))
    all_runs["peer"] = (CABLE, ["--peer", "vhca1", "--cable", "--only", "E35,E37,E41,E42,E44"])
    if os.geteuid() == 0:
        all_runs["link"] = (["--netdev"], ["--disturb", "--only", "E48"])
    return all_runs


def main(vhca, exam):
    with tempfile.TemporaryDirectory(prefix="kilim-exam-") as folder:
        e = Exam(vhca, exam, folder)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they wait more than they work
            waits = {name: pool.submit(e.run, name, card, *words) for name, (card, words) in plan(e).items()}
        runs = {name: w.result() for name, w in waits.items()}
        for part in (two_runs, table, names, differences, hanging, ways_to_ask, pages):
            part(e, runs)
        beside_a_device(e)
        hostile(e)
        print(f"{e.checks} checks, {len(e.faults)} faults")
        return 1 if e.faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
