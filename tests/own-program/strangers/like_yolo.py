"""A loop after YOLOv5's: rates and momentum set by hand while it warms up, accumulation that grows
to a nominal batch, three groups, an average of the model whose decay grows with its updates, a loss
that is multiplied by the batch size (YOLOv5 takes the number of the rows that it has, which makes
it a sum)."""
import copy
import math

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

hyp = {"lr0": 0.02, "lrf": 0.1, "momentum": 0.9, "warmup_momentum": 0.5, "warmup_bias_lr": 0.1,
       "weight_decay": 5e-3}
epochs, batch_size, nbs = 4, 32, 64


class ModelEMA:
    def __init__(self, model, decay=0.99, tau=20):
        self.ema, self.updates = copy.deepcopy(model).eval(), 0
        self.decay = lambda x: decay * (1 - math.exp(-x / tau))
        for p in self.ema.parameters():
            p.requires_grad_(False)

    def update(self, model):
        self.updates += 1
        d = self.decay(self.updates)
        msd = model.state_dict()
        for k, v in self.ema.state_dict().items():
            if v.dtype.is_floating_point:
                v *= d
                v += (1 - d) * msd[k].detach()


class ComputeLoss:
    def __call__(self, p, targets):
        lobj = nn.functional.binary_cross_entropy_with_logits(p[:, 0], targets[:, 0])
        lbox = (1.0 - torch.cosine_similarity(p[:, 1:], targets[:, 1:])).mean()
        return (lobj + 0.05 * lbox) * batch_size, torch.stack((lobj, lbox)).detach()


torch.manual_seed(0)
x = torch.randn(96, 6)
targets = torch.cat([(x.sum(1, keepdim=True) > 0).float(), x[:, :3]], 1)
train_loader = DataLoader(TensorDataset(x, targets), batch_size=batch_size)
model = nn.Sequential(nn.Linear(6, 12), nn.LayerNorm(12), nn.SiLU(), nn.Linear(12, 4))
hyp["weight_decay"] *= batch_size * max(round(nbs / batch_size), 1) / nbs
g = [], [], []
for v in model.modules():
    if isinstance(getattr(v, "bias", None), nn.Parameter):
        g[2].append(v.bias)
    if isinstance(v, nn.LayerNorm):
        g[1].append(v.weight)
    elif isinstance(getattr(v, "weight", None), nn.Parameter):
        g[0].append(v.weight)
optimizer = torch.optim.SGD(g[2], lr=hyp["lr0"] / 10, momentum=hyp["momentum"], nesterov=True)
optimizer.add_param_group({"params": g[0], "weight_decay": hyp["weight_decay"]})
optimizer.add_param_group({"params": g[1], "weight_decay": 0.0})


def lf(x):
    return (1 - x / epochs) * (1.0 - hyp["lrf"]) + hyp["lrf"]


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lf)
ema, compute_loss = ModelEMA(model), ComputeLoss()
model, optimizer, train_loader, scheduler = evenstep.prepare(model, optimizer, train_loader,
                                                             scheduler)
nb = len(train_loader)
nw, last_opt_step = 2 * nb, -1
for epoch in range(epochs):
    model.train()
    mloss = torch.zeros(2)
    optimizer.zero_grad()
    for i, (imgs, labels) in enumerate(train_loader):
        ni = i + nb * epoch
        if ni <= nw:
            xi = [0, nw]
            accumulate = max(1, np.interp(ni, xi, [1, nbs / batch_size]).round())
            for j, group in enumerate(optimizer.param_groups):
                start = hyp["warmup_bias_lr"] if j == 0 else 0.0
                group["lr"] = np.interp(ni, xi, [start, group["initial_lr"] * lf(epoch)])
                group["momentum"] = np.interp(ni, xi, [hyp["warmup_momentum"], hyp["momentum"]])
        loss, loss_items = compute_loss(model(imgs), labels)
        loss.backward()
        if ni - last_opt_step >= accumulate:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=10.0)
            optimizer.step()
            optimizer.zero_grad()
            ema.update(model)
            last_opt_step = ni
        mloss = (mloss * i + loss_items) / (i + 1)
    print(f"{epoch}/{epochs - 1} box, obj", mloss.tolist())
    scheduler.step()
kept = {"ema." + k: v.numpy() for k, v in ema.ema.state_dict().items()}
