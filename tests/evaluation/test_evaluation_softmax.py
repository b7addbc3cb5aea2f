"""The softmax layer of PiNDA's tables against its steps written out, and as a protocol that has to be named."""

import numpy as np
import torch
from sklearn.datasets import load_wine

from viewsmith.evaluation.linear import standardize, train_softmax
from viewsmith.evaluation.protocol import OPTIONAL, PROTOCOLS, evaluate_embedding


def written_out(x, y, n_classes, *, epochs, batch_size, learning_rate, seed):
    """Softmax regression by Adam (Kingma and Ba 2015, Algorithm 1) in float64."""
    generator = torch.Generator().manual_seed(seed)
    bound = x.shape[1] ** -0.5
    sizes = (n_classes, x.shape[1]), (n_classes,)
    weights = [torch.empty(size).uniform_(-bound, bound, generator=generator).double().numpy() for size in sizes]
    first, second, t = [0.0, 0.0], [0.0, 0.0], 0
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator).numpy()
        for start in range(0, len(x), batch_size):
            rows, t = order[start : start + batch_size], t + 1
            scores = x[rows] @ weights[0].T + weights[1]
            p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
            p[np.arange(len(rows)), y[rows]] -= 1
            for i, g in enumerate((p.T @ x[rows] / len(rows), p.mean(0))):
                first[i] = 0.9 * first[i] + 0.1 * g
                second[i] = 0.999 * second[i] + 0.001 * g**2
                step = first[i] / (1 - 0.9**t) / (np.sqrt(second[i] / (1 - 0.999**t)) + 1e-8)
                weights[i] = weights[i] - learning_rate * step
    return weights


def test_the_layer_is_the_steps_written_out():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 4)), rng.integers(0, 3, 30)
    options = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01, "seed": 5}
    layer = train_softmax(torch.from_numpy(x).float(), torch.from_numpy(y), 3, **options)
    weight, bias = written_out(x, y, 3, **options)
    np.testing.assert_allclose(layer.weight.numpy(), weight, atol=1e-5)
    np.testing.assert_allclose(layer.bias.numpy(), bias, atol=1e-5)


def test_the_protocol_is_computed_only_if_named():
    x, y = load_wine(return_X_y=True)
    train, test = standardize(x[::2], x[1::2])
    found = evaluate_embedding(train, y[::2], test, y[1::2], protocols=["softmax_50", "knn"])
    assert list(found) == ["softmax_50", "knn"] and "softmax_50" in OPTIONAL and "softmax_50" not in PROTOCOLS
    rows, codes = torch.from_numpy(np.asarray(train)), torch.from_numpy(y[::2])
    predicted = train_softmax(rows, codes, 3)(torch.from_numpy(np.asarray(test))).argmax(1)
    assert found["softmax_50"] == float((predicted.numpy() == y[1::2]).mean())
