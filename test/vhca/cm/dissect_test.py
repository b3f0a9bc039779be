# SPDX-License-Identifier: BSD-3-Clause
"""What tshark reads of the connection manager's messages. Usage: dissect_test.py CM_TESTS"""

import os
import shutil
import subprocess
import sys
import tempfile

# Field by field of one connection that is made and ended, a service that is resolved, and a
# connection that is refused; nothing else may be in the capture.
REQ = {"req.serviceid.prefix": "0000000001", "req.serviceid.protocol": "0x06",
       "req.serviceid.dport": "0x1d2f", "req.localcaguid": "0x020000fffe000001",
       "req.localqpn": "0x004321", "req.responderres": "0x04", "req.initdepth": "0x04",
       "req.transpsvctype": "0x00", "req.e2eflowctrl": "0x01", "req.startpsn": "0x000999",
       "req.retrcount": "0x07", "req.rnrretrcount": "0x07", "req.pppmtu": "0x03",
       "req.maxcmretr": "0x0f", "req.pkey": "0xffff", "req.prim_localgid": "fe80::ff:fe00:1",
       "req.prim_remotegid": "fe80::ff:fe00:2", "req.prim_hoplim": "0x40",
       "req.prim_localacktout": "0x10", "req.ip_cm.ipv": "0x04", "req.ip_cm.sport": "0x1234",
       "req.ip_cm.sip4": "10.0.0.1", "req.ip_cm.dip4": "10.0.0.2"}
REP = {"rep.startpsn": "0x000777", "rep.respres": "0x04", "rep.initdepth": "0x04",
       "rep.tgtackdelay": "0x10", "rep.failoveracc": "0x00", "rep.e2eflowctrl": "0x01",
       "rep.localcaguid": "0x020000fffe000002"}
REJ = {"rej.msgrej": "0x00", "rej.reason": "0x0008", "rej.rejinfolen": "0x00"}
EXPECTED = {"0x0010": REQ, "0x0013": REP, "0x0014": {}, "0x0015": {}, "0x0016": {}, "0x0017": {},
            "0x0018": {}, "0x0012": REJ}
IDS = {"0x0013": ("rep", "rep.remotecommid"), "0x0014": ("rtu.localcommid", "rtu.remotecommid"),
       "0x0015": ("dreq.localcommid", "dreq.remotecommid"),
       "0x0016": ("drsp.localcommid", "drsp.remotecommid")}
COMMON = {"infiniband.bth.opcode": "100", "infiniband.bth.destqp": "0x000001",
          "infiniband.bth.p_key": "65535", "infiniband.deth.srcqp": "0x00000001",
          "infiniband.deth.q_key": "0x0000000080010000", "infiniband.mad.mgmtclass": "0x07",
          "infiniband.mad.classversion": "0x02", "infiniband.mad.method": "0x03",
          "_ws.malformed": ""}


def cm(name):
    """The whole name of a field of tshark's."""
    return "infiniband.cm." + name


def read(capture):
    """Each packet as a dictionary of fields."""
    names = list(COMMON) + ["infiniband.mad.attributeid", cm("req")]
    names += [cm(n) for fields in EXPECTED.values() for n in fields]
    names += [cm(n) for pair in IDS.values() for n in pair]
    out = subprocess.run(["tshark", "-r", capture, "-T", "fields", "-E", "separator=;", "-E",
                          "occurrence=f", *(w for n in names for w in ("-e", n))],
                         capture_output=True, text=True, check=True).stdout.splitlines()
    return [dict(zip(names, line.split(";"))) for line in out]


def check(packets):
    """What is wrong with them, a sentence each."""
    wrong = []

    def want(packet, name, value):
        if packet[name] != value:
            wrong.append(f"{packet['infiniband.mad.attributeid']} {name}: {packet[name]}, not {value}")

    kinds = [p["infiniband.mad.attributeid"] for p in packets]
    if sorted(kinds) != sorted([*EXPECTED, "0x0010"]):
        wrong.append(f"messages {kinds}")
    for p in packets:
        for name, value in COMMON.items():
            want(p, name, value)
    first = {p["infiniband.mad.attributeid"]: p for p in reversed(packets)}
    for kind, fields in EXPECTED.items():
        for name, value in fields.items():
            want(first[kind], cm(name), value)
    active, passive = first["0x0010"][cm("req")], first["0x0013"][cm("rep")]
    for kind, (local, remote) in IDS.items():
        sent_by_passive = kind in ("0x0013", "0x0016")
        want(first[kind], cm(local), passive if sent_by_passive else active)
        want(first[kind], cm(remote), active if sent_by_passive else passive)
    return wrong


def main():
    """Makes the capture and has it read."""
    if shutil.which("tshark") is None:
        print("tshark is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        capture = folder + "/cm.pcap"
        subprocess.run([sys.argv[1], "--suite", "cm_wire", "capture"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "KILIM_CM_CAPTURE": capture})
        wrong = check(read(capture))
    for sentence in wrong:
        print(sentence)
    print(f"{len(EXPECTED)} kinds of messages, {len(wrong)} wrong fields")
    sys.exit(1 if wrong else 0)


main()
