"""A character-level language model on Python's own documentation, with subsets first, rates by role, and a checkpoint.

python examples/characters.py            # a few minutes
python examples/characters.py --steps 40 # seconds: only that it runs

The text ships with Python (`pydoc_data.topics`). Rows of the data set are windows of 65 characters. Half-way the loop
stops, saves, and goes on from what it saved, as after a crash: the loader delivers exactly the windows it had not.
"""

import argparse
import io
import math
from pydoc_data.topics import topics

import torch
from torch import nn
from torch.utils.data import Dataset

import headstart as hs

WINDOW, WIDTH = 64, 64


class Windows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Every window of the text: (characters, the characters that follow them)."""

    def __init__(self, text: str) -> None:
        self.alphabet = sorted(set(text))
        number = {character: i for i, character in enumerate(self.alphabet)}
        self.codes = torch.tensor([number[character] for character in text])

    def __len__(self) -> int:
        return len(self.codes) - WINDOW

    def __getitem__(self, row: int) -> tuple[torch.Tensor, torch.Tensor]:
        window = self.codes[row : row + WINDOW + 1]
        return window[:-1], window[1:]


class Model(nn.Module):
    """One causal attention layer with separate queries and keys, so that each can have a rate of its own."""

    def __init__(self, num_characters: int) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(num_characters, WIDTH), nn.Embedding(WINDOW, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, num_characters)

    def forward(self, characters: torch.Tensor) -> torch.Tensor:
        """Scores of the next character at every place: float[n, window, characters]."""
        x = self.embedding(characters) + self.position(torch.arange(characters.shape[1]))
        x = x + nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x), is_causal=True)
        return self.head(x + self.down(torch.relu(self.up(x))))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: hs.PhasedLoader, stop: int) -> list[float]:
    """Losses up to batch number `stop`."""
    losses = []
    for characters, following in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(characters).flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if loader.state_dict()["batch"] == stop:
            break
    return losses


def main(steps: int = 1500) -> list[float]:
    """Train with a stop in the middle; the losses of all steps."""
    data = Windows("".join(topics.values()))
    schedule = hs.PhaseSchedule.geometric(first=1 / 320, last=1 / 50, phases=3, steps=steps)

    def fresh() -> tuple[nn.Module, torch.optim.Optimizer, hs.PhasedLoader]:
        torch.manual_seed(0)
        model = Model(len(data.alphabet))
        optimizer = torch.optim.AdamW(hs.param_groups(model, {"query_key": 2.0}, lr=3e-3))
        return model, optimizer, hs.PhasedLoader(data, schedule, batch_size=32)

    model, optimizer, loader = fresh()
    losses = train(model, optimizer, loader, stop=steps // 2 + 3)
    saved = io.BytesIO()
    torch.save([part.state_dict() for part in (model, optimizer, loader)], saved)
    saved.seek(0)
    parts = fresh()
    for part, state in zip(parts, torch.load(saved, weights_only=True), strict=True):
        part.load_state_dict(state)
    losses += train(*parts, stop=steps)
    for begin in range(0, steps, max(1, steps // 10)):
        some = losses[begin : begin + max(1, steps // 10)]
        print(f"steps {begin:>5} on: {sum(some) / len(some) / math.log(2):.2f} bits a character")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="a character-level model on Python's documentation")
    parser.add_argument("--steps", type=int, default=1500)
    main(parser.parse_args().steps)
