"""Accelerate: a loop with accelerator.prepare(), accumulation, clipping; our line comes after."""
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(5)
x = torch.randn(96, 10)
data = TensorDataset(x, x[:, :3].argmax(1))
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(10, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)
loader = DataLoader(data, batch_size=24)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.9)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
model, optimizer, loader, schedule = evenstep.prepare(model, optimizer, loader, schedule)
for epoch in range(3):
    for rows, labels in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(rows), labels)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    if accelerator.is_main_process:
        print(epoch, loss.item())
