"""The trackers' own libraries: what restarts, crashes and full disks leave in them; processes."""

import http.server
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.abspath("python"))
# The libraries keep to the test's folder, and send nothing.
HOME = tempfile.TemporaryDirectory()
os.environ.update(HOME=HOME.name, WANDB_CONFIG_DIR=HOME.name, WANDB_CACHE_DIR=HOME.name,
                  WANDB_DATA_DIR=HOME.name, WANDB_SILENT="true", WANDB_ERROR_REPORTING="false",
                  MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_ALLOW_FILE_STORE="true")
from mlflow.exceptions import MlflowException  # noqa: E402
from mlflow.tracking import MlflowClient  # noqa: E402
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # noqa: E402
from wandb.proto import wandb_internal_pb2  # noqa: E402

from paceline.track.controller import Away, Controller, Gone, Refused  # noqa: E402
from paceline.track.delivery import Delivery  # noqa: E402
from paceline.track.mlflow_run import MlflowRun  # noqa: E402
from paceline.track.points import Batch, Mark, Point  # noqa: E402
from paceline.track.tensorboard_files import TensorBoardFiles  # noqa: E402
from paceline.track.tracker import JobFacts  # noqa: E402
from paceline.track.wandb_run import WandbRun  # noqa: E402

LONG_S = 120  # Until a test fails that would wait for ever.
JOB = JobFacts("job-0123456789ab", "digits", {"ranks": "4", "optimizer.kind": "sgd"})


def points(name, *steps):
    return [Point(name, step, 1.0 / step, 1000.0 + step) for step in steps]


def mark(number, step=0, text="rank 2 on b was killed by SIGKILL"):
    return Mark(number, step, "membership", True, text, 1000.0)


def send(tracker, *batches, state=None):
    """As a follower does that comes, sends, and goes."""
    said = []
    delivery = Delivery(tracker, said.append, first_retry_s=0.01)
    for batch in batches:
        delivery.offer(batch)
    return delivery.close(state, LONG_S), said


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class TensorBoardTest(Folder):
    def tracker(self):
        return TensorBoardFiles(str(self.folder / "tb"), JOB)

    @property
    def file(self):
        [file] = (self.folder / "tb" / JOB.id).iterdir()
        return file

    def read(self):
        # Without the wish to sample.
        read = EventAccumulator(str(self.folder / "tb" / JOB.id), {"scalars": 0, "tensors": 0})
        read.Reload()
        return read

    def steps(self, name):
        return [event.step for event in self.read().Scalars(name)]

    def test_one_run_over_followers_and_restarts(self):
        self.assertTrue(send(self.tracker(), Batch(points("loss", 1, 2, 3), [mark(1)]))[0])
        self.assertTrue(send(self.tracker(), Batch(points("loss", 2, 3, 1, 4) +
                                                   points("acc/top-1", 2), [mark(1), mark(2, 3)]),
                             state="SUCCEEDED")[0])
        self.assertEqual(self.steps("loss"), [1, 2, 3, 4])
        self.assertEqual(self.steps("acc/top-1"), [2])
        [first] = [event for event in self.read().Scalars("loss") if event.step == 4]
        self.assertEqual((first.value, first.wall_time), (0.25, 1004.0))
        marks = self.read().Tensors("paceline/events")
        self.assertEqual([event.step for event in marks], [0, 3])
        self.assertEqual(marks[0].tensor_proto.string_val,
                         [b"**membership**: rank 2 on b was killed by SIGKILL"])
        self.assertIn(b"optimizer.kind",
                      self.read().Tensors("paceline/job")[0].tensor_proto.string_val[0])

    def test_a_record_that_a_crash_has_cut_short_is_written_again(self):
        send(self.tracker(), Batch(points("loss", 1, 2)))
        whole = self.file.read_bytes()
        for cut in range(1, 40):
            self.file.write_bytes(whole[:-cut])
            send(self.tracker(), Batch(points("loss", 1, 2, 3)))
            self.assertEqual(self.steps("loss"), [1, 2, 3], cut)

    def test_zeros_that_a_power_cut_leaves_are_cut_off(self):
        send(self.tracker(), Batch(points("loss", 1)))
        with open(self.file, "ab") as file:
            file.write(bytes(64))
        send(self.tracker(), Batch(points("loss", 1, 2)))
        self.assertEqual(self.steps("loss"), [1, 2])

    def test_a_full_disk_costs_nothing_when_there_is_room_again(self):
        send(self.tracker(), Batch(points("loss", 1)))
        said, failed = [], threading.Event()

        def say(text):
            said.append(text)
            failed.set()

        # A limit of the size of files stands for a full disk; SIGXFSZ is ignored by Python.
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        delivery = Delivery(self.tracker(), say, first_retry_s=0.01)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.file.stat().st_size + 70, before[1]))
        try:
            delivery.offer(Batch(points("loss", *range(2, 50))))
            self.assertTrue(failed.wait(LONG_S))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        self.assertTrue(delivery.close("FAILED", LONG_S))
        self.assertEqual(self.steps("loss"), list(range(1, 50)))
        self.assertEqual(len(said), 2, said)
        self.assertIn("File too large", said[0])
        self.assertEqual(said[1], "TensorBoard answers again")


