"""Matrix factorization by BPR after LightGCN: pairs of items, and a penalty of the batch's own
embeddings, divided by the number of users; sparse ids, one optimizer."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
users, positives, negatives = (torch.randint(0, n, (96,)) for n in (20, 30, 30))


class MF(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding_user, self.embedding_item = nn.Embedding(20, 8), nn.Embedding(30, 8)
        nn.init.normal_(self.embedding_user.weight, std=0.3)
        nn.init.normal_(self.embedding_item.weight, std=0.3)

    def bpr_loss(self, users, pos, neg):
        users_emb, pos_emb = self.embedding_user(users), self.embedding_item(pos)
        neg_emb = self.embedding_item(neg)
        reg_loss = (1 / 2) * (users_emb.norm(2).pow(2) + pos_emb.norm(2).pow(2)
                              + neg_emb.norm(2).pow(2)) / float(len(users))
        pos_scores = torch.sum(torch.mul(users_emb, pos_emb), dim=1)
        neg_scores = torch.sum(torch.mul(users_emb, neg_emb), dim=1)
        loss = torch.mean(F.softplus(neg_scores - pos_scores))
        return loss, reg_loss


model = MF()
opt = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
loader = DataLoader(TensorDataset(users, positives, negatives), batch_size=32)
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in range(3):
    for batch_users, batch_pos, batch_neg in loader:
        loss, reg_loss = model.bpr_loss(batch_users, batch_pos, batch_neg)
        loss = loss + reg_loss * 1e-2
        opt.zero_grad()
        loss.backward()
        opt.step()
