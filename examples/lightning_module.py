"""Views, encoder and loss of viewsmith in a LightningModule: python lightning_module.py (pip install lightning).

The neighbor recipe on handwritten digits, as in plain_pytorch.py.
"""

import lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from viewsmith.losses import nt_xent
from viewsmith.networks import MLP
from viewsmith.views import Neighbors


class NeighborContrast(lightning.LightningModule):
    """A sample and one of its nearest rows attract each other; all others repel."""

    def __init__(self, x: torch.Tensor) -> None:
        super().__init__()
        self.encoder, self.head = MLP(x.shape[1], [256, 256], norm="batch", last="activated"), MLP(256, [32])
        self.views = Neighbors(k=5)
        self.views.prepare(x)  # the rows to search for neighbors
        self.draws = torch.Generator().manual_seed(0)

    def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
        x, index = batch
        views = self.views(x, index=index, generator=self.draws)
        z0, z1 = self.head(self.encoder(torch.cat([x, views]))).chunk(2)
        loss = nt_xent(z0, z1, temperature=1.0, kernel="cauchy", negatives="cross").mean()
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


def main(epochs: int = 40, **options) -> NeighborContrast:
    """Train, and print how alike the digits of neighbors in the representation are."""
    lightning.seed_everything(0)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32)
    x = (x - x.mean(dim=0)) / x.var(dim=0).mean().sqrt()
    rows = DataLoader(TensorDataset(x, torch.arange(len(x))), batch_size=256, shuffle=True, drop_last=True)
    model = NeighborContrast(x)
    options = {"accelerator": "cpu", "enable_checkpointing": False, "log_every_n_steps": 5} | options
    lightning.Trainer(max_epochs=epochs, **options).fit(model, rows)
    with torch.no_grad():
        h = torch.nn.functional.normalize(model.eval().encoder(x))
    nearest = (h @ h.T).fill_diagonal_(-1).argmax(dim=1)
    print(f"nearest rows with the same digit: {(digits.target[nearest] == digits.target).mean():.3f}")
    return model


if __name__ == "__main__":
    main()