class MlflowTest(Folder):
    def setUp(self):
        super().setUp()
        self.uri = f"file://{self.folder}/mlruns"

    def tracker(self, uri=None, said=None):
        return MlflowRun(uri or self.uri, "digits", JOB, (said if said is not None else []).append)

    def run_of_job(self):
        client = MlflowClient(tracking_uri=self.uri)
        experiment = client.get_experiment_by_name("digits")
        [run] = client.search_runs([experiment.experiment_id])
        return client, run

    def steps(self, name):
        client, run = self.run_of_job()
        return [metric.step for metric in client.get_metric_history(run.info.run_id, name)]

    def test_one_run_over_followers_restarts_and_a_resume(self):
        send(self.tracker(), Batch(points("loss", 1, 2), [mark(1)]), state="FAILED")
        self.assertEqual(self.run_of_job()[1].info.status, "FAILED")
        send(self.tracker(), Batch(points("loss", 1, 2, 3) + points("acc", 2), [mark(1), mark(2)]))
        self.assertEqual(self.run_of_job()[1].info.status, "RUNNING")
        send(self.tracker(), Batch(points("loss", 3, 4)), state="SUCCEEDED")
        _, run = self.run_of_job()
        self.assertEqual((run.info.status, run.info.run_name), ("FINISHED", "digits"))
        self.assertEqual(self.steps("loss"), [1, 2, 3, 4])
        self.assertEqual(self.steps("acc"), [2])
        self.assertEqual(run.data.params["optimizer.kind"], "sgd")
        marks = {name: value for name, value in run.data.tags.items() if "event" in name}
        self.assertEqual(marks["paceline.event.000001"],
                         "step 0: membership: rank 2 on b was killed by SIGKILL")
        self.assertEqual(len(marks), 2)

    def test_names_that_mlflow_refuses_do_not_stop_the_others(self):
        said = []
        names = ["loss/train", "loss", "/a", "a//b", "..", "last"]
        for steps in ((1,), (1, 2)):
            batch = Batch([one for step in steps for name in names for one in points(name, step)])
            self.assertTrue(send(self.tracker(said=said), batch)[0])
        # A file store has no place for "loss" beside "loss/train".
        self.assertTrue(said)
        self.assertIn("MLflow refuses the name loss,", said[0])
        for name in ("loss/train", "_a", "_a_b", "last"):
            self.assertEqual(self.steps(name), [1, 2], name)

    def test_many_points_and_marks(self):
        send(self.tracker(), Batch(points("loss", *range(1, 1201)),
                                   [mark(i) for i in range(1, 121)]))
        self.assertEqual(self.steps("loss"), list(range(1, 1201)))

    def test_a_server_that_is_away_holds_nobody_up(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as free:
            port = free.server_address[1]
        said = []
        delivery = Delivery(self.tracker(f"http://127.0.0.1:{port}"), said.append)
        for step in range(1, 100):
            delivery.offer(Batch(points("loss", step)))
        self.assertFalse(delivery.close("SUCCEEDED", 0.5))
        self.assertIn("points and events are missing there", said[-1])


def records_of(path):
    """Records of a .wandb file: LevelDB's log format behind a header of 7 bytes."""
    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at:at + 7])
        whole = (whole if kind in (3, 4) else b"") + data[at + 7:at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(whole)
            yield record


class WandbTest(Folder):
    def tracker(self):
        return WandbRun("digits", "", True, str(self.folder / "files"),
                        self.folder / "positions" / "job.wandb.json", JOB)

    def rows(self):
        found = []
        for path in sorted((self.folder / "files").glob("wandb/offline-run-*/run-*.wandb"),
                           key=lambda path: path.stat().st_mtime_ns):
            self.assertEqual(path.name, f"run-{JOB.id}.wandb")
            for record in records_of(path):
                if record.WhichOneof("record_type") == "history":
                    found.append({item.key or "/".join(item.nested_key):
                                  json.loads(item.value_json) for item in record.history.item})
        return found

    def test_one_run_over_followers_and_restarts(self):
        self.assertTrue(send(self.tracker(), Batch(points("loss", 1, 2), [mark(1)]))[0])
        self.assertTrue(send(self.tracker(), Batch(points("loss", 1, 2, 4) + points("acc", 2),
                                                   [mark(1), mark(2, 3)]), state="FAILED")[0])
        until = time.monotonic() + LONG_S  # The client's service writes behind finish().
        rows = self.rows()
        while [row["step"] for row in rows if "loss" in row][-1:] != [4]:
            self.assertLess(time.monotonic(), until, rows)
            time.sleep(0.05)
            rows = self.rows()
        self.assertEqual([row["step"] for row in rows if "loss" in row], [1, 2, 4])
        self.assertEqual([row["loss"] for row in rows if "loss" in row], [1.0, 0.5, 0.25])
        self.assertEqual([row["step"] for row in rows if "acc" in row], [2])
        self.assertEqual([row["paceline/event_id"] for row in rows if "paceline/event" in row],
                         [1, 2])
        numbers = [row["_step"] for row in rows]
        self.assertEqual(numbers, list(range(len(rows))))


class ProgramTest(unittest.TestCase):
    def controller(self, script):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "paceline"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(0o755)
        return Controller(str(path))

    def test_answers_and_exit_codes(self):
        self.assertEqual(self.controller("echo '{\"args\": \"'$*'\"}'").series("job-1", 1.5),
                         {"args": "job metrics job-1 --minutes 1.50 --output json"})
        for code, kind in ((6, Away), (3, Gone), (5, Refused), (2, Refused)):
            with self.assertRaisesRegex(kind, "error: why"):
                self.controller(f"echo 'error: why' >&2; exit {code}").job("job-1")
        with self.assertRaisesRegex(Refused, "cannot start /no/paceline"):
            Controller("/no/paceline").job("job-1")


PACELINE = """#!{python}
import json, sys
from pathlib import Path
folder = Path({folder!r})
verb, job = sys.argv[2:4]
after = int(sys.argv[sys.argv.index("--after") + 1]) if "--after" in sys.argv else 0
answer = json.loads((folder / (verb + ".json")).read_text())
if verb == "events":
    answer["events"] = [e for e in answer["events"] if int(e["id"]) > after]
print(json.dumps(answer))
"""


class ProcessTest(Folder):
    """The whole command, beside a program that answers as `paceline` does."""

    def setUp(self):
        super().setUp()
        self.program = self.folder / "paceline"
        self.program.write_text(PACELINE.format(python=sys.executable, folder=str(self.folder)))
        self.program.chmod(0o755)
        self.answer("RUNNING", 1)

    def answer(self, state, *steps):
        answers = {
            "describe": {"id": JOB.id, "state": state, "ranks": [], "spec": {
                "name": "digits", "tracker": {
                    "tensorboard": {"directory": str(self.folder / "tb")},
                    "mlflow": {"uri": f"file://{self.folder}/mlruns", "experiment": ""}}}},
            "metrics": {"points": [
                {"time": "2026-11-22T05:23:01Z", "step": str(step), "loss": 1.0 / step,
                 "step_s": 0.1} for step in steps], "reported": []},
            "events": {"events": [
                {"id": str(i + 1), "time": "2026-11-22T05:23:01Z", "kind": "STATE",
                 "step": str(step), "warning": False, "what": f"step {step}"}
                for i, step in enumerate(steps)]}}
        for verb, value in answers.items():
            beside = self.folder / f"{verb}.new"
            beside.write_text(json.dumps(value))
            beside.replace(self.folder / f"{verb}.json")

    def start(self):
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline.track", JOB.id, "--poll", "0.05", "--positions",
             str(self.folder / "positions"), "--paceline", str(self.program)],
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")},
            stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stderr.close)
        return process

    def losses(self):
        read = EventAccumulator(str(self.folder / "tb" / JOB.id), {"scalars": 0, "tensors": 0})
        read.Reload()
        return ([event.step for event in read.Scalars("paceline/loss")]
                if "paceline/loss" in read.Tags()["scalars"] else [])

    def losses_of_mlflow(self):
        client = MlflowClient(tracking_uri=f"file://{self.folder}/mlruns")
        try:
            return [metric.step for run in client.search_runs(["0"])
                    for metric in client.get_metric_history(run.info.run_id, "paceline/loss")]
        except (MlflowException, ValueError):  # A file is being written.
            return []

    def wait_for(self, steps):
        """Both have them: MLflow's folders are not made at once, and a kill may leave a part."""
        until = time.monotonic() + LONG_S
        while (not (self.folder / "tb" / JOB.id).exists() or self.losses() != steps
               or self.losses_of_mlflow() != steps):
            self.assertLess(time.monotonic(), until, f"no {steps}")
            time.sleep(0.05)

    def test_a_follower_that_is_killed_goes_on_where_it_was(self):
        first = self.start()
        self.wait_for([1])
        first.send_signal(signal.SIGKILL)
        first.wait()
        self.answer("RUNNING", 1, 2, 3)
        second = self.start()
        self.wait_for([1, 2, 3])
        third = self.start()
        self.assertEqual(third.wait(LONG_S), 1)
        self.assertIn("is followed by another process", third.stderr.read())
        self.answer("SUCCEEDED", 1, 2, 3, 2, 5)
        self.assertEqual(second.wait(LONG_S), 0, second.stderr.read())
        self.assertEqual(self.losses(), [1, 2, 3, 5])
        client = MlflowClient(tracking_uri=f"file://{self.folder}/mlruns")
        [run] = client.search_runs(["0"])
        self.assertEqual(run.info.status, "FINISHED")
        self.assertEqual([metric.step for metric in
                          client.get_metric_history(run.info.run_id, "paceline/loss")],
                         [1, 2, 3, 5])

    def test_sigterm_ends_it_and_leaves_the_run_open(self):
        process = self.start()
        self.wait_for([1])
        process.terminate()
        self.assertEqual(process.wait(LONG_S), 0, process.stderr.read())
        client = MlflowClient(tracking_uri=f"file://{self.folder}/mlruns")
        [run] = client.search_runs(["0"])
        self.assertEqual(run.info.status, "RUNNING")


if __name__ == "__main__":
    # The client's own exit takes no truth value for an exit code.
    sys.exit(int(not unittest.main(exit=False).result.wasSuccessful()))
