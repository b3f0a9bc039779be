# SPDX-License-Identifier: BSD-3-Clause
"""How a run of rdma-core's suite is judged."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import suite
import work


class Judge(unittest.TestCase):
    def setUp(self):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".tsv", delete=False)
        self.addCleanup(os.unlink, self.file.name)

    def written(self, text):
        self.file.write(text)
        self.file.close()
        return self.file.name

    def test_passes_count(self):
        """a test that passes as expected says nothing"""
        self.assertEqual(suite.judge("PASS", "pass"), (None, False))

    def test_skip_is_no_pass(self):
        """a pass that became a skip fails the run"""
        self.assertTrue(suite.judge("PASS", "skip")[1])

    def test_failures_fail(self):
        """a failure fails the run, whatever was expected"""
        for expected in ("PASS", "NOTYET:windows", "EXCLUDED:no card has it"):
            for how in ("fail", "error"):
                self.assertTrue(suite.judge(expected, how)[1])

    def test_known_failures(self):
        """only a reason that says so excuses a failure"""
        self.assertEqual(suite.judge("NOTYET:fails: loopback of raw packets", "error"),
                         (None, False))

    def test_news_is_told(self):
        """a test that passes before its time is named and does no harm"""
        what, fails = suite.judge("NOTYET:windows", "pass")
        self.assertFalse(fails)
        self.assertIn("NOTYET", what)

    def test_manifest_needs_reasons(self):
        """a manifest line without a reason, or excluded from a tier that counts, is refused"""
        for text in ("a\t1\tNOTYET\n", "a\t1\tNOTYET:\n", "a\t1\tEXCLUDED:x\n", "a\tX\tPASS\n",
                     "a\t1\n", "a\t1\tPASS\na\t2\tPASS\n"):
            with tempfile.NamedTemporaryFile("w") as f:
                f.write(text)
                f.flush()
                with self.assertRaises(ValueError):
                    suite.read_manifest(f.name)

    def test_crash_is_an_error(self):
        """a test that took its process with it is an error, and so is one behind it"""
        lines = [("t.a", "started", "", {}), ("t.a", "pass", "", {}), ("t.b", "started", "", {})]
        path = self.written("".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(suite.read_results(path, "died"),
                         {"t.a": ("pass", "", {}), "t.b": ("error", "died", {})})

    def test_failure_stays(self):
        """a failed part is not taken back by the test's end"""
        lines = [("t.a", "started", "", {}), ("t.a", "fail", "part", {}), ("t.a", "pass", "", {})]
        path = self.written("".join(json.dumps(line) + "\n" for line in lines))
        self.assertEqual(suite.read_results(path, "died"), {"t.a": ("fail", "part", {})})

    def test_report_counts(self):
        """the lines of tiers count passes, and what fails is named"""
        rows = [suite.Row("t.a", "1", "PASS"), suite.Row("t.b", "1", "PASS"),
                suite.Row("t.c", "X", "EXCLUDED:x"), suite.Row("t.d", "1", "PASS", "list")]
        got = {"t.a": ("pass", "", {}), "t.b": ("skip", "no", {}), "t.c": ("skip", "", {}),
               "t.d": ("pass", "", {"wqe": 2, "cqe": 2, "translated": 2, "umr": 1})}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            failed, _ = suite.report(rows, got, False)
        self.assertEqual(failed, 2)
        self.assertIn("tier 1: 1/3\n", said.getvalue())
        self.assertIn("tier X: 0/1\n", said.getvalue())
        self.assertIn("t.b: skip, should pass: no\n", said.getvalue())
        self.assertIn("t.d: idle, should pass: the device's journal shows list 0 of 1\n",
                      said.getvalue())

    def test_work(self):
        """the journal's lines are counted, those cut short passed over"""
        lines = [{"event": "umr", "key": 1}, {"event": "translated", "pieces": 2},
                 {"event": "translated", "pieces": 3}, {"event": "error", "syndrome": 0x13},
                 {"event": "error", "syndrome": 5}, {"event": "wqe", "name": "SET_PSV"}]
        seen = work.summary([json.dumps(line) for line in lines] + ['{"event":"cq'])
        self.assertEqual(dict(seen), {"umr": 1, "translated": 2, "list": 1, "error": 2,
                                      "refused": 1, "wqe": 1, "set_psv": 1})

    def test_work_is_wanted(self):
        """each kind of work is missed where nothing happened"""
        for kind, least in work.KINDS.items():
            self.assertEqual(len(work.missing(kind, {})), len(least))
            self.assertEqual(work.missing(kind, least), [])

    def test_words_of_a_row(self):
        """work and profile follow the expectation"""
        row = suite.read_row(["t.a", "1", "PASS", "list profile=infiniband"], "here")
        self.assertEqual((row.work, row.profile), ("list", "infiniband"))
        self.assertFalse(row.shared)
        row = suite.read_row(["t.a", "6b", "PASS", "traffic shared"], "here")
        self.assertEqual((row.work, row.shared, row.profile), ("traffic", True, suite.USUAL))
        for words in ("nonsense", "list list", "profile"):
            with self.assertRaises(ValueError):
                suite.read_row(["t.a", "1", "PASS", words], "here")


if __name__ == "__main__":
    unittest.main()
