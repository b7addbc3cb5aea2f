"""A trained view maker as augmentation in supervised training: python trained_views.py

PiNDA learns its noise without labels; a classifier is then trained on 100 labeled digits with views of that noise, with
noise of one strength for all features, and without. One seed decides nothing: means of five, of which both kinds of
noise are level here, and none is worth more than its spread.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from viewsmith import PiNDA


def accuracy(x: torch.Tensor, y: torch.Tensor, labeled: torch.Tensor, view, seed: int, steps: int) -> float:
    """Accuracy on the rows after 1,200 of a classifier that was trained on views of the labeled rows."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(x.shape[1], 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    draws = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        index = labeled[torch.randint(len(labeled), (64,), generator=draws)]
        with torch.no_grad():
            batch = view(x[index], index, draws)
        loss = nn.functional.cross_entropy(network(batch), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((network(x[1200:]).argmax(dim=1) == y[1200:]).float().mean())


def main(epochs: int | str = "auto", steps: int = 300, seeds: int = 5) -> dict[str, float]:
    """Mean accuracies over the seeds, by kind of view."""
    digits = load_digits()
    model = PiNDA(epochs=epochs, random_state=0).fit(digits.data[:1200])  # no labels
    x, y = torch.from_numpy(model.scaled(digits.data)), torch.from_numpy(digits.target)
    sigma = model.noise_profile(digits.data[:1200])[0].mean() / model.scaler_.scale.mean().item()
    views = {
        "no views": lambda rows, index, draws: rows,
        f"noise of strength {sigma:.2f}": lambda x, index, draws: x + sigma * torch.randn(x.shape, generator=draws),
        "learned noise": lambda x, index, draws: model.method_.view(x, index=index, generator=draws),
    }
    means = {}
    for name, view in views.items():
        found = [
            accuracy(x, y, torch.randperm(1200, generator=torch.Generator().manual_seed(seed))[:100], view, seed, steps)
            for seed in range(seeds)
        ]
        means[name] = float(np.mean(found))
        print(f"{name}: {means[name]:.3f} (standard deviation {np.std(found, ddof=1):.3f})")
    return means


if __name__ == "__main__":
    main()
