"""A small U-Net: a binary cross entropy and a Dice loss of each picture, group norm, and a plateau
of a score of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


def block(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.GroupNorm(2, b), nn.SiLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = block(1, 4), block(4, 8), block(12, 4)
        self.pool, self.wider = nn.MaxPool2d(2), nn.Upsample(scale_factor=2)
        self.head = nn.Conv2d(4, 1, 1)

    def forward(self, x):
        skip = self.down(x)
        return self.head(self.up(torch.cat([skip, self.wider(self.middle(self.pool(skip)))], 1)))


def dice(logits, mask, smooth=1.0):
    p = logits.sigmoid().flatten(1)
    m = mask.flatten(1)
    overlap = (p * m).sum(1)
    return (1 - (2 * overlap + smooth) / (p.sum(1) + m.sum(1) + smooth)).mean()


torch.manual_seed(6)
pictures = torch.randn(96, 1, 8, 8)
masks = (nn.functional.avg_pool2d(pictures, 3, 1, 1) > 0.1).float()
loader = DataLoader(TensorDataset(pictures, masks), batch_size=32)
model = UNet()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9, eps=1e-2)
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=0, factor=0.5)
model, optimizer, schedule, loader = evenstep.prepare(model, optimizer, schedule, loader)


@torch.inference_mode()
def evaluate():
    model.eval()
    score = 1 - dice(model(pictures[:24]), masks[:24]).item()
    model.train()
    return score


for epoch in evenstep.epochs(3):
    for image, mask in loader:
        logits = model(image)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, mask) + dice(logits, mask)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
    score = evaluate()
    schedule.step(score)
    evenstep.log(test_accuracy=score)
