"""Functions that tests run in other processes."""

import torch
from framework_cases import FRAMEWORKS, MULTICROP, build, pair, part, trainable

BATCH, STEPS = 8, 3
OPTIONS = {"moco": {"queue": 20}, "nnclr": {"queue": 20}, "swav": {"queue": 15, "queue_start": 0.0}}


def steps(name, rows=None):
    """Train on whole batches, or on the rows of one process. Return the gradients of every step and the final state.

    With 8 samples and a queue of 20 keys, the third step passes the end of the queue. SwAV's queue is full then.
    """
    module = framework = build(name, **OPTIONS.get(name, {}))
    if rows is not None:
        module = torch.nn.parallel.DistributedDataParallel(framework, broadcast_buffers=False)
    optimizer = torch.optim.SGD(trainable(framework), lr=0.1)
    found = {}
    for step in range(STEPS):
        whole = pair(batch=BATCH, seed=step, crops=2 if name in MULTICROP else 0)
        optimizer.zero_grad()
        module(whole if rows is None else part(whole, rows), step / STEPS).mean().backward()
        for key, p in framework.named_parameters():
            if p.requires_grad:
                found[f"step {step}, gradient of {key}"] = p.grad.clone()
        optimizer.step()
    return found | {f"state {key}": value.clone() for key, value in framework.state_dict().items()}


def work(rank, out):
    half = BATCH // 2
    rows = slice(rank * half, (rank + 1) * half)
    torch.save({name: steps(name, rows) for name in FRAMEWORKS}, f"{out}/{rank}.pt")
