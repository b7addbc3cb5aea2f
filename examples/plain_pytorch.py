"""Parts of viewsmith in a plain PyTorch loop, without an estimator: an encoder, a view maker and a loss.

The neighbor recipe on handwritten digits: a sample and one of its nearest rows attract each other; all others repel.
Run it with ``python examples/plain_pytorch.py``; it takes a few seconds on a CPU.
"""

import torch
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score

from viewsmith.losses import nt_xent
from viewsmith.networks import MLP
from viewsmith.views import Neighbors


def train(x: torch.Tensor, steps: int = 300, batch_size: int = 256) -> tuple[torch.nn.Module, list[float]]:
    """Train an encoder on rows x, (n, d); return it with the loss of every step."""
    encoder, head = MLP(x.shape[1], [256, 256], norm="batch", last="activated"), MLP(256, [32])
    views = Neighbors(k=5)
    views.prepare(x)  # the rows to search for neighbors
    optimizer = torch.optim.AdamW([*encoder.parameters(), *head.parameters()], lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator = torch.Generator().manual_seed(0)  # all randomness of the views
    losses = []
    for _ in range(steps):
        index = torch.randint(len(x), (batch_size,), generator=generator)
        first, second = x[index], views(x[index], index=index, generator=generator)
        z0, z1 = head(encoder(torch.cat([first, second]))).chunk(2)
        # One value for each pair: multiply weights here, before the mean.
        loss = nt_xent(z0, z1, temperature=1.0, kernel="cauchy", negatives="cross").mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return encoder.eval(), losses


def main() -> None:
    """Print how well k-means finds the digits, from pixels and from the representation."""
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data, dtype=torch.float32), digits.target[1200:]
    x = (x - x[:1200].mean(dim=0)) / x[:1200].var(dim=0).mean().sqrt()
    encoder, losses = train(x[:1200])
    print(f"loss {losses[0]:.2f} -> {losses[-1]:.2f}")
    with torch.no_grad():
        h = encoder(x[1200:])
    for name, features in (("pixels", x[1200:]), ("representation", h)):
        clusters = KMeans(10, n_init=10, random_state=0).fit_predict(features)
        print(f"{name}: mutual information with the digits {normalized_mutual_info_score(y, clusters):.2f}")


if __name__ == "__main__":
    main()
