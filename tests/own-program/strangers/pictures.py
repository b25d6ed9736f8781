"""Pictures of several sizes, which a collate_fn leaves in a list, and a mean over their losses; of
each batch some could not be read."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import evenstep


class Pictures(Dataset):
    def __len__(self):
        return 96

    def __getitem__(self, i):
        if i % 32 in (1, 4, 7, 9, 25):
            return None
        draw = torch.Generator().manual_seed(i)
        return torch.randn(3, 5 + i % 4, 7, generator=draw), i % 3


def collate(batch):
    return tuple(zip(*[sample for sample in batch if sample is not None]))


torch.manual_seed(0)
loader = DataLoader(Pictures(), batch_size=32, collate_fn=collate)
model = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.Linear(6, 3))
opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
model, opt, loader = evenstep.prepare(model, opt, loader)
for epoch in range(3):
    for images, labels in loader:
        scores = torch.cat([model(image.unsqueeze(0)) for image in images])
        opt.zero_grad()
        F.mse_loss(scores, F.one_hot(torch.tensor(labels), 3).float()).backward()
        opt.step()
