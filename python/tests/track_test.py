"""Following a job for trackers: what is new, what waits, and trackers that fail, block or go."""

import json
import math
import os
import random
import sys
import threading
import unittest
from pathlib import Path

sys.path.insert(0, os.path.abspath("python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from all_jobs_cases import AllJobsTest  # noqa: E402,F401  # pylint: disable=unused-import
from paceline.track import figures, follow  # noqa: E402
from paceline.track.controller import Away, Gone  # noqa: E402
from paceline.track.delivery import Delivery  # noqa: E402
from paceline.track.points import Backlog, Batch, Mark, Point, Position  # noqa: E402
from paceline.track.tracker import TrackerUnusable, client  # noqa: E402

LONG_S = 120  # Until a test fails that would wait for ever.


def point(name, step, value=0.0):
    return Point(name, step, value, 1000.0 + step)


def mark(number, step=0):
    return Mark(number, step, "state", False, f"event {number}", 1000.0)


def what_counts(batches):
    """The slow, obvious rule: of each curve, what is beyond all before it."""
    last, kept = {}, []
    for one in (p for batch in batches for p in batch.points):
        if one.step > last.get(one.name, -1):
            last[one.name] = one.step
            kept.append(one)
    return kept


class FakeTracker:
    """Keeps what it is given; fails where it is told to, after a part of a batch."""

    name = "a tracker"

    def __init__(self, fails=lambda: False):
        self.points, self.marks, self.state = [], [], "open"
        self._fails = fails

    def open(self):
        if self._fails():
            raise OSError("no network")
        position = Position()
        position.advance(self.points, self.marks)
        return position

    def write(self, batch):
        for given, kept in ((batch.points, self.points), (batch.marks, self.marks)):
            for one in given:
                if self._fails():
                    raise OSError("no space left on device")
                kept.append(one)

    def close(self, state):
        self.state = state


def history_of_a_job(seed):
    """Batches as polls find them: restarts go back, and polls see periods again."""
    draw = random.Random(seed)
    step, events, batches = 0, 0, []
    seen = []
    for _ in range(draw.randrange(1, 30)):
        step += draw.randrange(0, 8)
        if draw.random() < 0.2:
            step = draw.randrange(0, step + 1)  # From a checkpoint.
        seen.append([point(name, step, draw.random())
                     for name in ("paceline/loss", "accuracy", "rare")
                     if name != "rare" or draw.random() < 0.1])
        again = draw.randrange(1, 4)
        new = [mark(events + 1 + i, step) for i in range(draw.randrange(0, 3))]
        events += len(new)
        batches.append(Batch([p for period in seen[-again:] for p in period], new))
    return batches


class PositionTest(unittest.TestCase):
    def test_each_step_of_a_curve_is_new_once_and_steps_rise(self):
        for seed in range(300):
            batches = history_of_a_job(seed)
            position, written = Position(), []
            for batch in batches:
                fresh = position.beyond(batch)
                position.advance(fresh.points, fresh.marks)
                written += fresh.points
            self.assertEqual(written, what_counts(batches), seed)

    def test_steps_within_a_batch_count_too(self):
        batch = Batch([point("a", 5), point("a", 5), point("a", 3), point("b", 3), point("a", 6)])
        self.assertEqual([(p.name, p.step) for p in Position().beyond(batch).points],
                         [("a", 5), ("b", 3), ("a", 6)])

    def test_floor_holds_for_curves_that_are_not_known(self):
        position = Position({"a": 10}, floor=5)
        fresh = position.beyond(Batch([point("a", 8), point("b", 5), point("b", 6)]))
        self.assertEqual([(p.name, p.step) for p in fresh.points], [("b", 6)])

    def test_an_event_is_new_once_and_a_note_of_the_follower_always(self):
        position = Position(mark=4)
        fresh = position.beyond(Batch([], [mark(4), mark(5), mark(5), mark(0), mark(0)]))
        self.assertEqual([m.id for m in fresh.marks], [5, 0, 0])


class BacklogTest(unittest.TestCase):
    def test_a_long_outage_costs_resolution_and_no_part_of_the_run(self):
        backlog = Backlog(most_points=64)
        for step in range(1, 10001):
            backlog.add(Batch([point("a", step), point("b", step)]))
            self.assertLessEqual(len(backlog), 64)
        left = backlog.take().points
        for name in ("a", "b"):
            steps = [p.step for p in left if p.name == name]
            self.assertEqual(steps, sorted(set(steps)))
            self.assertEqual(steps[-1], 10000)
            self.assertGreater(len(steps), 8)
        self.assertEqual(backlog.dropped, 20000 - len(left))
        self.assertFalse(backlog)

    def test_more_curves_than_points_fit(self):
        backlog = Backlog(most_points=10)
        backlog.add(Batch([point(str(i), 1) for i in range(100)]))
        self.assertLessEqual(len(backlog), 10)
        self.assertEqual(backlog.dropped + len(backlog), 100)

    def test_of_marks_the_oldest_go(self):
        backlog = Backlog(most_marks=3)
        backlog.add(Batch([], [mark(i) for i in range(1, 6)]))
        self.assertEqual([m.id for m in backlog.take().marks], [3, 4, 5])

    def test_what_is_put_back_comes_first(self):
        backlog = Backlog()
        backlog.add(Batch([point("a", 1)]))
        taken = backlog.take()
        backlog.add(Batch([point("a", 2)]))
        backlog.put_back(taken)
        self.assertEqual([p.step for p in backlog.take().points], [1, 2])


class DeliveryTest(unittest.TestCase):
    def test_a_tracker_that_fails_at_random_gets_each_step_once(self):
        for seed in range(60):
            draw = random.Random(seed)
            tracker = FakeTracker(lambda draw=draw: draw.random() < 0.05)
            batches = history_of_a_job(seed)
            cut = draw.randrange(len(batches))
            # Two followers, one after the other; the second sees some periods again.
            for part, state in ((batches[:cut], None), (batches[max(0, cut - 2):], "FAILED")):
                delivery = Delivery(tracker, lambda text: None, first_retry_s=0.001)
                for batch in part:
                    delivery.offer(batch)
                self.assertTrue(delivery.close(state, LONG_S), seed)
                self.assertEqual(tracker.state, state)
            expected = what_counts(batches[:cut] + batches[max(0, cut - 2):])
            self.assertEqual(tracker.points, expected, seed)
            ids = [m.id for m in tracker.marks]
            self.assertEqual(ids, list(range(1, len(ids) + 1)), seed)

    def test_one_that_blocks_for_ever_holds_nobody_up(self):
        entered, never = threading.Event(), threading.Event()
        self.addCleanup(never.set)

        class Blocking(FakeTracker):
            def write(self, batch):
                entered.set()
                never.wait()

        said = []
        delivery = Delivery(Blocking(), said.append, Backlog(most_points=100))
        delivery.offer(Batch([point("a", 1)]))
        self.assertTrue(entered.wait(LONG_S))
        for step in range(2, 5000):
            delivery.offer(Batch([point("a", step)]))
        self.assertGreater(delivery.dropped, 4000)
        self.assertFalse(delivery.close("SUCCEEDED", 0.05))
        self.assertEqual(sum("does not keep up" in text for text in said), 1)
        self.assertEqual(sum("has not answered" in text for text in said), 1)

    def test_an_outage_is_said_once_and_what_it_costs_is_marked_there(self):
        down = threading.Event()
        down.set()
        tried = threading.Semaphore(0)

        def fails():
            tried.release()
            return down.is_set()

        said, tracker = [], FakeTracker(fails)
        delivery = Delivery(tracker, said.append, Backlog(most_points=10), first_retry_s=0.001)
        for step in range(1, 101):
            delivery.offer(Batch([point("a", step)]))
        for _ in range(3):
            self.assertTrue(tried.acquire(timeout=LONG_S))
        down.clear()
        self.assertTrue(delivery.close("SUCCEEDED", LONG_S))
        self.assertEqual(sum("does not answer" in text for text in said), 1, said)
        self.assertEqual(said.count("a tracker answers again"), 1, said)
        self.assertEqual(tracker.points[-1].step, 100)
        self.assertLessEqual(len(tracker.points), 10)
        [gap] = tracker.marks
        self.assertEqual((gap.id, gap.warning), (0, True))
        self.assertEqual(gap.text.split()[0], str(100 - len(tracker.points)))
        self.assertIn(f"has not got {100 - len(tracker.points)} points", said[-1])

    def test_a_run_that_cannot_be_ended_at_once_is_said_once(self):
        class Refusing(FakeTracker):
            refusals = 3

            def close(self, state):
                self.refusals -= 1
                if self.refusals >= 0:
                    raise OSError("no network")
                super().close(state)

        said, tracker = [], Refusing()
        delivery = Delivery(tracker, said.append, first_retry_s=0.001)
        delivery.offer(Batch([point("a", 1)]))
        self.assertTrue(delivery.close("FAILED", LONG_S))
        self.assertEqual(tracker.state, "FAILED")
        self.assertEqual([text.split(",")[0] for text in said],
                         ["a tracker does not answer", "a tracker answers again"])

    def test_one_that_turns_out_to_be_unusable_is_left_alone(self):
        class Unusable(FakeTracker):
            def open(self):
                raise TrackerUnusable("the server is of version 1")

        said = []
        delivery = Delivery(Unusable(), said.append)
        delivery.offer(Batch([point("a", 1)]))
        self.assertFalse(delivery.close("SUCCEEDED", LONG_S))
        self.assertEqual(said, ["a tracker: the server is of version 1"])


class ClientTest(unittest.TestCase):
    def test_a_missing_and_an_old_client_say_what_to_install(self):
        with self.assertRaisesRegex(TrackerUnusable, r"no-such-thing is not installed: pip install "
                                    r"'no-such-thing>=1.2' .*tested with 1.3"):
            client("no-such-thing", "no_such_thing", "1.2", "1.3")
        with self.assertRaisesRegex(TrackerUnusable, "numpy .* is installed, which is too old: .*"
                                    "numpy>=999.0"):
            client("numpy", "numpy", "999.0", "999.1")

    def test_one_that_cannot_be_imported_says_why(self):
        with self.assertRaisesRegex(TrackerUnusable, "cannot be imported .ModuleNotFoundError"):
            client("numpy", "numpy_of_tomorrow", "1.0", "1.0")


def series(*points, reported=(), **more):
    shown = [{"time": f"2026-11-22T05:23:{second:02}.5Z", "step": str(step), "loss": loss,
              "step_s": 0.25, "wait_share": 0.5, "data_wait_share": 0, "samples_per_s": 800,
              "tokens_per_s": 0}
             for second, (step, loss) in enumerate(points)]
    return {"points": shown, "reported": [
        {"name": name, "step": str(step), "mean": mean, "least": 0, "most": 1, "ranks": 2}
        for name, step, mean in reported], **more}


def job_in(state, **more):
    return {"id": "job-0123456789ab", "state": state,
            "spec": {"name": "digits", "ranks": 2, "model": {"mlp": {"hidden": [8]}},
                     "environment": {"TOKEN": "geheim"}, "optimizer": {"learning_rate": 0.1}},
            "ranks": [], **more}


def by_name(points):
    return {p.name: (p.step, p.value) for p in points}


class FiguresTest(unittest.TestCase):
    def test_time_with_and_without_fractions(self):
        self.assertEqual(figures.unix_time("1970-01-02T00:00:01Z"), 86401.0)
        self.assertEqual(figures.unix_time("1970-01-01T00:00:01.250000000Z"), 1.25)

    def test_curves_of_the_engine_and_of_the_script(self):
        found = by_name(figures.points_of_series(
            series((7, 2.5), reported=[("accuracy", 6, 0.5), ("paceline/loss", 7, "NaN")]),
            job_in("RUNNING"), 99.0))
        self.assertEqual(found["paceline/loss"], (7, 2.5))
        self.assertEqual(found["paceline/step_s"], (7, 0.25))
        self.assertEqual(found["paceline/data_wait_share"], (7, 0.0))
        self.assertEqual(found["accuracy"], (6, 0.5))
        self.assertTrue(math.isnan(found["reported/loss"][1]))
        self.assertNotIn("paceline/tokens_per_s", found)
        self.assertNotIn("paceline/mfu", found)

    def test_nothing_is_made_up_where_nothing_is_known(self):
        self.assertEqual(figures.points_of_series(series((0, 0.0)), job_in("RUNNING"), 0), [])
        watched = job_in("RUNNING")
        watched["spec"]["command"] = ["python3", "train.py"]
        self.assertNotIn("paceline/loss", by_name(
            figures.points_of_series(series((3, 0.0)), watched, 0)))
        watched["spec"]["session"] = True
        self.assertIn("paceline/loss", by_name(
            figures.points_of_series(series((3, 0.0)), watched, 0)))

    def test_evaluation_and_the_first_rank_that_measures(self):
        job = job_in("RUNNING", evaluation={"step": "50", "loss": 0.4, "accuracy": 0.9}, ranks=[
            {"rank": 0}, {"rank": 1, "figures": {"step": "52", "learning_rate": 0.01,
                                                 "grad_norm": 1.5}}])
        self.assertEqual(by_name(figures.points_of_job(job, 9.0)), {
            "paceline/eval_loss": (50, 0.4), "paceline/eval_accuracy": (50, 0.9),
            "paceline/learning_rate": (52, 0.01), "paceline/grad_norm": (52, 1.5)})

    def test_events_but_for_evaluations_are_marks(self):
        history = {"events": [
            {"id": "3", "time": "1970-01-01T00:00:05Z", "kind": "MEMBERSHIP", "step": "40",
             "warning": True, "what": "rank 2 on b was killed by SIGKILL"},
            {"id": "4", "time": "1970-01-01T00:00:06Z", "kind": "EVALUATION", "step": "50",
             "warning": False, "what": "accuracy 0.9"}]}
        self.assertEqual(figures.marks_of_history(history), ([
            Mark(3, 40, "membership", True, "rank 2 on b was killed by SIGKILL", 5.0)], 50))
        self.assertEqual(figures.last_event(history, 1), 4)
        self.assertEqual(figures.last_event({}, 7), 7)

    def test_an_event_without_a_step_is_marked_behind_the_one_before_it(self):
        steps = []
        last = 0
        for shown in (("0", "0", "42", "0"), ("0", "40", "0")):  # As two polls find them.
            events = [{**event(i), "step": step} for i, step in enumerate(shown, 1)]
            marks, last = figures.marks_of_history({"events": events}, last)
            steps += [mark.step for mark in marks]
        self.assertEqual(steps, [0, 0, 42, 42, 42, 40, 40])

    def test_facts_hold_no_environment(self):
        facts = figures.facts_of(job_in("RUNNING"))
        self.assertEqual(facts["optimizer.learning_rate"], "0.1")
        self.assertEqual(facts["model.mlp.hidden"], "[8]")
        self.assertNotIn("geheim", json.dumps(facts))


class FakeController:
    """Answers from lists; an exception in them is raised."""

    def __init__(self, jobs, serieses, histories):
        self._jobs, self._serieses, self._histories = jobs, serieses, histories
        self.asked = []

    def job(self, _):
        return self._next(self._jobs)

    def series(self, _, minutes):
        self.asked.append(minutes)
        return self._next(self._serieses)

    def history(self, _, after_id):
        self.asked.append(after_id)
        return self._next(self._histories)

    @staticmethod
    def _next(answers):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def event(number, what="it goes on"):
    return {"id": str(number), "time": "1970-01-01T00:00:05Z", "kind": "STATE", "step": "1",
            "warning": False, "what": what}


class FollowTest(unittest.TestCase):
    def follow(self, controller, tracker):
        said = []
        delivery = Delivery(tracker, said.append, first_retry_s=0.001)
        poller = follow.Poller(controller, job_in("RUNNING"))
        done = follow.follow(poller, [delivery], said.append, threading.Event(), 0.001, LONG_S)
        return done, said

    def test_until_the_end_over_a_restart_and_an_outage_of_the_controller(self):
        tracker = FakeTracker()
        controller = FakeController(
            [job_in("RUNNING"), job_in("RUNNING"), job_in("RUNNING"), job_in("SUCCEEDED")],
            [series((1, 3.0), (2, 2.0), reported=[("accuracy", 2, 0.1)]),
             Away("away"), Away("away"),
             series((2, 2.0), (1, 3.0), (4, 1.0), reported=[("accuracy", 4, 0.2)])],
            [{"events": [event(1)]}, {"events": [event(2), event(3)]}])
        done, said = self.follow(controller, tracker)
        self.assertTrue(done)
        self.assertEqual([p.step for p in tracker.points if p.name == "paceline/loss"], [1, 2, 4])
        self.assertEqual([p.step for p in tracker.points if p.name == "accuracy"], [2, 4])
        self.assertEqual([m.id for m in tracker.marks], [1, 2, 3])
        self.assertEqual(tracker.state, "SUCCEEDED")
        self.assertEqual([text.split(",")[0] for text in said],
                         ["the controller does not answer", "the controller answers again"])
        # All that is kept first, then what is new, and a minute more.
        self.assertEqual(controller.asked[0], 0)
        self.assertGreaterEqual(controller.asked[2], 1)
        self.assertEqual(controller.asked[-1], 1)

    def test_a_job_that_is_deleted(self):
        tracker = FakeTracker()
        controller = FakeController([job_in("RUNNING"), Gone("no job")], [series((1, 3.0))],
                                    [{"events": []}])
        done, said = self.follow(controller, tracker)
        self.assertTrue(done)
        self.assertEqual(said, ["the job has been deleted: no job"])
        self.assertIsNone(tracker.state)

    def test_what_polls_find_again_does_not_wait_again(self):
        poller = follow.Poller(
            FakeController([job_in("RUNNING")],
                           [series((1, 3.0)), series((1, 3.0), (2, 2.0)), series((2, 2.0))],
                           [{"events": [event(1)]}]), job_in("RUNNING"))
        found = [poller.poll().batch for _ in range(3)]
        self.assertEqual([{p.step for p in batch.points} for batch in found], [{1}, {2}, set()])
        self.assertEqual([len(batch.marks) for batch in found], [1, 0, 0])

    def test_large_jobs_are_described_less_often(self):
        job = job_in("RUNNING", ranks=[{"rank": i} for i in range(512)])
        described = []

        class Counting(FakeController):
            def job(self, name):
                described.append(name)
                return super().job(name)

        poller = follow.Poller(Counting([job], [series()], [{"events": []}]), job)
        for _ in range(9):
            poller.poll()
        self.assertEqual(len(described), 3)

    def test_without_a_key_and_without_a_client(self):
        with self.assertRaisesRegex(TrackerUnusable, "digits .* has no key `tracker`"):
            follow.trackers_of({}, job_in("RUNNING"), Path("/nowhere"), print)


if __name__ == "__main__":
    unittest.main()
