"""A user's script with Lightning's Trainer as a session: a perceptron with dropout. At the end it
writes all that it has trained to OUT.

`AT` has, for each generation from the first on and separated by commas, `event step rank`: the rank
kills itself there.
"""

import os
import signal

import lightning
import torch
from torch import nn

import paceline
from paceline.lightning import Strategy

settings = os.environ
AT = [moment.split() for moment in settings.get("AT", "").split(",")]


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(0.2), nn.Linear(16, 3))

    def at(self, event):
        moment = AT[run.generation - 1] if 0 < run.generation <= len(AT) else []
        if moment[:3] == [event, str(self.trainer.global_step), str(run.rank)]:
            os.kill(os.getpid(), signal.SIGKILL)

    def training_step(self, batch, _batch_idx):
        self.at("forward")
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def on_after_backward(self):
        self.at("backward")

    def on_before_optimizer_step(self, _optimizer):
        self.at("before_update")

    def on_train_batch_end(self, *_outputs):
        self.at("updated")

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimizer, self.trainer.estimated_stepping_batches)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


run = paceline.init()
torch.manual_seed(1)
torch.set_num_threads(1)
module = Module()
inputs = torch.randn(203, 8, generator=torch.Generator().manual_seed(2))
data = torch.utils.data.TensorDataset(inputs, inputs[:, :3].argmax(1))
trainer = lightning.Trainer(
    strategy=Strategy(run), accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, gradient_clip_val=1.0, log_every_n_steps=4)
trainer.fit(module, torch.utils.data.DataLoader(data, shuffle=True))
if run.rank >= 0:
    state = [p.detach() for p in module.parameters()]
    for one in trainer.optimizers[0].state.values():
        state += [one[name] for name in sorted(one)]
    state += [torch.rand(1), torch.tensor([float(trainer.global_step), trainer.current_epoch])]
    with open(f"{settings['OUT']}/final.rank{run.rank}.safetensors", "wb") as file:
        for tensor in state:
            file.write(tensor.double().numpy().tobytes())
print("the script has ended", flush=True)
