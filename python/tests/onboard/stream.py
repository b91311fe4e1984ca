"""An IterableDataset in a main() with a guard; evaluates on rank 0."""
import torch
from torch.utils.data import DataLoader, IterableDataset

from net import Net, read_lines


class Lines(IterableDataset):
    def __iter__(self):
        yield from read_lines("text")


def evaluate(model):
    return 0.0


def main(lr=0.1, every=100):
    torch.distributed.init_process_group("gloo")
    model = Net()
    opt = torch.optim.SGD(model.parameters(), lr=lr)
    loader = DataLoader(Lines(), batch_size=16)
    done = 0
    for batch in loader:
        loss = model(batch)
        loss.backward();
        opt.step()
        opt.zero_grad()
        done += 1
        total = loss.detach()
        torch.distributed.all_reduce(total)
        if done % every == 0 and torch.distributed.get_rank() == 0:
            print(done, evaluate(model))


if __name__ == "__main__":
    main()
