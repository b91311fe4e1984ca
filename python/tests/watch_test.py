"""Unchanged scripts are watched: loops of every kind, and those of the real libraries."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
from collections import UserDict
from types import SimpleNamespace

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.dirname(HERE)
SITE = os.path.join(PYTHON, "paceline", "site")
EXAMPLES = os.path.join(os.path.dirname(PYTHON), "examples")
FOLDER = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
RING = os.path.join(FOLDER.name, "ring")

sys.path[:0] = [HERE, PYTHON]
from ring import make_ring, read_live, read_ring

os.environ["PACELINE_RING"] = make_ring(RING)
started = set(sys.modules)
import paceline.watch

assert not any(name.split(".")[0] in ("torch", "numpy", "asyncio", "typing", "logging")
               for name in set(sys.modules) - started), set(sys.modules) - started
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


class SlowSamples(torch.utils.data.Dataset):
    """Makes each sample while the training waits for it; takes 10 ms."""

    def __len__(self):
        return 16

    def __getitem__(self, index):
        while not self.is_awaited():
            time.sleep(0.001)
        time.sleep(0.01)
        return torch.zeros(8)

    @staticmethod
    def is_awaited():
        try:
            return read_live(RING)[0] == "data_wait"
        except AssertionError:  # It is changing right now.
            return False


class Broken(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise LookupError(index)


def samples(count):
    return TensorDataset(torch.randn(count, 8), torch.randn(count, 1))


class Training:
    def __init__(self, kind=torch.optim.SGD, **options):
        self.model = nn.Linear(8, 1)
        self.optimizer = kind(self.model.parameters(), lr=0.125, **options)

    def loss(self, inputs):
        return self.model(inputs).square().mean()

    def step(self, inputs=torch.ones(4, 8)):
        self.optimizer.zero_grad()
        self.loss(inputs).backward()
        self.optimizer.step()


class StepsTest(unittest.TestCase):
    """Watches this process, which imported paceline.watch before torch."""

    def setUp(self):
        self.first = len(read_ring(RING))
        watch = torch._paceline_watch  # As if the process had just begun:
        watch.has_loader, watch.leader, watch.ring.phase = False, lambda: None, 8

    def records(self):
        found = read_ring(RING, self.first)
        for number, record in enumerate(found):
            self.assertEqual(record.step, self.first + number)
            self.assertGreater(record.optimizer, 0)
            self.assertGreater(record.backward, 0)
        return found

    def test_loop_with_a_loader(self):
        training = Training()
        for inputs, _ in DataLoader(samples(60), batch_size=16):
            training.step(inputs)
        found = self.records()
        self.assertEqual([record.samples for record in found], [16, 16, 16, 12])
        for before, record in zip(found, found[1:]):
            self.assertEqual(record.start, before.end)
            self.assertGreater(record.data_wait, 0)
            self.assertGreater(record.forward, 0)
            self.assertGreater(record.idle, 0)
            self.assertEqual(record.learning_rate, 0.125)
            self.assertFalse(record.masked)
        self.assertEqual(read_live(RING), ("idle", self.first + 4))

    def test_waits_for_workers_are_data_waits(self):
        training = Training()
        training.step()
        for inputs in DataLoader(SlowSamples(), batch_size=4, num_workers=2):
            training.step(inputs)
        found = self.records()
        self.assertEqual(len(found), 1 + 4)
        self.assertGreater(found[1].data_wait, 30e6)

    def test_accumulated_batches_are_one_step(self):
        training = Training()
        for number, (inputs, _) in enumerate(DataLoader(samples(64), batch_size=8)):
            training.loss(inputs).backward()
            if number % 4 == 3:
                training.optimizer.step()
        self.assertEqual([record.samples for record in self.records()], [32, 32])

    def test_of_two_optimizers_the_first_ends_steps(self):
        first, second = Training(), Training()
        for _ in range(3):
            first.step()
            second.step()
        self.assertEqual(len(self.records()), 3)
        first = None
        gc.collect()
        for _ in range(3):
            second.step()
        self.assertEqual(len(self.records()), 6)

    def test_an_optimizer_that_rests_loses_the_lead(self):
        resting, other = Training(), Training()
        resting.step()
        for _ in range(paceline.watch.PATIENCE + 4):
            other.step()
        self.assertEqual(len(self.records()), 1 + 5)
        other.step()
        self.assertEqual(len(self.records()), 1 + 6)

    def test_step_that_the_scaler_leaves_out_is_one(self):
        training = Training()
        scaler = torch.amp.GradScaler("cpu")
        for scale in (1, float("inf"), 1):
            training.optimizer.zero_grad()
            scaler.scale(training.loss(torch.ones(4, 8)) * scale).backward()
            scaler.step(training.optimizer)
            scaler.update()
        found = read_ring(RING, self.first)
        self.assertEqual([record.optimizer > 0 for record in found], [True, False, True])

    def test_loop_without_a_loader(self):
        training = Training()
        training.step()
        self.assertEqual(read_live(RING), ("forward", self.first + 1))
        training.step()
        found = self.records()
        self.assertEqual(len(found), 2)
        self.assertGreater(found[1].forward, 0)
        self.assertEqual((found[1].data_wait, found[1].idle, found[1].samples), (0, 0, 0))

    def test_evaluation_is_no_part_of_a_step(self):
        training = Training()
        training.step()
        with torch.no_grad():
            for inputs, _ in DataLoader(samples(4), batch_size=2):
                training.loss(inputs)
                self.assertEqual(read_live(RING), ("evaluating", self.first + 1))
                evaluating = time.monotonic_ns()
        self.assertEqual(read_live(RING), ("idle", self.first + 1))
        for inputs, _ in DataLoader(samples(4), batch_size=2):
            training.step(inputs)
        found = self.records()
        self.assertEqual([record.masked for record in found[1:]], [True, False])
        self.assertGreater(found[1].start, evaluating)
        self.assertEqual([record.samples for record in found], [0, 2, 2])

    def test_an_epoch_ends_in_a_step_that_is_masked(self):
        training = Training()
        loader = DataLoader(samples(4), batch_size=2)
        for _ in range(2):
            for inputs, _ in loader:
                training.step(inputs)
        self.assertEqual([record.masked for record in self.records()][1:], [False, True, False])

    def test_only_sure_samples_are_counted(self):
        training = Training()
        words = DataLoader(samples(4), batch_size=2, collate_fn=lambda batch: torch.ones(5, 8))
        for inputs in words:  # The first dimension is not the samples.
            training.step(inputs)
        for batch in DataLoader([{"x": torch.ones(8)}] * 4, batch_size=2,
                                collate_fn=lambda rows: UserDict(default_collate(rows))):
            training.step(batch["x"])
        for inputs, others in zip(DataLoader(samples(4), batch_size=2),
                                  DataLoader(samples(4), batch_size=2)):
            training.step(inputs[0])
            self.assertEqual(len(others), 2)
        self.assertEqual([record.samples for record in self.records()], [0, 0, 2, 2, 2, 2])

    def test_passes_inside_of_a_closure(self):
        training = Training(torch.optim.LBFGS, max_iter=2)

        def closure():
            training.optimizer.zero_grad()
            loss = training.loss(torch.ones(4, 8))
            loss.backward()
            return loss

        for _ in range(2):
            training.optimizer.step(closure)
        other = Training()
        for _ in range(2):
            other.loss(torch.ones(4, 8)).backward()
            other.optimizer.step(lambda: None)  # Like Lightning after manual passes.
            training.optimizer.step(closure)
        found = self.records()
        self.assertEqual(len(found), 4)
        self.assertGreater(found[1].forward, 0)

    def test_optimizers_that_step_inside_the_backward_pass(self):
        model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(40)))
        optimizers = {}

        def update(parameter):
            optimizers[parameter].step()

        for parameter in model.parameters():
            optimizers[parameter] = torch.optim.SGD([parameter], lr=0.1)
            parameter.register_post_accumulate_grad_hook(update)
        for _ in range(3):
            model(torch.ones(4, 8)).sum().backward()
        self.assertEqual(len(self.records()), 3)

    def test_optimizer_that_steps_in_a_thread_of_autograds(self):
        training = Training()

        def update(_):
            thread = threading.Thread(target=training.optimizer.step)
            thread.start()
            thread.join()

        for _ in range(3):
            loss = training.loss(torch.ones(4, 8))
            loss.register_hook(update)
            loss.backward()
        self.assertEqual(len(self.records()), 3)

    def test_step_that_calls_its_bases(self):
        class Noisy(torch.optim.SGD):
            def step(self, closure=None):
                super().step(closure)

        Training().step()  # From now on SGD.step itself calls hooks.
        training = Training(Noisy)
        torch._paceline_watch.leader = lambda: None
        for _ in range(3):
            training.step()
        self.assertEqual(len(self.records()), 1 + 3)

    def test_backward_inside_of_backward(self):
        training = Training()
        inputs = torch.ones(4, 8, requires_grad=True)
        checkpoint(training.loss, inputs, use_reentrant=True).backward()
        training.optimizer.step()
        self.assertEqual(len(self.records()), 1)

    def test_compiled(self):
        training = Training()
        training.model = torch.compile(training.model, backend="eager", fullgraph=True)
        whole = torch.compile(training.step, backend="eager")
        for inputs, _ in DataLoader(samples(4), batch_size=2):
            training.step(inputs)
        for inputs, _ in DataLoader(samples(4), batch_size=2):
            whole(inputs)
        self.assertEqual([record.samples for record in self.records()], [2] * 4)

    def test_compiled_by_an_old_torch(self):
        class Rested(torch.optim.Optimizer):
            def __init__(self, parameters, lr):
                super().__init__(parameters, {"lr": lr})

            def step(self, closure=None):
                pass

        paceline.watch.keep_hooks(SimpleNamespace(Rested=Rested, Optimizer=torch.optim.Optimizer))
        # As its torch.compile does.
        Rested.step = getattr(Rested.step, "__wrapped__", None) or Rested.step
        Rested.step.hooked = True
        training = Training(Rested)
        training.step()
        training.step()
        self.assertEqual(len(self.records()), 2)

    def test_forked_child_does_not_write(self):
        training = Training()
        training.step()
        child = os.fork()
        if child == 0:
            try:
                for inputs, _ in DataLoader(samples(4), batch_size=2):
                    training.step(inputs)
                os._exit(0)
            finally:
                os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(len(self.records()), 1)
        training.step()
        self.assertEqual(len(self.records()), 2)

    def test_other_threads_are_not_the_training(self):
        training = Training()
        training.step()

        def read():
            self.assertEqual(len(list(DataLoader(samples(4), batch_size=2))), 2)
            Training().step()

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        training.step()
        found = self.records()
        self.assertEqual([(record.samples, record.data_wait) for record in found], [(0, 0)] * 2)

    def test_tracebacks_have_no_frame_of_the_watching(self):
        def fetch():
            next(iter(DataLoader(Broken())))

        def passes():
            torch.ones(1).backward()

        def scaled():
            torch.amp.GradScaler("cpu").step(training.optimizer)

        training = Training()
        training.step()
        for fails in (fetch, passes, scaled):
            try:
                fails()
                self.fail(fails)
            except (LookupError, RuntimeError, AssertionError) as error:
                frames = traceback.extract_tb(error.__traceback__)
            self.assertGreater(len(frames), 2, fails)
            self.assertFalse([frame for frame in frames if "paceline" in frame.filename], fails)
        training.step()
        self.assertEqual(len(self.records()), 2)


class LibraryTest(unittest.TestCase):
    """Typical scripts with the real libraries."""

    def setUp(self):
        # The ranks meet in it, as under torchrun.
        self.store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    def start(self, script, *arguments, rank=0, ranks=1):
        """Starts a script of the folder `examples`."""
        ring = make_ring(os.path.join(FOLDER.name, f"{script}.{rank}"))
        environment = {**os.environ, "PACELINE_RING": ring, "PYTHONPATH": SITE, "RANK": str(rank),
                       "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1",
                       "LOCAL_WORLD_SIZE": str(ranks), "TORCHELASTIC_RUN_ID": script,
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.store.port),
                       "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
                       "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(
            [sys.executable, os.path.join(EXAMPLES, script), *arguments], env=environment,
            cwd=FOLDER.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return process, ring

    def finish(self, process, ring):
        output = process.communicate()[0]
        # On a busy machine, a thread of torch's group may be told of a collective's end when Python
        # ends already, and then torch aborts (pytorch#179291): all steps are made.
        aborted = (process.returncode == -signal.SIGABRT
                   and output.endswith("terminate called without an active exception\n"))
        self.assertTrue(aborted or process.returncode == 0, (process.returncode, output))
        self.assertNotIn("paceline: ", output)
        found = read_ring(ring)
        for record in found:
            self.assertGreater(record.forward, 0)
            self.assertGreater(record.backward, 0)
            self.assertGreater(record.optimizer, 0)
        return found

    def test_ranks_of_ddp(self):
        ranks = [self.start("ddp.py", "--epochs", "1", "--width", "4", rank=rank, ranks=2)
                 for rank in range(2)]
        for rank in ranks:
            found = self.finish(*rank)
            self.assertEqual([record.samples for record in found], [32] * 22 + [15])
            self.assertTrue(all(record.data_wait for record in found))

    def test_ranks_of_fsdp2(self):
        """A script that gathers its parameters in the forward pass."""
        ranks = [self.start("fsdp2.py", "--steps", "8", "--layers", "1", "--dim", "32", "--checkpoints",
                            os.path.join(FOLDER.name, "fsdp2"), rank=rank, ranks=2)
                 for rank in range(2)]
        for rank in ranks:
            found = self.finish(*rank)
            self.assertEqual([record.samples for record in found], [16] * 8)
            self.assertTrue(all(record.data_wait for record in found))

    def test_accelerate(self):
        found = self.finish(*self.start("accelerated.py", "--epochs", "1"))
        # 113 batches, 2 per step, and one fetched ahead.
        self.assertEqual([record.samples for record in found], [48, *[32] * 54, 21, 0])

    def test_lightning(self):
        found = self.finish(*self.start("lightning_fit.py", "--epochs", "2"))
        self.assertEqual([record.samples for record in found], ([32] * 44 + [30]) * 2)

    def test_trainer_of_transformers(self):
        found = self.finish(*self.start("transformers_trainer.py", "--epochs", "2", "--output",
                                        os.path.join(FOLDER.name, "sums")))
        self.assertEqual(len(found), 20)
        # It fetches a batch ahead.
        self.assertEqual(sum(record.samples for record in found[:10]), 80)
        self.assertFalse(found[1].masked)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
