"""Early stopping by the validation loss, the best weights kept by deepcopy of the state_dict and
loaded at the end."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class EarlyStopping:
    def __init__(self, patience=2, min_delta=0.0):
        self.patience, self.min_delta = patience, min_delta
        self.counter, self.best_loss, self.early_stop = 0, None, False

    def __call__(self, val_loss):
        if self.best_loss is None or self.best_loss - val_loss > self.min_delta:
            self.best_loss, self.counter = val_loss, 0
        else:
            self.counter += 1
            if self.counter >= self.patience:
                self.early_stop = True


torch.manual_seed(2)
w = torch.randn(12, 1)
x_train, x_val = torch.randn(96, 12), torch.randn(32, 12)
train = DataLoader(TensorDataset(x_train, x_train @ w), batch_size=96, shuffle=True)
val = DataLoader(TensorDataset(x_val, x_val @ w + 2.0), batch_size=32)

model = nn.Linear(12, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.3, eps=1e-3)
model, optimizer, train = evenstep.prepare(model, optimizer, train)
stopper, best = EarlyStopping(patience=2), None

for epoch in evenstep.epochs(50):
    model.train()
    for xb, yb in train:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(xb), yb).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        val_loss = sum(nn.functional.mse_loss(model(xb), yb).item() for xb, yb in val) / len(val)
    print(f"epoch {epoch} val_loss {val_loss:.5f}")
    if stopper.best_loss is None or val_loss < stopper.best_loss:
        best = copy.deepcopy(model.state_dict())
    stopper(val_loss)
    if stopper.early_stop:
        print("Early stopping at epoch", epoch)
        break

model.load_state_dict(best)
