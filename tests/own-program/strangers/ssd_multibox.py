"""SSD's MultiBoxLoss: hard negatives of each picture by sorting twice, both parts divided by the
number of matched priors of the batch."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
images, n_priors, n_classes = torch.randn(96, 10), 12, 4
labels = torch.where(torch.rand(96, n_priors) < 0.2, torch.randint(1, n_classes, (96, n_priors)), 0)
labels[:, 0] = 1
loader = DataLoader(TensorDataset(images, labels, torch.randn(96, n_priors, 4)), batch_size=32)


class SSD(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 24)
        self.loc, self.conf = nn.Linear(24, n_priors * 4), nn.Linear(24, n_priors * n_classes)

    def forward(self, x):
        h = F.relu(self.body(x))
        return self.loc(h).view(-1, n_priors, 4), self.conf(h).view(-1, n_priors, n_classes)


class MultiBoxLoss(nn.Module):
    def forward(self, loc_data, conf_data, conf_t, loc_t):
        num = loc_data.size(0)
        pos = conf_t > 0
        pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc_data)
        loc_p, loc_t = loc_data[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4)
        loss_l = F.smooth_l1_loss(loc_p, loc_t, reduction="sum")
        loss_c = F.cross_entropy(conf_data.view(-1, n_classes), conf_t.view(-1), reduction="none")
        loss_c = loss_c.detach().view(num, -1)
        loss_c[pos] = 0
        _, loss_idx = loss_c.sort(1, descending=True)
        _, idx_rank = loss_idx.sort(1)
        num_pos = pos.long().sum(1, keepdim=True)
        num_neg = torch.clamp(3 * num_pos, max=pos.size(1) - 1)
        neg = idx_rank < num_neg.expand_as(idx_rank)
        loss_c = F.cross_entropy(conf_data[pos | neg], conf_t[pos | neg], reduction="sum")
        N = num_pos.data.sum()
        return loss_l / N, loss_c / N


net, criterion = SSD(), MultiBoxLoss()
optimizer = torch.optim.SGD(net.parameters(), lr=5e-3, momentum=0.9, weight_decay=5e-4)
net, optimizer, loader = evenstep.prepare(net, optimizer, loader)
for epoch in range(3):
    for images, targets, boxes in loader:
        out = net(images)
        optimizer.zero_grad()
        loss_l, loss_c = criterion(*out, targets, boxes)
        loss = loss_l + loss_c
        loss.backward()
        optimizer.step()
