"""deploy/slurm/paceline-slurm-drains against a Paceline and a Slurm that are scripts: it sees the
events that the first prints, and the second records what it is told.

    slurm_drains_test.py PATH/paceline-slurm-drains
"""

import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv[1])
SINFO = """#!/bin/sh
cat "$FOLDER/reasons/$3" 2>/dev/null
"""
SCONTROL = """#!/usr/bin/python3
import json, os, sys
with open(os.environ["FOLDER"] + "/told", "a") as told:
    told.write(json.dumps(sys.argv[1:]) + "\\n")
"""


def hold(owner, reason="its fan is loud", drain="SWAP"):
    return {"owner": owner, "reason": reason, "drain": drain}


class SlurmDrainsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        os.mkdir(os.path.join(self.folder, "reasons"))
        self.write("sinfo", SINFO)
        self.write("scontrol", SCONTROL)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)

    def told(self, holds, slurm="none", arguments=(), kind="MODIFIED"):
        """What Slurm is told when node w1 has these holds and Slurm has that reason for it."""
        if slurm is not None:
            self.write("reasons/w1", slurm + "\n")
        event = {"type": kind, "node": {"name": "w1", "state": "DRAINED", "holds": holds}}
        self.write("paceline", f"#!/bin/sh\ncat <<'END'\n{json.dumps(event)}\nEND\n")
        environment = {"PATH": self.folder + ":/usr/bin:/bin", "FOLDER": self.folder}
        subprocess.run([PROGRAM, *arguments], env=environment, check=True, timeout=60,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        path = os.path.join(self.folder, "told")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_a_drained_node_is_drained_in_slurm_with_owner_and_reason(self):
        self.assertEqual(self.told([hold("ann")]),
                         [["update", "nodename=w1", "state=drain",
                           "reason=paceline: ann: its fan is loud"]])

    def test_a_node_without_drains_comes_back(self):
        self.assertEqual(self.told([], slurm="paceline: ann: its fan is loud"),
                         [["update", "nodename=w1", "state=undrain"]])

    def test_what_others_have_told_slurm_stays(self):
        self.assertEqual(self.told([], slurm="memory errors"), [])
        self.assertEqual(self.told([hold("ann")], slurm="memory errors"), [])

    def test_what_slurm_knows_is_not_repeated(self):
        self.assertEqual(self.told([hold("ann")], slurm="paceline: ann: its fan is loud"), [])

    def test_drains_for_slurms_own_sake_and_cordons_are_not_reported(self):
        self.assertEqual(self.told([hold("slurm")]), [])
        self.assertEqual(self.told([hold("ann", drain="UNSPECIFIED")]), [])

    def test_a_persons_drain_beside_that_for_slurm_is_reported(self):
        self.assertIn("reason=paceline: ann: its fan is loud",
                      self.told([hold("slurm"), hold("ann")])[0])

    def test_a_node_that_slurm_does_not_know_is_left_alone(self):
        self.assertEqual(self.told([hold("ann")], slurm=None), [])

    def test_a_dry_run_changes_nothing(self):
        self.assertEqual(self.told([hold("ann")], arguments=["--dry-run"]), [])

    def test_other_events_are_passed_over(self):
        self.assertEqual(self.told([hold("ann")], kind="BOOKMARK"), [])

    def test_control_characters_of_a_reason_do_not_reach_slurm(self):
        said = self.told([hold("ann", "loud\n\x1b[31mfan state=down")])
        self.assertEqual(said[0][3], "reason=paceline: ann: loud  [31mfan state=down")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
