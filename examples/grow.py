"""A pretrained Llama of 15 million weights, grown from 6 to 8 layers while it learns to read fairy tales.

headstart data get stories15m && headstart data get gutenberg    # 113 MB and 4 MB, once
python examples/grow.py                                          # some minutes on two cores
python examples/grow.py --steps 2 --k 2                          # only that it runs

The model writes stories of small children; the text it goes on with is S. C. Bryant's Stories to Tell to Children. It
is first trained as it is, so that its optimizer knows something. Then `hs.lag` grows it by five operators and trains
each child on the same batches, and beside them the model that was not grown. The table says what growth did to the loss
at once, what a few steps made of it, and what it cost to ask.
"""

import argparse

import torch

import headstart as hs
from headstart.data import open_dataset
from headstart.integrations.llama2c import load_stories

LENGTH, BATCH, BOOK = 64, 4, 5  # tokens, rows of a batch, the book's place among those of Gutenberg


def rows(tokenizer) -> torch.Tensor:
    """The book as rows of tokens, [rows, LENGTH]."""
    data = open_dataset("gutenberg")
    first, end = data["starts"][BOOK : BOOK + 2]
    ids = tokenizer.encode(" ".join(bytes(data["text"][first:end]).decode(errors="replace").split()))
    return torch.tensor(ids[: len(ids) // LENGTH * LENGTH]).view(-1, LENGTH)


def step(model, optimizer, batch) -> None:
    """One step on the mean loss of the next token."""
    model.train()
    optimizer.zero_grad()
    model(input_ids=batch, labels=batch).loss.backward()
    optimizer.step()


def main(steps: int = 60, k: int = 30, seed: int = 0) -> hs.Lag:
    """Train, grow, choose and print."""
    model, tokenizer = load_stories()
    tokens = rows(tokenizer)
    held_out, tokens = tokens[-8:], tokens[:-8]
    order = torch.randperm(len(tokens), generator=torch.Generator().manual_seed(seed))
    batches = [tokens[chosen] for chosen in order.split(BATCH) if len(chosen) == BATCH]

    @torch.no_grad()
    def validate(model) -> float:
        return model.eval()(input_ids=held_out, labels=held_out).loss.item()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    print(f"The model as it was: {validate(model):.4f} nats a token on the end of the book.")
    for batch in batches[:steps]:
        step(model, optimizer, batch)
    print(f"After {steps} steps: {validate(model):.4f}.")

    operators = [
        hs.Grow.on_top(6, 2),
        hs.Grow.on_top(6, 2, "random"),
        hs.Grow.on_top(6, 2, "zero_output"),
        hs.Grow(2, 1, layers=2),
        hs.Grow(2, 1, "scaled", layers=2),
    ]
    for operator in operators:
        print(hs.grow(model, optimizer, operator, batch={"input_ids": held_out, "labels": held_out}))
    found = hs.lag(model, optimizer, step, batches[steps:], operators, k, validate=validate, window=2)
    print(found)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="grow a pretrained Llama and choose how")
    parser.add_argument("--steps", type=int, default=60, help="before it is grown")
    parser.add_argument("--k", type=int, default=30, help="steps of every child")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # a layer is small
    main(arguments.steps, arguments.k)
