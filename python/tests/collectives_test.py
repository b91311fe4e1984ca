"""Reports which collectives the ranks of an unchanged script have entered."""

import errno
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.dirname(HERE)
SITE = os.path.join(PYTHON, "paceline", "site")
PATIENCE_S = 200

sys.path[:0] = [HERE, PYTHON]
from ring import make_ring
from paceline import _collectives

import torch.distributed

BEGIN = """
    import os, sys, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    """


def entry(number, name="gloo:all_reduce", group="0", created=0, **others):
    return {"collective_seq_id": number, "profiling_name": name, "process_group": [group, "some"],
            "input_sizes": [[4]], "input_dtypes": ["Float"], "retired": True, "state": "scheduled",
            "is_p2p": False, "time_created_ns": created or number, **others}


class World:
    """The state that distributed_c10d keeps of its groups."""

    def __init__(self, **groups):
        self.pg_names = {object(): name for name in groups}
        self.pg_group_ranks = {group: dict(zip(groups[name], range(len(groups[name]))))
                               for group, name in self.pg_names.items()}


class SummaryTest(unittest.TestCase):
    def of_one(self, *entries):
        world = World(a=[0, 1])
        entries = [{**one, "process_group": ["a", "some"]} for one in entries]
        return _collectives.groups_of(world, entries)[0]

    def test_finished_ones_are_told_by_the_last(self):
        group = self.of_one(*[entry(number) for number in range(1, 2000)])
        self.assertEqual(group["last"], 1999)
        self.assertEqual(group["collectives"], [{"number": 1999, "operation": "all_reduce",
                                                 "input": "float32 [4]", "finished": True}])

    def test_those_that_wait_and_the_one_before_them(self):
        waiting = [entry(number, "nccl:_all_gather_base", retired=False) for number in range(90, 190)]
        group = self.of_one(*[entry(number) for number in range(50, 90)], *waiting)
        self.assertEqual(group["last"], 189)
        self.assertEqual([one["number"] for one in group["collectives"]], list(range(89, 97)))
        self.assertEqual({one["operation"] for one in group["collectives"][1:]}, {"all_gather_base"})

    def test_what_a_gpu_has_completed_is_finished(self):
        group = self.of_one(entry(1, retired=False, state="completed"),
                            entry(2, retired=False, state="started"))
        self.assertEqual([one["finished"] for one in group["collectives"]], [True, False])

    def test_point_to_point_is_left_out(self):
        group = self.of_one(entry(3), entry(9, "nccl:send 0->1", is_p2p=True, retired=False))
        self.assertEqual((group["last"], group["newest"]), (3, True))

    def test_groups_are_told_apart_and_those_that_wait_come_first(self):
        world = World(a=[0, 1, 2], b=[1, 2], c=[0, 2])
        groups = _collectives.groups_of(world, [
            entry(7, group="a"), entry(5, group="destroyed", created=8),
            entry(1, group="b", retired=False, created=9)])
        self.assertEqual([(group["name"], group["last"], group["ranks"], group["newest"])
                          for group in groups],
                         [("b", 1, [1, 2], True), ("a", 7, [0, 1, 2], False), ("c", 0, [0, 2], False)])

    def test_is_bounded(self):
        world = World(**{f"group-{number}": range(5000) for number in range(100)})
        entries = [entry(number, "x" * 5000, f"group-{group}", retired=False,
                         input_sizes=[[10 ** 15] * 100] * 100, input_dtypes=["Float"] * 100)
                   for group in range(100) for number in range(1, 30)]
        groups = _collectives.groups_of(world, entries)
        self.assertEqual(len(groups), 16)
        self.assertEqual(groups[0]["ranks"], [])
        self.assertLess(len(json.dumps(groups)), 40_000)

    def test_inputs(self):
        self.assertEqual(_collectives.input_of(entry(1, input_sizes=[], input_dtypes=[])), "")
        self.assertEqual(_collectives.input_of(entry(
            1, input_sizes=[[2, 3], [], [4], [5]], input_dtypes=["BFloat16", "Long", "Int", "Int"])),
            "bfloat16 [2, 3], int64 [], 2 more")


