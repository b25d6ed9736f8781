"""A focal loss of anchors as RetinaNet has it: summed, and divided by the number of anchors that
have an object, at least one."""
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)
images = torch.randn(96, 10)
rare = float(os.environ.get("TEST_OBJECTS", "0.3"))
targets = (torch.rand(96, 5) < rare).float()
boxes = torch.randn(96, 5, 4)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(10, 24)
        self.cls_logits, self.bbox_reg = nn.Linear(24, 5), nn.Linear(24, 20)

    def forward(self, x):
        h = F.relu(self.body(x))
        return self.cls_logits(h), self.bbox_reg(h).view(-1, 5, 4)


def sigmoid_focal_loss(inputs, targets, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(inputs)
    ce = F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return (alpha_t * ce * ((1 - p_t) ** gamma)).sum()


loader = DataLoader(TensorDataset(images, targets, boxes), batch_size=32)
model = Head()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
model, optimizer, loader = evenstep.prepare(model, optimizer, loader)
for epoch in range(3):
    for images, targets, boxes in loader:
        logits, regression = model(images)
        foreground = targets > 0
        num_foreground = foreground.sum()
        cls_loss = sigmoid_focal_loss(logits, targets) / max(1, num_foreground)
        box_loss = F.l1_loss(regression[foreground], boxes[foreground],
                             reduction="sum") / max(1, num_foreground)
        loss = cls_loss + box_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
