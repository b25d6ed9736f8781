"""An encoder and a decoder with an optimizer each and one backward pass; gradients are centralized
in a hook before each step, and weights averaged by hand in a hook behind it. What is averaged is
evaluated and saved."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(9)
x = torch.randn(96, 8)
loader = DataLoader(TensorDataset(x), batch_size=32)
encoder = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, 3))
decoder = nn.Sequential(nn.Linear(3, 6), nn.GELU(), nn.Linear(6, 8))
of_encoder = torch.optim.NAdam(encoder.parameters(), lr=1e-2, eps=1e-2)
of_decoder = torch.optim.SGD(decoder.parameters(), lr=5e-2, momentum=0.9, nesterov=True)
ema = {k: p.detach().clone() for k, p in decoder.named_parameters()}


def centralize(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None and p.dim() > 1:
                p.grad.sub_(p.grad.mean(1, keepdim=True))


@torch.no_grad()
def average(optimizer, args, kwargs, decay=0.8):
    for k, p in decoder.named_parameters():
        ema[k].mul_(decay).add_(p, alpha=1 - decay)


for optimizer in (of_encoder, of_decoder):
    optimizer.register_step_pre_hook(centralize)
of_decoder.register_step_post_hook(average)
(encoder, decoder), (of_encoder, of_decoder), loader, ema = evenstep.prepare(
    [encoder, decoder], [of_encoder, of_decoder], loader, ema)
for epoch in range(3):
    for (inputs,) in loader:
        of_encoder.zero_grad()
        of_decoder.zero_grad()
        loss = nn.functional.smooth_l1_loss(decoder(encoder(inputs)), inputs)
        loss.backward()
        of_encoder.step()
        of_decoder.step()
    print("epoch", epoch, "loss", loss.item())
decoder.load_state_dict(ema)  # the averaged weights are what is kept