class Rank:
    """A script's process, and the daemon's actions on it."""

    def __init__(self, folder, script, rank, ranks, port, environment):
        self.directory = os.path.join(folder, str(rank))
        os.mkdir(self.directory)
        path = os.path.join(self.directory, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(script))
        ring = make_ring(os.path.join(self.directory, "ring"))
        self.process = subprocess.Popen(
            [sys.executable, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, cwd=self.directory,
            env={**os.environ, "PACELINE_RING": ring, "PACELINE_DIR": self.directory,
                 "PYTHONPATH": SITE, "RANK": str(rank), "WORLD_SIZE": str(ranks),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
                 "TORCHELASTIC_USE_AGENT_STORE": "True", "CUDA_VISIBLE_DEVICES": "",
                 "TORCH_FR_BUFFER_SIZE": "2000", **environment})

    def open_pipe(self):
        """Opens the pipe like the daemon; None: nobody waits for a question."""
        try:
            return os.open(os.path.join(self.directory, "collectives.ask"),
                           os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENXIO):
                raise
            return None

    def left(self):
        try:
            with open(os.path.join(self.directory, "collectives"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def ask_until(self, holds):
        deadline = time.monotonic() + PATIENCE_S
        number = 0
        while time.monotonic() < deadline:
            pipe = self.open_pipe()
            if pipe is None:
                time.sleep(0.05)
                continue
            number += 1
            os.write(pipe, b"%d\n" % number)
            os.close(pipe)
            while time.monotonic() < deadline:
                answer = self.left()
                if answer is not None and answer["wanted"] == number:
                    break
                time.sleep(0.01)
            if holds(answer):
                return answer
        raise AssertionError(f"rank does not answer so: {self.left()}")

    def wait_for(self, line):
        for output in self.process.stdout:
            if output.strip() == line:
                return
        raise AssertionError(f"the script has ended without {line}")

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        output = self.process.communicate(timeout=PATIENCE_S)[0]
        return self.process.returncode, output


def last_of(answer, group):
    """The rank's last collective; None: unknown so far."""
    return answer["groups"][group]["last"] if answer.get("groups") else None


class RanksTest(unittest.TestCase):
    """Real ranks with the real torch."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, script, ranks=2, **environment):
        # The ranks meet in it, as under torchrun.
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True,
                                                wait_for_workers=False)
        started = [Rank(self.folder, textwrap.dedent(BEGIN) + textwrap.dedent(script), rank, ranks,
                        self.store.port, environment) for rank in range(ranks)]
        for rank in started:
            self.addCleanup(rank.process.communicate)
            self.addCleanup(rank.process.kill)
        return started

    def test_rank_that_has_not_entered_a_collective(self):
        ranks = self.start("""
            some = dist.new_group([0, 1], group_desc="some")
            for _ in range(3):
                dist.all_reduce(torch.ones(4))
            dist.broadcast(torch.ones(2), 0, group=some)
            if rank == 1:
                sys.stdin.readline()
            dist.all_reduce(torch.ones(7, 3))
            print("threads", len(__import__("threading").enumerate()))
            dist.destroy_process_group()
            """)
        answer = ranks[0].ask_until(lambda answer: last_of(answer, 0) == 4)
        self.assertEqual(answer["rank"], 0)
        self.assertEqual(answer["groups"][0], {
            "name": "0", "description": "default_pg", "ranks": [0, 1], "last": 4, "newest": True,
            "collectives": [{"number": 3, "operation": "all_reduce", "input": "float32 [4]",
                             "finished": True},
                            {"number": 4, "operation": "all_reduce", "input": "float32 [7, 3]",
                             "finished": False}]})
        answer = ranks[1].ask_until(lambda answer: last_of(answer, -1) == 1)
        self.assertEqual({group["description"]: group["last"] for group in answer["groups"]},
                         {"default_pg": 3, "some": 1})
        ranks[1].go_on()
        for rank in ranks:  # The script notices nothing and can end.
            self.assertEqual(rank.end(), (0, "threads 1\n"))

    def test_collective_that_fails_is_left(self):
        ranks = self.start("""
            if rank == 1:
                sys.stdin.readline()
                os._exit(0)
            try:
                dist.all_reduce(torch.ones(4))
            finally:
                if "DESTROY" in os.environ:
                    dist.destroy_process_group()
            """)
        ranks[1].go_on()
        code, output = ranks[0].end()
        self.assertEqual(code, 1)
        self.assertIn("gloo/transport", output)
        left = ranks[0].left()
        self.assertEqual((left["wanted"], left["groups"][0]["last"]), (0, 1))
        self.assertFalse(left["groups"][0]["collectives"][0]["finished"])

    def test_group_that_is_torn_down_by_the_error_is_left(self):
        os.environ["DESTROY"] = "1"
        self.addCleanup(os.environ.pop, "DESTROY")
        self.test_collective_that_fails_is_left()

    def test_nothing_is_left_without_an_error(self):
        ranks = self.start("""
            dist.all_reduce(torch.ones(4))
            dist.destroy_process_group()
            """)
        for rank in ranks:
            self.assertEqual(rank.end(), (0, ""))
            self.assertIsNone(rank.left())

    def test_processes_that_the_rank_forks_do_not_answer(self):
        ranks = self.start("""
            import atexit
            child = os.fork()
            if child == 0:  # As one that ends with an error, without what torch does then.
                sys.last_value = ValueError()
                atexit._run_exitfuncs()
                os._exit(0)
            os.waitpid(child, 0)
            print("forked", flush=True)
            sys.stdin.readline()
            dist.destroy_process_group()
            """, ranks=1)
        ranks[0].wait_for("forked")
        self.assertIsNone(ranks[0].left())
        self.assertEqual(ranks[0].ask_until(lambda answer: "groups" in answer)["groups"][0]["last"],
                         0)
        ranks[0].go_on()
        self.assertEqual(ranks[0].end()[0], 0)

    def test_recorder_that_is_off_is_said(self):
        ranks = self.start("""
            dist.all_reduce(torch.ones(4))
            print("reduced", flush=True)
            sys.stdin.readline()
            dist.destroy_process_group()
            """, ranks=1, TORCH_FR_BUFFER_SIZE="0")
        ranks[0].wait_for("reduced")
        answer = ranks[0].ask_until(lambda answer: True)
        self.assertRegex(answer["unavailable"], "^torch .*: its flight recorder has no entry of gloo, "
                         "as TORCH_FR_BUFFER_SIZE=0$")
        ranks[0].go_on()
        self.assertEqual(ranks[0].end()[0], 0)

    def test_errors_of_it_do_not_reach_the_script(self):
        ranks = self.start("""
            print("there", flush=True)
            sys.stdin.readline()
            os.rename(os.environ["PACELINE_DIR"], os.environ["PACELINE_DIR"] + ".gone")
            dist.all_reduce(torch.ones(4))
            raise ValueError("of the script")
            """, ranks=1)
        ranks[0].wait_for("there")
        ranks[0].ask_until(lambda answer: True)
        ranks[0].go_on()
        code, output = ranks[0].end()
        # A group that outlives Python may abort torch at its end (pytorch/pytorch#179291).
        if "terminate called without an active exception" not in output:
            self.assertEqual(code, 1)
        self.assertEqual(output.count("Traceback"), 1)
        self.assertIn("ValueError: of the script", output)

    def test_directory_that_is_not_there(self):
        ranks = self.start("print('here')\ndist.destroy_process_group()", ranks=1, PACELINE_DIR="/nowhere")
        self.assertEqual(ranks[0].end(), (0, "here\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
