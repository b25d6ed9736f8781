"""A Trainer class of a project's own, in the manner of Hugging Face: arguments in a dataclass,
batches as dicts, callbacks, evaluation each epoch, save_model."""
import os
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep


@dataclass
class TrainingArguments:
    output_dir: str = field(default_factory=lambda: os.environ.get("EVENSTEP_OUTPUT", "out"))
    num_train_epochs: int = 3
    per_step_batch_size: int = 96
    learning_rate: float = 5e-3
    max_grad_norm: float = 1.0
    logging_steps: int = 1


class ModelOutput(dict):
    __getattr__ = dict.__getitem__


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.LayerNorm(24))
        self.head = nn.Linear(24, 1)

    def forward(self, features, labels=None):
        logits = self.head(self.encoder(features)).squeeze(-1)
        loss = nn.functional.huber_loss(logits, labels) if labels is not None else None
        return ModelOutput(loss=loss, logits=logits)


class Rows(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.features = torch.randn(n, 10, generator=g)
        self.labels = self.features.pow(2).mean(1)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"features": self.features[i], "labels": self.labels[i]}


class Trainer:
    def __init__(self, model, args, train_dataset, eval_dataset, callbacks=()):
        self.model, self.args, self.callbacks = model, args, callbacks
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, eps=1e-3)
        loader = DataLoader(train_dataset, args.per_step_batch_size, shuffle=True)
        self.total_steps = args.num_train_epochs * len(loader)
        self.lr_scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, args.learning_rate, total_steps=self.total_steps)
        self.eval_dataloader = DataLoader(eval_dataset, 16)
        self.model, self.optimizer, self.train_dataloader, self.lr_scheduler = evenstep.prepare(
            self.model, self.optimizer, loader, self.lr_scheduler)
        self.state = {"global_step": 0, "log_history": []}

    def training_step(self, inputs):
        self.model.train()
        loss = self.compute_loss(inputs)
        loss.backward()
        return loss.detach()

    def compute_loss(self, inputs):
        return self.model(**inputs).loss

    def train(self):
        for epoch in range(self.args.num_train_epochs):
            for inputs in self.train_dataloader:
                loss = self.training_step(inputs)
                nn.utils.clip_grad_norm_(self.model.parameters(), self.args.max_grad_norm)
                self.optimizer.step()
                self.lr_scheduler.step()
                self.model.zero_grad()
                self.state["global_step"] += 1
                if self.state["global_step"] % self.args.logging_steps == 0:
                    self.log({"loss": loss.item(), "lr": self.lr_scheduler.get_last_lr()[0]})
            self.log(self.evaluate())
            for callback in self.callbacks:
                callback(self, epoch)

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        losses = [self.model(**inputs).loss.item() for inputs in self.eval_dataloader]
        return {"eval_loss": sum(losses) / len(losses)}

    def log(self, logs):
        self.state["log_history"].append(logs)
        if "eval_loss" in logs:
            evenstep.log(test_loss=logs["eval_loss"])
        if evenstep.is_main():
            print(logs)

    def save_model(self):
        if evenstep.is_main():
            folder = os.path.join(self.args.output_dir, f"checkpoint-{self.state['global_step']}")
            os.makedirs(folder, exist_ok=True)
            torch.save(self.model.state_dict(), os.path.join(folder, "pytorch_model.bin"))


if __name__ == "__main__":
    torch.manual_seed(8)
    trainer = Trainer(Regressor(), TrainingArguments(), Rows(96, 1), Rows(32, 2),
                      callbacks=[lambda t, epoch: print("epoch", epoch, "ended")])
    trainer.train()
    trainer.save_model()
