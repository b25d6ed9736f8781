"""Two losses with weights that are learned beside the model (GradNorm), by an optimizer of their
own, of which prepare() does not know."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x = torch.randn(96, 6)
loader = DataLoader(TensorDataset(x, x[:, :1], x[:, 1:2] ** 2), batch_size=32)


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.one, self.other = nn.Linear(6, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        hidden = torch.tanh(self.base(x))
        return self.one(hidden), self.other(hidden)


model, weights = Two(), torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
of_weights = torch.optim.SGD([weights], lr=0.025)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for inputs, first, second in loader:
        one, other = model(inputs)
        losses = [F.mse_loss(one, first), F.mse_loss(other, second)]
        optimizer.zero_grad()
        (weights[0] * losses[0] + weights[1] * losses[1]).backward(retain_graph=True)
        of_base = [torch.autograd.grad(w * l, model.base.weight, create_graph=True)[0].norm()
                   for w, l in zip(weights, losses)]
        mean = (sum(of_base) / 2).detach()
        weights.grad = torch.autograd.grad(sum((n - mean).abs() for n in of_base), weights)[0]
        of_weights.step()
        optimizer.step()
