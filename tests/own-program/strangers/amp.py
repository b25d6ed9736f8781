"""Mixed precision on a CPU: autocast in bfloat16 and a GradScaler that is disabled there, as
programs are that were written for both devices."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = True
torch.manual_seed(0)
x = torch.randn(96, 20)
t = torch.randint(0, 4, (96,))
train_loader = DataLoader(TensorDataset(x, t), batch_size=96, shuffle=True,
                          pin_memory=device == "cuda")

net = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 4)).to(device)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
scaler = torch.amp.GradScaler(device, enabled=use_amp and device == "cuda")

net, opt, train_loader = evenstep.prepare(net, opt, train_loader)
for epoch in range(6):
    for inputs, labels in train_loader:
        inputs, labels = inputs.to(device), labels.to(device)
        with torch.autocast(device_type=device, dtype=torch.bfloat16, enabled=use_amp):
            loss = loss_fn(net(inputs), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
    print(f"epoch {epoch} loss {loss.item():.4f}")
