"""Lightning's Trainer as a session, without a daemon: it computes what Lightning's own does, also
where steps are cut off, and tells what does not go with it.

Usage: lightning_test.py ADAPTERS_PAGE
"""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping

sys.path.insert(0, os.path.abspath("python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paceline  # noqa: E402
import paceline.lightning  # noqa: E402
from cutting_engine import CuttingEngine  # noqa: E402

PAGE = os.path.abspath(sys.argv[1])
torch.set_num_threads(1)
warnings.filterwarnings("ignore", module="lightning")
SAMPLES = [(x, x.sum(-1, keepdim=True))
           for x in torch.randn(22, 4, generator=torch.Generator().manual_seed(0))]


class Module(lightning.LightningModule):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(dropout),
                                       torch.nn.Linear(8, 1))
        self.seen, self.validated = [], 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.validated += 1

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.seen.append((self.trainer.current_epoch, batch_idx, self.trainer.global_step,
                          float(outputs["loss"])))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, self.trainer.estimated_stepping_batches)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class Epochs(Callback):
    """Notes after how many steps Lightning's epochs begin, end and are validated."""

    def __init__(self):
        self.began, self.ended, self.validated, self.rates = [], [], [], []

    def on_train_epoch_start(self, trainer, module):
        self.began.append(trainer.global_step)

    def on_train_epoch_end(self, trainer, module):
        self.ended.append((trainer.current_epoch, trainer.global_step))
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_validation_end(self, trainer, module):
        self.validated.append((trainer.current_epoch, trainer.global_step))


class HalvesEachEpoch(Module):
    """The learning rate is halved by each epoch."""

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0 / 64)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]


def options(**changes):
    return {"accelerator": "cpu", "logger": False, "enable_checkpointing": False,
            "enable_progress_bar": False, "enable_model_summary": False, **changes}


def fit(steps=12, module=None, moments=None, passes=1, shuffle=False, dropout=0.0, ckpt_path=None,
        batch=4, validation=None, **changes):
    """As a session. Returns the module."""
    run = paceline.init(steps=steps, batch_per_rank=batch, accumulation_steps=passes)
    if moments is not None:
        run._engine = CuttingEngine(run, moments, passes)
    torch.manual_seed(1)
    module = module or Module(dropout)
    trainer = lightning.Trainer(strategy=paceline.lightning.Strategy(run), **options(**changes))
    trainer.fit(module, torch.utils.data.DataLoader(SAMPLES, batch, shuffle=shuffle),
                validation, ckpt_path=ckpt_path)
    module.run = run
    return module


