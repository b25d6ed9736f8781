"""No optimizer: parameters are stepped by hand, as in PyTorch's own first tutorial; one batch is
looked at before, and the accuracy on the training set is counted after each epoch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

lr = 0.5
torch.manual_seed(4)
x = torch.randn(96, 6)
y = (x[:, 0] > 0).long()
train_dl = DataLoader(TensorDataset(x, y), batch_size=96, shuffle=True)


class Logistic(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Parameter(torch.randn(6, 2) / 6 ** 0.5)
        self.bias = nn.Parameter(torch.zeros(2))

    def forward(self, xb):
        return xb @ self.weights + self.bias


def check_accuracy(loader, model):
    num_correct = num_samples = 0
    model.eval()
    with torch.no_grad():
        for xb, yb in loader:
            num_correct += (model(xb).argmax(1) == yb).sum()
            num_samples += xb.size(0)
    model.train()
    print(f"Got {num_correct} / {num_samples} with accuracy {float(num_correct) / num_samples:.2f}")


model = Logistic()
model, train_dl = evenstep.prepare(model, train_dl)
xb, yb = next(iter(train_dl))
print("a batch:", xb.shape[1:], yb.dtype)

for epoch in range(4):
    for xb, yb in train_dl:
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= p.grad * lr
            model.zero_grad()
    check_accuracy(train_dl, model)
