"""The small Llama of the data directory as a Hugging Face model, with its tokenizer."""

from typing import Any

from headstart.data import open_dataset
from headstart.data.llama2c import HEADER, Pieces, named_weights


def load_stories(name: str = "stories15m") -> tuple[Any, Pieces]:
    """A LlamaForCausalLM with the weights of a llama2.c model, and its tokenizer, from the data directory."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    data = open_dataset(name)
    sizes = dict(zip(HEADER, map(int, data["header"]), strict=True))
    config = LlamaConfig(
        vocab_size=sizes["symbols"],
        hidden_size=sizes["dim"],
        intermediate_size=sizes["hidden"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
        num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["length"],
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(config)
    arrays = {key: torch.from_numpy(array.copy()) for key, array in named_weights(sizes, data["weights"]).items()}
    model.load_state_dict({**arrays, "lm_head.weight": arrays["model.embed_tokens.weight"]})
    return model.eval(), Pieces({key: data[key] for key in ("pieces", "ends", "scores")})
