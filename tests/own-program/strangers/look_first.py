"""A batch is looked at for its shape before the loop; a bar of progress, one rate for each step
from the loader's length, weights averaged twice over (EMA and SWA), a copy of the model."""
import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class Bar:
    """As tqdm: a generator over what it is given."""

    def __init__(self, iterable, desc):
        self.iterable, self.desc, self.total = iterable, desc, len(iterable)

    def __iter__(self):
        for obj in self.iterable:
            yield obj
        print(self.desc, self.total)


def main():
    torch.manual_seed(5)
    x = torch.randn(90, 7)
    data = TensorDataset(x, x.pow(2).sum(1, keepdim=True))
    loader = DataLoader(data, batch_size=32, drop_last=True, num_workers=1, prefetch_factor=2,
                        persistent_workers=True)
    model = nn.Sequential(nn.Linear(7, 16), nn.GELU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
    epochs = 4
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-2, total_steps=len(loader) * epochs)
    model, optimizer, loader, scheduler = evenstep.prepare(model, optimizer, loader, scheduler)
    assert isinstance(loader, DataLoader) and len(loader) == 2

    features, _ = next(iter(loader))
    print("a batch has", tuple(features.shape[1:]), "features")
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    swa, before = AveragedModel(model), copy.deepcopy(model)
    for epoch in evenstep.epochs(epochs):
        for i, (inputs, targets) in enumerate(Bar(loader, "epoch %d" % epoch)):
            loss = nn.functional.mse_loss(model(inputs), targets)
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=i % 2 == 0)
            ema.update_parameters(model)
        if epoch >= 2:
            swa.update_parameters(model)
    update_bn(loader, swa)
    moved = [(a - b).abs().max() for a, b in zip(before.parameters(), ema.parameters())]
    print("averaged", int(swa.n_averaged), "epochs; moved by", max(moved).item())
    with torch.no_grad():
        for mine, averaged in zip(model.parameters(), ema.module.parameters()):
            mine.copy_(averaged)


if __name__ == "__main__":
    main()
