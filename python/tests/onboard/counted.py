"""All data in each step, and a name `run` of its own."""
import torch


def run(model, x):
    return model(x)


x = torch.linspace(-3, 3, 2000).unsqueeze(1)
y = torch.sin(x)
model = torch.nn.Sequential(torch.nn.Linear(1, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for t in range(2000):
    y_pred = run(model, x)
    loss = (y_pred - y).pow(2).mean()
    if t % 100 == 99:
        print(t, loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
