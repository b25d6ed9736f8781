"""The DCGAN example in small: two networks, two optimizers, three backward passes a batch."""
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

import evenstep

manualSeed = 999
torch.manual_seed(manualSeed)
nz = 8
real_label, fake_label = 1.0, 0.0


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight.data, 0.0, 0.2)
        nn.init.constant_(m.bias.data, 0)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(nz, 32), nn.ReLU(True), nn.Linear(32, 16), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1),
                                  nn.Sigmoid())

    def forward(self, x):
        return self.main(x).view(-1)


data = torch.randn(96, 16).tanh()
noise = torch.randn(96, nz)  # of each sample, so that runs can be compared
dataloader = DataLoader(TensorDataset(data, noise), batch_size=96, shuffle=True)

netG, netD = Generator(), Discriminator()
netG.apply(weights_init)
netD.apply(weights_init)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-3, betas=(0.5, 0.999), eps=1e-3)
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-3, betas=(0.5, 0.999), eps=1e-3)

netG, netD, optimizerG, optimizerD, dataloader = evenstep.prepare(
    netG, netD, optimizerG, optimizerD, dataloader)

for epoch in range(5):
    for i, (real, z) in enumerate(dataloader, 0):
        # (1) Update D network: maximize log(D(x)) + log(1 - D(G(z)))
        netD.zero_grad()
        label = torch.full((real.size(0),), real_label)
        output = netD(real)
        errD_real = criterion(output, label)
        errD_real.backward()
        fake = netG(z)
        label.fill_(fake_label)
        output = netD(fake.detach())
        errD_fake = criterion(output, label)
        errD_fake.backward()
        optimizerD.step()
        # (2) Update G network: maximize log(D(G(z)))
        netG.zero_grad()
        label.fill_(real_label)
        output = netD(fake)
        errG = criterion(output, label)
        errG.backward()
        optimizerG.step()
    print("[%d/5] Loss_D: %.4f Loss_G: %.4f" % (epoch, errD_real + errD_fake, errG))
