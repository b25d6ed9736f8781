"""Training that is aware of quantization, as torch.ao has it: observers of weights and
activations, switched off for the last epoch."""
import torch
from torch import nn
from torch.ao import quantization as tq
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
x = torch.randn(96, 6)
y = x.sum(1, keepdim=True).sin()
loader = DataLoader(TensorDataset(x, y), batch_size=32)
model = nn.Sequential(tq.QuantStub(), nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1),
                      tq.DeQuantStub())
model.train()
model.qconfig = tq.get_default_qat_qconfig("fbgemm")
tq.prepare_qat(model, inplace=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(4):
    for a, b in loader:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(a), b).backward()
        optimizer.step()
    if epoch == 2:
        model.apply(tq.disable_observer)
