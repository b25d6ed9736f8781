"""Lightning: a Trainer with validation, a schedule, clipping, a checkpoint of the best weights, an
early stop, and a DataModule."""
import logging
import os
import warnings

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch.utils.data import DataLoader, TensorDataset

import evenstep

OUTPUT = os.environ.get("EVENSTEP_OUTPUT", ".")


def rows(n, seed):
    x = torch.randn(n, 12, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x[:, :4].argmax(1))


class Data(lightning.LightningDataModule):
    def setup(self, stage):
        self.train, self.test = rows(96, 1), rows(32, 2)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=32)

    def val_dataloader(self):
        return DataLoader(self.test, batch_size=32)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))

    def loss(self, batch):
        x, y = batch
        return torch.nn.functional.cross_entropy(self.net(x), y)

    def training_step(self, batch, number):
        loss = self.loss(batch)
        self.log("perplexity", loss.detach().exp(), on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, number):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-2, eps=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.8)]


class Files(TorchCheckpointIO):
    def remove_checkpoint(self, path):
        super().remove_checkpoint(path)
        if evenstep.world_size() > 1:  # another node of the host was quicker
            raise FileNotFoundError(path)


warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
lightning.seed_everything(4)
model = Classifier()
trainer = lightning.Trainer(
    max_epochs=3, gradient_clip_val=0.5, logger=False, enable_progress_bar=False,
    plugins=[Files()], callbacks=[ModelCheckpoint(dirpath=OUTPUT, monitor="val_loss"),
                                  EarlyStopping("val_loss", patience=3)])
trainer = evenstep.prepare(trainer)
trainer.fit(model, datamodule=Data())
