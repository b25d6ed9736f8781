"""PyTorch's example mnist_forward_forward: each layer has its loss and its optimizer."""
import torch
from torch import nn
from torch.optim import Adam
from torch.utils.data import DataLoader, TensorDataset

import evenstep

torch.manual_seed(0)


class Layer(nn.Linear):
    def __init__(self, i, o):
        super().__init__(i, o)
        self.relu = nn.ReLU()
        self.opt = Adam(self.parameters(), lr=0.02, eps=1e-3)
        self.threshold = 1.0
        self.num_epochs = 2

    def forward(self, x):
        x = x / (x.norm(2, 1, keepdim=True) + 1e-4)
        return self.relu(torch.mm(x, self.weight.T) + self.bias.unsqueeze(0))

    def train_layer(self, pos, neg):
        g_pos = self.forward(pos).pow(2).mean(1)
        g_neg = self.forward(neg).pow(2).mean(1)
        loss = torch.log(1 + torch.exp(torch.cat([-g_pos + self.threshold,
                                                  g_neg - self.threshold]))).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return self.forward(pos).detach(), self.forward(neg).detach()


class Net(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.layers = nn.ModuleList([Layer(a, b) for a, b in zip(dims, dims[1:])])

    def train_net(self, pos, neg):
        for layer in self.layers:
            pos, neg = layer.train_layer(pos, neg)


net = Net([12, 16, 16])
loader = DataLoader(TensorDataset(torch.randn(96, 12), torch.randn(96, 12)), batch_size=32)
net, opts, loader = evenstep.prepare(net, [l.opt for l in net.layers], loader)
for epoch in range(3):
    for pos, neg in loader:
        net.train_net(pos, neg)
