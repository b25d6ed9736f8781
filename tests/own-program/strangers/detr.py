"""DETR's criterion without its matching: a cross entropy that weighs "no object" less, boxes that
are summed and divided by the number of the batch's boxes."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

import evenstep

torch.manual_seed(0)


class Scenes(Dataset):
    def __init__(self):
        self.images = torch.randn(96, 12)
        self.targets = []
        for _ in range(96):
            n = int(torch.randint(1, 5, ()))
            self.targets.append({"labels": torch.randint(0, 3, (n,)), "boxes": torch.rand(n, 4)})

    def __len__(self):
        return 96

    def __getitem__(self, i):
        return self.images[i], self.targets[i]


def collate_fn(batch):
    images, targets = zip(*batch)
    return torch.stack(images), list(targets)


class Detr(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 24)
        self.class_embed, self.bbox_embed = nn.Linear(24, 5 * 4), nn.Linear(24, 5 * 4)

    def forward(self, x):
        h = F.relu(self.body(x))
        return {"pred_logits": self.class_embed(h).view(-1, 5, 4),
                "pred_boxes": self.bbox_embed(h).view(-1, 5, 4).sigmoid()}


class SetCriterion(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.ones(4)
        weight[-1] = 0.1
        self.register_buffer("empty_weight", weight)

    def forward(self, outputs, targets):
        num_boxes = max(sum(len(t["labels"]) for t in targets), 1)
        classes = torch.full(outputs["pred_logits"].shape[:2], 3)
        for i, t in enumerate(targets):
            classes[i, :len(t["labels"])] = t["labels"]
        loss_ce = F.cross_entropy(outputs["pred_logits"].transpose(1, 2), classes,
                                  self.empty_weight)
        src = torch.cat([outputs["pred_boxes"][i, :len(t["boxes"])] for i, t in enumerate(targets)])
        loss_bbox = F.l1_loss(src, torch.cat([t["boxes"] for t in targets]), reduction="none")
        return {"loss_ce": loss_ce, "loss_bbox": loss_bbox.sum() / num_boxes}


loader = DataLoader(Scenes(), batch_size=32, collate_fn=collate_fn)
model, criterion = Detr(), SetCriterion()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, eps=1e-3)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
weight_dict = {"loss_ce": 1, "loss_bbox": 5}
for epoch in range(3):
    for samples, targets in loader:
        loss_dict = criterion(model(samples), targets)
        losses = sum(loss_dict[k] * weight_dict[k] for k in loss_dict)
        optimizer.zero_grad()
        losses.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
