"""DNA as strings and as scaled batches, for the tests of DNA views."""

import torch

from drawn import draw

LETTERS = "ACGT"
LENGTHS = [30, 12, 1, 30, 7, 2, 19]


def encode(words, width=None, dtype=torch.float32):
    """Scaled batch (B, 4, width) of strings over A C G T N."""
    width = width or max(map(len, words))
    x = torch.zeros(len(words), 4, width, dtype=dtype)
    for row, word in enumerate(words):
        for position, letter in enumerate(word):
            if letter == "N":
                x[row, :, position] = 0.25
            else:
                x[row, LETTERS.index(letter), position] = 1
    return x


def decode(x):
    """Strings of a batch with valid columns; padding must be at the end."""
    words = []
    for sample in x:
        word = ""
        for column in sample.T.tolist():
            if column == [0.25] * 4:
                word += "N"
            elif sorted(column) == [0, 0, 0, 1]:
                word += LETTERS[column.index(1)]
            else:
                assert column == [0] * 4, column
                word += "-"
        assert "-" not in word.rstrip("-")
        words.append(word.rstrip("-"))
    return words


def random_words(lengths, seed=0, letters="ACGTN"):
    generator = draw(seed)
    return ["".join(letters[int(i)] for i in torch.randint(len(letters), (n,), generator=generator)) for n in lengths]
