"""PPO: rollouts of a small environment fill a buffer, over which some epochs are made; then the
next rollouts, with the policy of now. The buffer is a data set whose tensors are replaced."""
import torch
from torch import nn
from torch.distributions import Categorical
from torch.utils.data import DataLoader, Dataset

import evenstep

HORIZON = 64


class Buffer(Dataset):
    def __init__(self):
        self.parts = [torch.zeros(HORIZON, 3), torch.zeros(HORIZON, dtype=torch.long),
                      torch.zeros(HORIZON), torch.zeros(HORIZON), torch.zeros(HORIZON)]

    def fill(self, *parts):
        self.parts = parts

    def __len__(self):
        return HORIZON

    def __getitem__(self, i):
        return tuple(part[i] for part in self.parts)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.pi, self.v = nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, s):
        h = self.body(s)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


@torch.no_grad()
def rollout(model, generator):
    s, rows = torch.zeros(3), []
    for _ in range(HORIZON):
        dist, value = model(s)
        a = (torch.rand((), generator=generator) < dist.probs[1]).long()
        after = 0.8 * s + (a * 2 - 1) * torch.tensor([0.3, -0.1, 0.2])
        rows.append((s, a, dist.log_prob(a), -after.abs().sum(), value))
        s = after
    states, actions, logps, rewards, values = map(torch.stack, zip(*rows))
    returns, running = torch.zeros(HORIZON), 0.0
    for t in reversed(range(HORIZON)):
        running = returns[t] = rewards[t] + 0.95 * running
    gains = returns - values
    gains = (gains - gains.mean()) / (gains.std() + 1e-8)
    return states, actions, logps, returns, gains


torch.manual_seed(7)
generator = torch.Generator().manual_seed(1)
buffer = Buffer()
model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-4)
loader = DataLoader(buffer, batch_size=32, shuffle=False)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for iteration in range(3):
    buffer.fill(*rollout(model, generator))
    for _ in range(2):
        for s, a, logp, ret, gain in loader:
            dist, value = model(s)
            ratio = (dist.log_prob(a) - logp).exp()
            policy = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = policy + 0.5 * (ret - value).pow(2).mean() - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
