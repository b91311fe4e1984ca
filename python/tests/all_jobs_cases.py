"""Cases of track_test.py: the following of all jobs, and what one job, or one answer, does to it."""

import os
import sys
import threading
import unittest
import unittest.mock

sys.path.insert(0, os.path.abspath("python"))
from paceline.track import all_jobs  # noqa: E402
from paceline.track.controller import Away, Gone, Refused  # noqa: E402

ENDS, FAILS, STAYS = "", "import sys; sys.exit(1)", "import time; time.sleep(1000)"


def job(state="RUNNING", name="job-1", tracker=True, end=None):
    shown = {"id": name, "state": state, "spec": {"name": "digits"}}
    if tracker:
        shown["spec"]["tracker"] = {"tensorboard": {"directory": "/tb"}}
    if end is not None:
        shown["end_time"] = f"1970-01-01T00:00:{end:02}Z"
    return shown


class AllJobsTest(unittest.TestCase):
    def setUp(self):
        self.said = []
        self.all = self.all_jobs(ENDS)
        self.addCleanup(lambda: [(one.kill(), one.wait()) for one in self.all._running.values()])

    def all_jobs(self, program, controller=None):
        return all_jobs.AllJobs(controller, [sys.executable, "-c", program], self.said.append)

    def look(self, now, *jobs):
        """Who is followed then. Those that were followed before, and whose programs end, have."""
        for process in self.all._running.values():
            if process.args[2] != STAYS:
                process.wait()
        self.all.look(list(jobs), now)
        return sorted(self.all._running)

    def test_jobs_with_the_key_are_followed_while_they_run_and_just_after(self):
        self.assertTrue(self.all.is_due(job("QUEUED"), 0))
        self.assertFalse(self.all.is_due(job(tracker=False), 0))
        self.assertTrue(self.all.is_due(job("FAILED", end=5), 10))
        self.assertFalse(self.all.is_due(job("FAILED", end=5), 10000))

    def test_an_ended_job_is_followed_once_and_again_when_it_was_resumed(self):
        for now, shown, followed in ((10, job("FAILED", end=5), True),
                                     (11, job("FAILED", end=5), False), (12, job(), True),
                                     (21, job("FAILED", end=20), True),
                                     (22, job("FAILED", end=20), False)):
            self.assertEqual(self.look(now, shown), ["job-1"] if followed else [], now)
        self.assertEqual(self.said, [])

    def test_one_that_fails_behind_the_jobs_end_is_started_until_it_has_written_all(self):
        self.all = self.all_jobs(FAILS)
        for now in (10, 80, 150):
            self.assertEqual(self.look(now, job("FAILED", end=5)), ["job-1"])
            self.assertEqual(self.look(now + 1, job("FAILED", end=5)), [])

    def test_one_that_fails_is_said_once_and_tried_now_and_then_and_the_others_go_on(self):
        self.all = self.all_jobs(STAYS)
        self.assertEqual(self.look(0, job(name="good")), ["good"])
        self.all._command[2] = FAILS
        jobs = [job(name="bad"), job(name="good")]
        for now in (1, 100, 200):
            self.assertEqual(self.look(now, *jobs), ["bad", "good"])
            self.assertEqual(self.look(now + 1, *jobs), ["good"])
        self.assertEqual(len(self.said), 1, self.said)
        self.assertRegex(self.said[0], "job bad: .*exit code 1.*the other jobs are followed")

    def test_one_whose_follower_cannot_be_started(self):
        self.all._command = ["/no/python"]
        for now in (0, 1):
            self.assertEqual(self.look(now, job(name="a"), job(name="b")), [])
        self.assertEqual([text.split(":")[0] for text in self.said], ["job a", "job b"])

    def run_over(self, program, answers):
        """Runs until all answers were given. Returns the followers, all of which have ended."""
        stop, processes = threading.Event(), {}

        class Listing:
            def jobs(self):
                processes.update(following._running)
                answer = answers.pop(0)
                if not answers:
                    stop.set()
                if isinstance(answer, Exception):
                    raise answer
                return answer

        following = self.all_jobs(program, Listing())
        with unittest.mock.patch.object(all_jobs, "POLL_S", 0.001):
            following.run(stop)
        processes.update(following._running)
        for process in processes.values():
            self.assertIsNotNone(process.returncode)
        return processes

    def test_an_answer_that_is_refused_ends_no_following(self):
        for error in (Refused("the token has run out"), Away("away"), Gone("no such context")):
            self.said.clear()
            followed = self.run_over(STAYS, [
                [job(name="a")], error, error, [job(name="a"), job(name="b")]])
            self.assertEqual(sorted(followed), ["a", "b"])
            self.assertEqual(len(self.said), 1, self.said)
            self.assertIn(f"those that are followed go on: {error}", self.said[0])

    def test_one_that_was_never_answered_is_a_mistake(self):
        with self.assertRaisesRegex(Refused, "cannot start paceline"):
            self.run_over(ENDS, [Away("away"), Refused("cannot start paceline"), []])
