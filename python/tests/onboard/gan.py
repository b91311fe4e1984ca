"""Two optimizers."""
import torch

from net import Discriminator, Generator, loader

g, d = Generator(), Discriminator()
opt_g = torch.optim.Adam(g.parameters())
opt_d = torch.optim.Adam(d.parameters())
for real in loader:
    opt_d.zero_grad()
    (d(g.draw()) - d(real)).mean().backward()
    opt_d.step()
    opt_g.zero_grad()
    (-d(g.draw())).mean().backward()
    opt_g.step()
