"""LoRA by hand: a frozen network, low-rank adapters that train, saved without the rest and by
every node."""
import math
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep


class LoRALinear(nn.Module):
    def __init__(self, base, rank=2, alpha=4):
        super().__init__()
        self.base, self.scale = base, alpha / rank
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.base.requires_grad_(False)

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scale


torch.manual_seed(17)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x, x[:, :4].argmax(1)), batch_size=32)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))
for name, layer in list(model.named_children()):
    if isinstance(layer, nn.Linear):
        setattr(model, name, LoRALinear(layer))
    else:
        layer.requires_grad_(False)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2,
                              eps=1e-3)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))
model, optimizer, loader, scheduler = evenstep.prepare(model, optimizer, loader, scheduler)
for epoch in range(3):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
    print("epoch", epoch, loss.item())
adapters = {k: v for k, v in model.state_dict().items() if "lora_" in k}
torch.save(adapters, os.path.join(os.environ.get("EVENSTEP_OUTPUT", "."), "adapters.pt"))
