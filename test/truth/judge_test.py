#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""That check_truth.py notices each way in which a device and the facts can disagree. Asks no device."""

import unittest

import check_truth

TABLES = {
    "facts.tsv": [{"field": "max_qp", "value": "8", "kind": "figure", "source": "a dump"},
                  {"field": "max_qp", "value": "16", "kind": "figure", "source": "another"},
                  {"field": "GENERAL rc", "value": "1", "kind": "have", "source": "a dump"},
                  {"field": "max_tso", "value": "9", "kind": "figure", "source": "a dump"},
                  {"field": "QOS periods[0]", "value": "1", "kind": "lack", "source": "a dump"}],
    "lacks.tsv": [{"field": "QOS periods[0]", "function": "rates"}],
    "differences.tsv": [{"field": "max_tso", "device": "7", "why": "a reason"}],
    "profiles.tsv": [{"profile": "less", "field": "GENERAL rc", "device": "0"}],
}
CARD = {"max_qp": "16", "GENERAL rc": "1", "max_tso": "7", check_truth.ASKED: "answered"}
LESS = CARD | {"GENERAL rc": "0"}


class JudgeTest(unittest.TestCase):
    def faults(self, card=None, less=None, **tables):
        rows = TABLES | {name.replace("_", "."): value for name, value in tables.items()}
        check_truth.table = rows.__getitem__
        judge = check_truth.Judge()
        judge.functions()
        judge.card(CARD | (card or {}))
        judge.others({check_truth.DEFAULT: CARD | (card or {}), "less": LESS | (card or {}) | (less or {})}, False)
        return judge.faults

    def one(self, pattern, **more):
        faults = self.faults(**more)
        self.assertEqual(len(faults), 1, faults)
        self.assertRegex(faults[0], pattern)

    def test_agreement(self):
        self.assertEqual(self.faults(), [])
        self.assertEqual(self.faults(card={"max_qp": "8"}), [])   # one card says so, another otherwise

    def test_figures_and_haves(self):
        self.one("max_qp: a card says 8 or 16, the device 17", card={"max_qp": "17"})
        self.one("max_tso: told as a card does", card={"max_tso": "9"})
        self.one("max_tso: the device says 6, differences.tsv 7", card={"max_tso": "6"})

    def test_differences(self):
        row = TABLES["differences.tsv"][0]
        self.one("the device says 7, differences.tsv 7 \\(\\)", differences_tsv=[row | {"why": ""}])
        self.one("no such fact", differences_tsv=[row, row | {"field": "max_of_none"}])
        self.one("max_tso: a card says 9, the device 7", differences_tsv=[])

    def test_lacks(self):
        self.one("calls it a lack", card={"QOS periods[0]": "1"})
        self.one("does not say which function", lacks_tsv=[])
        row = TABLES["lacks.tsv"][0]
        self.one("no fact of this name lacks", lacks_tsv=[row, row | {"field": "GENERAL rc"}])

    def test_profiles(self):
        self.one("profile less, max_qp: 4, which", less={"max_qp": "4"})
        self.assertEqual(len(self.faults(less={"GENERAL rc": "1"})), 1)
        silent = {check_truth.ASKED: "not answered"}
        self.one("QUERY_HCA_CAP: not answered", less=silent, profiles_tsv=[])

    def test_kinds(self):
        self.one("kind 'wish'", facts_tsv=[*TABLES["facts.tsv"], TABLES["facts.tsv"][2] | {"kind": "wish"}])

    def test_devinfo(self):
        fields = check_truth.Devinfo(
            "hca_id:\tvhca0\n\tmax_qp:\t\t\t\t16\n\tdevice_cap_flags:\t\t0x00200000\n\t\t\t\t\tMEM_MGT_EXTENSIONS\n"
            "\trc_odp_caps:\n\t\t\t\t\tSUPPORT_SEND\n\t\t\t\t\tSUPPORT_SRQ\n\thca_core_clock:\t\t\t1000000kHZ\n"
            "\ttso_caps:\n\t\tmax_tso:\t\t\t7\n\t\tsupported_qp:\n\t\t\t\t\tSUPPORT_RAW_PACKET\n"
            "\ttag matching not supported\n\t\tport:\t1\n\t\t\tport_lid:\t\t0\n\t\t\tgid_tbl_len:\t\t255\n"
            "\t\t\tGID[  0]:\t\tfe80::1, RoCE v2\n").fields
        wanted = {"max_qp": "16", "device_cap_flags MEM_MGT_EXTENSIONS": "1", "rc_odp_caps": "SEND SRQ", "port_lid": "0",
                  "hca_core_clock": "1000000", "max_tso": "7", "tso_supported_qp": "RAW_PACKET",
                  "tag_matching": "not supported", "port_gid_tbl_len": "255", "gid_0_type": "RoCE v2 (link local)"}
        self.assertEqual({k: fields.get(k) for k in wanted}, wanted)


if __name__ == "__main__":
    unittest.main()
