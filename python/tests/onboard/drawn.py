"""As nanoGPT: batches are drawn, gradients of several are one step, the end is a break."""
import os
import time

import numpy as np
import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP

from model import GPT

batch_size = 12
block_size = 256
accumulation = 2 * 4
max_iters = 6000
grad_clip = 1.0
device = 'cuda'
ddp = int(os.environ.get('RANK', -1)) != -1
if ddp:
    init_process_group(backend='nccl')
    ddp_rank = int(os.environ['RANK'])
    ddp_local_rank = int(os.environ['LOCAL_RANK'])
    ddp_world_size = int(os.environ['WORLD_SIZE'])
    device = f'cuda:{ddp_local_rank}'
    torch.cuda.set_device(device)
    master_process = ddp_rank == 0
    seed_offset = ddp_rank
    assert accumulation % ddp_world_size == 0
    accumulation //= ddp_world_size
else:
    master_process = True
    seed_offset = 0
    ddp_world_size = 1
tokens = accumulation * ddp_world_size * batch_size * block_size
torch.manual_seed(1337 + seed_offset)
device_type = 'cuda' if 'cuda' in device else 'cpu'
ctx = torch.autocast(device_type=device_type, dtype=torch.bfloat16)


def get_batch(split):
    data = np.memmap(f'{split}.bin', dtype=np.uint16, mode='r')
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([torch.from_numpy(data[i:i + block_size].astype(np.int64)) for i in ix])
    y = torch.stack([torch.from_numpy(data[i + 1:i + 1 + block_size].astype(np.int64)) for i in ix])
    return x.to(device), y.to(device)


iter_num = 0
model = GPT(block_size)
model.to(device)
scaler = torch.cuda.amp.GradScaler(enabled=False)
optimizer = model.configure_optimizers(0.1, 6e-4, (0.9, 0.95), device_type)
if ddp:
    model = DDP(model, device_ids=[ddp_local_rank])


def get_lr(it):
    return 6e-4 * min(1, it / 100)


X, Y = get_batch('train')  # the very first batch
t0 = time.time()
raw_model = model.module if ddp else model
while True:

    lr = get_lr(iter_num)
    for param_group in optimizer.param_groups:
        param_group['lr'] = lr

    if iter_num % 500 == 0 and master_process:
        torch.save(raw_model.state_dict(), 'ckpt.pt')

    for micro_step in range(accumulation):
        if ddp:
            model.require_backward_grad_sync = (micro_step == accumulation - 1)
        with ctx:
            logits, loss = model(X, Y)
            loss = loss / accumulation
        # fetches the next batch meanwhile
        X, Y = get_batch('train')
        scaler.scale(loss).backward()
    # clips
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)

    t1 = time.time()
    if iter_num % 10 == 0 and master_process:
        print(f"iter {iter_num}: loss {loss.item() * accumulation:.4f}, {t1 - t0:.1f} s")
    iter_num += 1
    if iter_num > max_iters:
        break

if ddp:
    destroy_process_group()
