"""Grown models of Hugging Face, trained one after another: a peer of `benchmarks.growing`."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

from headstart.methods.growth import Layer

KINDS = {"GPT-1": (OpenAIGPTConfig, OpenAIGPTLMHeadModel), "GPT-2": (GPT2Config, GPT2LMHeadModel)}


class HuggingFace:
    """The children of a fresh parent by the given maps of layers, with batches [batches, batch, length] of tokens."""

    def __init__(
        self,
        kind: str,
        width: int,
        depth: int,
        symbols: int,
        rate: float,
        batches: torch.Tensor,
        maps: Sequence[Sequence[Layer]],
    ) -> None:
        self.batches, self.step = batches, 0
        config, model = KINDS[kind]
        sizes = {"vocab_size": symbols, "n_embd": width, "n_head": 2, "n_positions": batches.shape[2]}
        no_dropout = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            parent = model(config(n_layer=depth, **sizes, **no_dropout, bos_token_id=0, eos_token_id=0))
        parent.loss_type = "ForCausalLM"  # which GPT-1 takes too, with a warning
        self.models = [_grown(parent, layers) for layers in maps]
        self.optimizers = [torch.optim.AdamW(m.parameters(), lr=rate, fused=True) for m in self.models]

    def advance(self, num_steps: int) -> None:
        """So many steps of every child."""
        for model, optimizer in zip(self.models, self.optimizers, strict=True):
            for step in range(self.step, self.step + num_steps):
                batch = self.batches[step % len(self.batches)]
                optimizer.zero_grad()
                model(input_ids=batch, labels=batch).loss.backward()
                optimizer.step()
        self.step += num_steps


def _grown(parent: Any, layers: Sequence[Layer]) -> Any:
    """A copy of the parent with copies of its layers; what they hold does not matter here."""
    model = copy.deepcopy(parent).train()
    old = model.transformer.h
    model.transformer.h = torch.nn.ModuleList([copy.deepcopy(old[layer.source]) for layer in layers])
    model.config.n_layer = len(layers)
    return model
