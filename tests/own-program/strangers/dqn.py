"""Double DQN on stored transitions: a target network that follows softly, which is given to
prepare(), a Huber loss, weights of a prioritized replay."""
import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
n = 96
S = torch.linspace(-1, 1, n * 3).view(n, 3)
A = torch.arange(n) % 2
R = S.sum(1)
S2 = S.flip(0)
D = (torch.arange(n) % 7 == 0).float()
W = 0.5 + (torch.arange(n) % 3).float() / 2
q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
target = copy.deepcopy(q).requires_grad_(False)
optimizer = torch.optim.Adam(q.parameters(), lr=0.01, eps=1e-3)
loader = DataLoader(TensorDataset(S, A, R, S2, D, W), batch_size=32)
q, target, optimizer, loader = evenstep.prepare(q, target, optimizer, loader)
for epoch in range(3):
    for s, a, r, s2, d, w in loader:
        with torch.no_grad():
            best = q(s2).argmax(1, keepdim=True)
            y = r + 0.9 * (1 - d) * target(s2).gather(1, best).squeeze(1)
        value = q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = (w * nn.functional.smooth_l1_loss(value, y, reduction="none")).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(q.parameters(), 0.5)
        optimizer.step()
        for t, p in zip(target.parameters(), q.parameters()):
            t.data.mul_(0.9).add_(p.data, alpha=0.1)
