"""A detector: lists of pictures and of their boxes, a dict of losses, each of which a loop over the
pictures adds up, divided by the boxes of each; a warm-up by batches in the first epoch."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.lr_scheduler import LinearLR, StepLR
from torch.utils.data import DataLoader, Dataset

import evenstep


class Street(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        draw, n = torch.Generator().manual_seed(i), 1 + i % 3
        return torch.randn(1, 6, 6, generator=draw), {
            "boxes": torch.rand(n, 4, generator=draw),
            "labels": torch.randint(0, 3, (n,), generator=draw)}


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Conv2d(1, 4, 3, 2, 1)
        self.classes, self.places = nn.Linear(4, 3), nn.Linear(4, 4)

    def forward(self, images, targets):
        features = self.body(torch.stack(images)).flatten(2).transpose(1, 2).relu()
        losses = {"classification": [], "bbox_regression": []}
        for cells, target in zip(features, targets):
            n = target["boxes"].shape[0]
            classes, places = self.classes(cells[:n]), self.places(cells[:n])
            of_classes = F.cross_entropy(classes, target["labels"], reduction="sum")
            of_places = F.l1_loss(places, target["boxes"], reduction="sum")
            losses["classification"].append(of_classes / max(1, n))
            losses["bbox_regression"].append(of_places / max(1, n))
        return {name: sum(of) / max(1, len(targets)) for name, of in losses.items()}


def collate_fn(batch):
    return tuple(zip(*batch))


torch.manual_seed(0)
data_loader = DataLoader(Street(), batch_size=32, collate_fn=collate_fn)
model = Detector()
params = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9, weight_decay=0.0005)
lr_scheduler = StepLR(optimizer, step_size=2, gamma=0.1)
warmup = LinearLR(optimizer, start_factor=0.1, total_iters=2)
model, optimizer, data_loader, lr_scheduler, warmup = evenstep.prepare(
    model, optimizer, data_loader, lr_scheduler, warmup)
for epoch in range(3):
    for images, targets in data_loader:
        images = [image.to("cpu") for image in images]
        targets = [{k: v.to("cpu") for k, v in t.items()} for t in targets]
        losses = sum(loss for loss in model(images, targets).values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
        if epoch == 0:
            warmup.step()
    lr_scheduler.step()