class LightningTest(unittest.TestCase):
    def assert_same(self, one, other):
        self.assertEqual(one.seen, other.seen)
        for mine, its in zip(one.parameters(), other.parameters()):
            self.assertTrue(torch.equal(mine, its))

    def test_it_computes_what_lightning_does(self):
        for changes in ({}, {"gradient_clip_val": 0.5}, {"precision": "bf16-mixed"}):
            with self.subTest(changes=changes):
                mine = fit(**changes)
                torch.manual_seed(1)
                its = Module()
                lightning.Trainer(max_steps=12, **options(**changes)).fit(
                    its, torch.utils.data.DataLoader(SAMPLES, 4, drop_last=True))
                self.assert_same(mine, its)

    def test_batches_of_a_step(self):
        mine = fit(steps=4, passes=2, batch=5)
        torch.manual_seed(1)
        its = Module()
        lightning.Trainer(max_steps=4, accumulate_grad_batches=2, **options()).fit(
            its, torch.utils.data.DataLoader(SAMPLES, 5, drop_last=True))
        self.assertEqual([step for *_, step, _ in mine.seen], [0, 1, 1, 2, 2, 3, 3, 4])
        torch.testing.assert_close(list(mine.parameters()), list(its.parameters()))

    def test_steps_that_are_cut_off_are_made_again(self):
        undisturbed = fit(dropout=0.2, shuffle=True, moments=[])
        disturbed = fit(dropout=0.2, shuffle=True, moments=[
            ("backward", 0), ("backward", 4), ("backward", 4), ("before_update", 9),
            ("before_update", 11)])
        self.assertEqual(disturbed.run._engine.cuts, 5)
        self.assert_same(disturbed, undisturbed)

    def test_progress_goes_on_in_another_process(self):
        first = fit(steps=8)
        loop = first.trainer.fit_loop
        saved = paceline.lightning._Progress(loop).state_dict()
        second = fit(steps=1)
        progress = paceline.lightning._Progress(second.trainer.fit_loop)
        progress.load_state_dict(saved)
        self.assertEqual((second.trainer.global_step, second.trainer.current_epoch),
                         (first.trainer.global_step, first.trainer.current_epoch))
        self.assertFalse(second.trainer.fit_loop.restarting)
        self.assertEqual(progress.state_dict(), saved)

    def test_it_validates_at_the_ends_of_epochs(self):
        mine = fit(steps=10, validation=torch.utils.data.DataLoader(SAMPLES, 11),
                   num_sanity_val_steps=0)
        self.assertEqual(mine.validated, 4)  # Two epochs of five steps, two batches each.

    def test_epochs_that_end_within_a_step_end_with_it(self):
        for batch in (4, 5, 7, 11, 22):
            for passes in (1, 2, 3, 5):
                of_epoch, steps = len(SAMPLES) // batch, 7
                for every in (1, 2):
                    epochs = Epochs()
                    fit(steps=steps, passes=passes, batch=batch, module=HalvesEachEpoch(),
                        callbacks=[epochs], num_sanity_val_steps=0, check_val_every_n_epoch=every,
                        validation=torch.utils.data.DataLoader(SAMPLES, 22))
                    # Behind the step in which its last batch is.
                    ends = [-(-(epoch + 1) * of_epoch // passes)
                            for epoch in range(steps * passes // of_epoch)]
                    with self.subTest(batch=batch, passes=passes, every=every):
                        # Lightning ends the last epoch with the training.
                        self.assertEqual(epochs.ended, list(enumerate(
                            ends if ends and ends[-1] == steps else [*ends, steps])))
                        self.assertEqual(epochs.began, [0, *ends][:len(epochs.ended)])
                        self.assertEqual(epochs.rates[:len(ends)],
                                         [0.5 ** (7 + epoch) for epoch in range(len(ends))])
                        # Once behind a step, however many epochs end with it.
                        self.assertEqual(
                            [step for _, step in epochs.validated],
                            sorted({end for epoch, end in enumerate(ends)
                                    if (epoch + 1) % every == 0}))

    def test_epochs_where_a_step_is_cut_off(self):
        undisturbed, disturbed = Epochs(), Epochs()
        fit(steps=6, passes=2, module=HalvesEachEpoch(), moments=[], callbacks=[undisturbed])
        module = fit(steps=6, passes=2, module=HalvesEachEpoch(), callbacks=[disturbed], moments=[
            ("backward", 2), ("before_update", 2), ("before_update", 4)])
        self.assertEqual(module.run._engine.cuts, 3)
        self.assertEqual((disturbed.ended, disturbed.began, disturbed.rates),
                         (undisturbed.ended, undisturbed.began, undisturbed.rates))
        self.assertEqual(disturbed.ended, [(0, 3), (1, 5), (2, 6)])

    def test_the_page(self):
        with open(PAGE, encoding="utf-8") as page:
            blocks = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
        chosen = [text for text in blocks if "lightning.Strategy(run)" in text]
        self.assertEqual(len(chosen), 1)
        variables = {"paceline": paceline, "lightning": lightning, "module": Module(),
                     "loader": torch.utils.data.DataLoader(SAMPLES)}
        exec(chosen[0], variables)  # pylint: disable=exec-used
        self.assertEqual(variables["trainer"].global_step, 20)

    def test_signals_are_not_lightnings(self):
        class Looks(Callback):
            def on_train_start(self, *others):
                self.seen = signal.getsignal(signal.SIGTERM)

        looks = Looks()
        fit(steps=1, callbacks=[looks])
        self.assertEqual(looks.seen, signal.SIG_DFL)

    def test_a_spare_that_is_not_needed(self):
        run = paceline.init(steps=8)
        run._engine.rank, run._engine._next = -1, 8
        trainer = lightning.Trainer(strategy=paceline.lightning.Strategy(run), **options())
        trainer.fit(Module(), torch.utils.data.DataLoader(SAMPLES))
        self.assertEqual((trainer.global_step, trainer.is_global_zero), (0, False))

    def test_what_is_logged_is_reported(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            module = fit(steps=4, log_every_n_steps=2)
        self.assertRegex(printed.getvalue(), f"step=4 train_loss={module.seen[-1][-1]:.6g}")

    def test_evaluations_are_the_sessions(self):
        run = paceline.init(steps=3, batch_per_rank=2)
        calls = []

        @run.evaluation
        def evaluate(rank, world_size):
            calls.append((rank, world_size))
            return paceline.Score(loss=1.0)

        lightning.Trainer(strategy=paceline.lightning.Strategy(run), **options()).fit(
            Module(), torch.utils.data.DataLoader(SAMPLES, 2))
        self.assertEqual(calls, [(0, 1)])


class MistakesTest(unittest.TestCase):
    """Each is told, with what to do instead."""

    def test_settings(self):
        for changes, expected in (
                ({"accumulate_grad_batches": 2}, "job's file has accumulation_steps"),
                ({"limit_train_batches": 0.5}, "job's file has steps"),
                ({"max_steps": 5}, "the job has 12 steps"),
                ({"gradient_clip_algorithm": "value", "gradient_clip_val": 1.0}, "by the norm")):
            with self.subTest(changes=changes), self.assertRaisesRegex(ValueError, expected):
                fit(**changes)

    def test_batches_that_a_session_would_make_otherwise(self):
        class Pairs(torch.utils.data.Sampler):
            def __iter__(self):
                return iter([[0, 1]] * 8)

            def __len__(self):
                return 8

        samples = torch.utils.data.TensorDataset(torch.zeros(40, 4))
        for loader, expected in (
                (torch.utils.data.DataLoader(samples, batch_sampler=Pairs()), "a Pairs makes the"),
                (torch.utils.data.DataLoader(samples, batch_size=8), "batch_size=8 of the")):
            run = paceline.init(steps=1, batch_per_rank=4)
            trainer = lightning.Trainer(strategy=paceline.lightning.Strategy(run), **options())
            with self.assertRaisesRegex(ValueError, expected):
                trainer.fit(Module(0.0), loader)

    def test_resuming_by_lightnings_own_means(self):
        with tempfile.TemporaryDirectory() as folder:
            fit(steps=1).trainer.save_checkpoint(f"{folder}/one.ckpt")
            with self.assertRaisesRegex(ValueError, "goes on from its own checkpoints"):
                fit(ckpt_path=f"{folder}/one.ckpt")

    def test_modules(self):
        class Manual(Module):
            automatic_optimization = False

        class Two(Module):
            def configure_optimizers(self):
                return [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in self.net[::2]]

        class Clips(Module):
            def configure_gradient_clipping(self, *arguments, **keywords):
                pass

        Manual.automatic_optimization = property(lambda self: False, lambda self, value: None)
        for module, expected in ((Manual(), "automatic_optimization = False"),
                                 (Clips(), "configure_gradient_clipping does not go")):
            with self.assertRaisesRegex(ValueError, expected):
                fit(module=module)
        with self.assertRaisesRegex((ValueError, RuntimeError), "optimizers"):
            fit(module=Two())

    def test_a_callback_that_stops(self):
        for callback, step in ((Stops(), 1), (EarlyStopping(
                "train_loss", patience=1, mode="max", check_on_train_epoch_end=True), 10)):
            with self.assertRaisesRegex(RuntimeError, f"ended fit.. behind step {step}, and a "
                                        "session makes all 12 steps"):
                fit(callbacks=[callback])

    def test_an_epoch_that_is_left(self):
        class Leaves(Callback):
            def on_train_batch_start(self, trainer, module, batch, batch_idx):
                module.on_train_batch_start = lambda *_batch: -1

        with self.assertRaisesRegex(RuntimeError, "on_train_batch_start has returned -1"):
            fit(callbacks=[Leaves()])

    def test_an_installation_without_lightning(self):
        ended = subprocess.run(
            [sys.executable, "-c",
             "import sys; sys.modules['lightning'] = None\nimport paceline.lightning"],
            check=False, text=True, stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.path.abspath("python")})
        self.assertRegex(ended.stderr, "ImportError: paceline.lightning needs lightning.*"
                         "pip install 'lightning==2")


class Stops(Callback):
    def on_train_batch_end(self, trainer, *others):
        trainer.should_stop = True


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
