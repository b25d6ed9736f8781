"""Semi-supervised: pseudo labels of a second loader's rows, whose pass comes before that of the
labelled batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x, unlabelled = torch.randn(96, 8), torch.randn(96, 8)
labelled_loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)
unlabelled_loader = DataLoader(TensorDataset(unlabelled), batch_size=32)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, eps=1e-2)
model, optimizer, labelled_loader = evenstep.prepare(model, optimizer, labelled_loader)

for epoch in range(3):
    for (inputs, labels), (rows,) in zip(labelled_loader, unlabelled_loader):
        optimizer.zero_grad()
        with torch.no_grad():
            pseudo = model(rows).argmax(1)
        loss_u = nn.functional.cross_entropy(model(rows + 0.1), pseudo)
        (0.5 * loss_u).backward()
        loss_x = nn.functional.cross_entropy(model(inputs), labels)
        loss_x.backward()
        optimizer.step()
    print("epoch", epoch, loss_x.item(), loss_u.item())
