"""Lightning trains a perceptron on scikit-learn's handwritten digits.

Start:      paceline run --ranks 2 examples/lightning_fit.py
On GPUs:    paceline run --ranks 8 --device cuda examples/lightning_fit.py
Or:         torchrun --nproc-per-node 2 examples/lightning_fit.py
"""

import argparse
import os

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset, random_split


class Perceptron(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))

    def training_step(self, batch, _):
        images, labels = batch
        return cross_entropy(self.layers(images), labels)

    def validation_step(self, batch, _):
        images, labels = batch
        right = (self.layers(images).argmax(1) == labels).float().mean()
        self.log("accuracy", right, sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    lightning.seed_everything(0)
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
    train, test = random_split(data, [0.8, 0.2])
    # Lightning finds the ranks by itself, but needs their number.
    trainer = lightning.Trainer(
        max_epochs=args.epochs, accelerator="auto", strategy="ddp",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
        logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Perceptron(), DataLoader(train, 32), DataLoader(test, 64))
    if trainer.is_global_zero:
        print(f"done: accuracy {100 * trainer.callback_metrics['accuracy'].item():.1f} %", flush=True)


if __name__ == "__main__":
    main()
