"""An LSTM with truncated backpropagation: a sequence in chunks, the state that is carried on
detached, and a step for each chunk."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
X = torch.linspace(-1, 1, 96 * 12).view(96, 12, 1).sin()
Y = X.cumsum(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 6, batch_first=True), nn.Linear(6, 1)

    def forward(self, x, state=None):
        out, state = self.lstm(x, state)
        return self.head(out), state


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
loader = DataLoader(TensorDataset(X, Y), batch_size=32)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for x, y in loader:
        state = None
        for xs, ys in zip(x.split(4, 1), y.split(4, 1)):
            if state is not None:
                state = tuple(s.detach() for s in state)
            out, state = model(xs, state)
            loss = ((out - ys) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
