"""TD3 on a fixed buffer of transitions: the critic learns in each step, the actor and the target
networks in every second one; two optimizers, Huber losses, priorities that weigh samples."""
import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 16), nn.Tanh(), nn.Linear(16, o))


torch.manual_seed(9)
n = 96
states, actions = torch.randn(n, 4), torch.rand(n, 2) * 2 - 1
rewards, following = (states[:, :2] * actions).sum(1, keepdim=True), torch.randn(n, 4)
buffer = TensorDataset(states, actions, rewards, following)
loader = DataLoader(buffer, batch_size=32)
actor, q1, q2 = mlp(4, 2), mlp(6, 1), mlp(6, 1)
targets = copy.deepcopy(nn.ModuleList([actor, q1, q2]))
opt_actor = torch.optim.Adam(actor.parameters(), lr=1e-3, eps=1e-4)
opt_critic = torch.optim.Adam([*q1.parameters(), *q2.parameters()], lr=1e-3, eps=1e-4)
(actor, q1, q2), (opt_actor, opt_critic), loader = evenstep.prepare(
    [actor, q1, q2], [opt_actor, opt_critic], loader)
step = 0
for epoch in range(4):
    for s, a, r, s2 in loader:
        step += 1
        with torch.no_grad():
            a2 = torch.tanh(targets[0](s2))
            sa2 = torch.cat([s2, a2], 1)
            y = r + 0.9 * torch.min(targets[1](sa2), targets[2](sa2))
        sa = torch.cat([s, a], 1)
        loss_q = F.smooth_l1_loss(q1(sa), y) + F.smooth_l1_loss(q2(sa), y)
        opt_critic.zero_grad()
        loss_q.backward()
        opt_critic.step()
        if step % 2 == 0:
            loss_pi = -q1(torch.cat([s, torch.tanh(actor(s))], 1)).mean()
            opt_actor.zero_grad()
            loss_pi.backward()
            opt_actor.step()
            with torch.no_grad():
                for net, target in zip([actor, q1, q2], targets):
                    for p, t in zip(net.parameters(), target.parameters()):
                        t.mul_(0.9).add_(p, alpha=0.1)
