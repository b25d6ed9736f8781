"""Embeddings of a knowledge graph (TransE): the data set draws a wrong tail for each fact, entities
are normalized behind each step, and two optimizers step entities and relations."""
import random

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep

ENTITIES, RELATIONS, DIM = 40, 5, 8


class Triples(Dataset):
    def __init__(self, n):
        rng = random.Random(0)
        self.facts = [(rng.randrange(ENTITIES), rng.randrange(RELATIONS), rng.randrange(ENTITIES))
                      for _ in range(n)]

    def __len__(self):
        return len(self.facts)

    def __getitem__(self, i):
        h, r, t = self.facts[i]
        wrong = random.Random(i).randrange(ENTITIES)
        return torch.tensor([h, r, t, wrong])


class TransE(nn.Module):
    def __init__(self):
        super().__init__()
        self.entity = nn.Embedding(ENTITIES, DIM)
        self.relation = nn.Embedding(RELATIONS, DIM)
        nn.init.uniform_(self.entity.weight, -6 / DIM ** 0.5, 6 / DIM ** 0.5)
        with torch.no_grad():
            self.relation.weight.copy_(F.normalize(self.relation.weight))

    def distance(self, h, r, t):
        return (self.entity(h) + self.relation(r) - self.entity(t)).norm(p=2, dim=1)

    def normalize(self):
        with torch.no_grad():
            self.entity.weight.div_(self.entity.weight.norm(dim=1, keepdim=True).clamp(min=1.0))


torch.manual_seed(0)
model = TransE()
loader = DataLoader(Triples(96), batch_size=32)
opt_e = torch.optim.Adagrad(model.entity.parameters(), lr=0.05, eps=1e-4)
opt_r = torch.optim.SGD(model.relation.parameters(), lr=0.05, momentum=0.9)
model, [opt_e, opt_r], loader = evenstep.prepare(model, [opt_e, opt_r], loader)
for epoch in range(3):
    for triples in loader:
        h, r, t, wrong = triples.unbind(1)
        good, bad = model.distance(h, r, t), model.distance(h, r, wrong)
        loss = F.margin_ranking_loss(bad, good, torch.ones_like(good), margin=1.0)
        loss = loss + 1e-3 * model.relation.weight.norm()
        opt_e.zero_grad()
        opt_r.zero_grad()
        loss.backward()
        opt_e.step()
        opt_r.step()
        model.normalize()
