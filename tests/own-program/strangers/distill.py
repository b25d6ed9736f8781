"""Knowledge distillation (Hinton): a frozen teacher that prepare() is not given, a student with
weight norm, KL by `batchmean` at a temperature beside the labels' loss, hidden states by a cosine
embedding loss."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.checkpoint import checkpoint

import evenstep

torch.manual_seed(0)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = weight_norm(nn.Linear(10, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        hidden = checkpoint(lambda t: F.gelu(self.body(t)), x, use_reentrant=False)
        return self.head(hidden), hidden


teacher = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 4)).eval()
for p in teacher.parameters():
    p.requires_grad = False
x = torch.randn(96, 10)
loader = DataLoader(TensorDataset(x, torch.randint(0, 4, (96,))), batch_size=32)
student = Student()
optimizer = torch.optim.NAdam(student.parameters(), lr=5e-3, eps=1e-3)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 9)
scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, cosine], [3])
student, optimizer, loader, scheduler = evenstep.prepare(student, optimizer, loader, scheduler)
T, alpha = 4.0, 0.7
for epoch in range(4):
    student.train()
    for inputs, labels in loader:
        optimizer.zero_grad()
        with torch.no_grad():
            hidden_t = teacher[1](teacher[0](inputs))
            teacher_logits = teacher[2](hidden_t)
        logits, hidden = student(inputs)
        kd = F.kl_div(F.log_softmax(logits / T, dim=1), F.softmax(teacher_logits / T, dim=1),
                      reduction="batchmean") * (T * T)
        cos = F.cosine_embedding_loss(hidden, hidden_t, torch.ones(inputs.size(0)))
        loss = alpha * kd + (1 - alpha) * F.cross_entropy(logits, labels) + 0.1 * cos
        loss.backward()
        optimizer.step()
        scheduler.step()
