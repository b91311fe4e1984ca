"""Lightning: two epochs of 4 batches, an evaluation after each."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch, _):
        inputs, targets = batch
        return nn.functional.mse_loss(self.layer(inputs), targets)

    validation_step = training_step

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


loader = DataLoader(TensorDataset(torch.randn(16, 8), torch.randn(16, 1)), batch_size=4)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", devices=1, logger=False,
                            enable_checkpointing=False, enable_progress_bar=False)
trainer.fit(Model(), loader, loader)
