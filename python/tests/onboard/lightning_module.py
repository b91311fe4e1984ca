"""Lightning."""
import lightning as L
import torch


class Module(L.LightningModule):
    def training_step(self, batch, _):
        return self(batch).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


L.Trainer(max_epochs=3).fit(Module())
