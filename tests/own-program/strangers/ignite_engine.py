"""Ignite: an engine that trains, one that evaluates after each epoch, metrics and handlers."""
import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(3)
x = torch.randn(200, 10)
y = x[:, :4].argmax(1)
train_loader = DataLoader(TensorDataset(x[:160], y[:160]), batch_size=32, shuffle=False)
val_loader = DataLoader(TensorDataset(x[160:], y[160:]), batch_size=40)
model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
criterion = nn.CrossEntropyLoss()
model, optimizer, train_loader = evenstep.prepare(model, optimizer, train_loader)

trainer = create_supervised_trainer(model, optimizer, criterion)
metrics = {"accuracy": Accuracy(), "nll": Loss(criterion)}
evaluator = create_supervised_evaluator(model, metrics=metrics)


@trainer.on(Events.EPOCH_COMPLETED)
def validate(engine):
    evaluator.run(val_loader)
    found = evaluator.state.metrics
    print(f"epoch {engine.state.epoch}, {engine.state.iteration} steps: {found['accuracy']:.3f}")
    evenstep.log(test_loss=found["nll"], test_accuracy=found["accuracy"])


@trainer.on(Events.COMPLETED)
def ended(engine):
    print(f"trained {engine.state.epoch} epochs")


trainer.run(train_loader, max_epochs=3)
