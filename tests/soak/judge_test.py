"""Each of the soak's assertions holds for what is right, and finds what is wrong."""

import os
import sys
import unittest

sys.path.insert(0, os.path.abspath("tests/soak"))
import judge  # noqa: E402

METRICS = """# TYPE paceline_queue_jobs gauge
paceline_queue_jobs{queue="default",state="running"} 1
paceline_queue_jobs{queue="default",state="queued"} 0
paceline_queue_jobs{queue="other",state="running"} 1
paceline_jobs_finished_total{queue="default",state="failed",failure="exit_code"} 2
paceline_node_state{node="w0",state="ready"} 1
paceline_node_state{node="w0",state="lost"} 0
up 1
"""


def job(number, state, reason="why", name="plain"):
    return {"id": f"job-{number:012x}", "state": state, "reason": reason, "spec": {"name": name}}


def id_of(number):
    return f"job-{number:012x}"


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.samples = judge.parse(METRICS)

    def test_samples_are_read_with_their_labels(self):
        self.assertIn(("up", {}, 1.0), self.samples)
        self.assertEqual(judge.by_label(self.samples, "paceline_queue_jobs", "state"),
                         {"running": 2})

    def test_memory_may_grow_by_what_is_kept_of_jobs_and_no_more(self):
        flat = [(second, 100 + second % 3) for second in range(1800)]
        steep = [(second, 100 + second / 60) for second in range(1800)]  # 30 MB.
        self.assertAlmostEqual(judge.growth(steep), 30, delta=0.1)
        self.assertEqual(judge.memory("w0", flat, 0), [])
        self.assertEqual(len(judge.memory("w0", steep, 1000)), 1)
        self.assertEqual(judge.memory("controller", steep, 1000), [])
        self.assertEqual(len(judge.memory("controller", steep, 10)), 1)

    def test_descriptors_of_the_later_half_are_not_many_more(self):
        self.assertEqual(judge.descriptors("w0", [(0, 20), (1, 30), (2, 30), (3, 20)]), [])
        self.assertEqual(len(judge.descriptors("w0", [(0, 20), (1, 30), (2, 30), (3, 47)])), 1)

    def test_jobs_that_are_gone_or_do_not_say_why_they_ended_are_found(self):
        jobs = [job(1, "SUCCEEDED"), job(2, "FAILED", reason=""), job(3, "RUNNING", reason="")]
        self.assertEqual(judge.lost([id_of(1), id_of(3)], jobs), [])
        self.assertEqual(judge.lost([id_of(1), id_of(2), id_of(4)], jobs),
                         [f"{id_of(2)} is FAILED without a reason", f"{id_of(4)} is lost"])

    def test_only_jobs_that_may_fail_do(self):
        jobs = [job(1, "FAILED", name="fails"), job(2, "SUCCEEDED")]
        self.assertEqual(judge.unexpected(jobs, {"fails"}), [])
        self.assertEqual(len(judge.unexpected(jobs + [job(3, "FAILED")], {"fails"})), 1)

    def test_trainers_of_jobs_that_ended_are_orphans(self):
        processes = {7: f"trainer --dir /x/{id_of(1)}.1.0", 8: f"shim /x/{id_of(2)}.1.0", 9: "sh"}
        self.assertEqual(judge.orphans(processes, [job(1, "RUNNING"), job(2, "CANCELLED")]),
                         {8: id_of(2)})
        self.assertEqual(judge.orphans(processes, [job(1, "RUNNING")]), {8: id_of(2)})

    def test_metrics_that_count_other_jobs_than_the_store_are_found(self):
        jobs = [job(1, "RUNNING"), job(2, "RUNNING")]
        self.assertEqual(judge.queues(self.samples, jobs), [])
        self.assertEqual(len(judge.queues(self.samples, jobs + [job(3, "QUEUED")])), 1)
        self.assertEqual(len(judge.queues(self.samples, jobs[:1])), 1)

    def test_counters_grow_with_the_jobs_that_end(self):
        none = ([], [job(1, "RUNNING")])
        two = (self.samples, [job(1, "FAILED"), job(2, "FAILED")])
        self.assertEqual(judge.finished(none, two), [])
        one = (self.samples, [job(1, "FAILED")])
        self.assertEqual(judge.finished(none, one),
                         ["2 jobs were counted as failed, the store has 1 more"])

    def test_nodes_are_in_the_state_that_is_told(self):
        self.assertEqual(judge.nodes(self.samples, [{"name": "w0", "state": "READY"}]), [])
        self.assertEqual(len(judge.nodes(self.samples, [{"name": "w0", "state": "LOST"}])), 1)

    def test_what_was_told_is_stored(self):
        told = [job(1, "SUCCEEDED"), job(2, "FAILED")]
        self.assertEqual(judge.stored(told, list(reversed(told))), [])
        found = judge.stored(told, [job(1, "CANCELLED"), job(3, "FAILED")])
        self.assertEqual(len(found), 3)
        self.assertIn("CANCELLED", found[0])

    def test_a_history_ends_with_the_end(self):
        ended = job(1, "FAILED")
        self.assertEqual(judge.history(ended, [{"state": "RUNNING"}, {"state": "FAILED"}]), [])
        self.assertEqual(len(judge.history(ended, [{"state": "RUNNING"}])), 1)
        self.assertEqual(len(judge.history(ended, [])), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
