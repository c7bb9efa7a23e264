"""The roles of any torch module's parameters, read off its layers and names."""

import re
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from headstart.core.roles import Parameter, Role

if TYPE_CHECKING:
    import torch

# The last matching part of a parameter's name decides; the names are those of PyTorch, Hugging Face, timm and nanoGPT.
_ATTENTION = [
    (Role.QUERY, re.compile(r"^(q|query|q_proj|wq|w_q|to_q|q_lin|q_proj_weight)$")),
    (Role.KEY, re.compile(r"^(k|key|k_proj|wk|w_k|to_k|k_lin|k_proj_weight)$")),
    (Role.VALUE, re.compile(r"^(v|value|v_proj|wv|w_v|to_v|v_lin|v_proj_weight)$")),
    (Role.PROJECTION, re.compile(r"^(o_proj|out_proj|wo|w_o|to_out|out_lin)$")),
]
_FUSED = re.compile(r"(^|\.)(in_proj_weight|c_attn|qkv|qkv_proj|query_key_value|Wqkv)(\.|$)")


def fused_attention(names: list[str]) -> list[str]:
    """Of parameter names, those of matrices that hold queries, keys and values in one tensor."""
    return [name for name in names if _FUSED.search(name) and not name.endswith("bias")]


def module_parameters(module: "torch.nn.Module") -> tuple[Parameter, ...]:
    """Every parameter of a module with its Role, in the order in which the layers were registered.

    Embeddings, norms and biases are known by their layer, queries, keys, values and projections by name; of the other
    matrices the last is the readout, the first the input unless there is an embedding, and the rest are hidden. Layers
    count matrices from 0. A readout tied to the embedding is the embedding.
    """
    found = list(_labelled(module))
    plain = [i for i, p in enumerate(found) if p.role is Role.HIDDEN]
    if plain:
        if not any(p.role is Role.EMBEDDING for p in found) and len(plain) > 1:
            found[plain[0]] = replace(found[plain[0]], role=Role.INPUT)
        found[plain[-1]] = replace(found[plain[-1]], role=Role.READOUT)
    return tuple(found)


def _labelled(module: "torch.nn.Module") -> Iterator[Parameter]:
    """The parameters, with every matrix that only its order tells apart as hidden."""
    seen: set[int] = set()
    layer = -1
    for prefix, part in module.named_modules():
        kind = type(part).__name__
        own = [(n, p) for n, p in part.named_parameters(recurse=False) if id(p) not in seen]
        seen.update(id(p) for _, p in own)
        fan_in = 1
        for name, parameter in own:
            full = f"{prefix}.{name}" if prefix else name
            shape = tuple(parameter.shape)
            role = _role(kind, full, len(shape))
            if len(shape) > 1 and role is not Role.NORM:
                layer += 1
                # Hugging Face's Conv1D holds its matrix the other way round.
                fan_in = shape[0] if kind == "Conv1D" else prod(shape[1:])
            yield Parameter(full, role, max(layer, 0), shape, fan_in)


def _role(kind: str, name: str, num_axes: int) -> Role:
    if "Norm" in kind:
        return Role.NORM
    if "Embedding" in kind:
        return Role.POSITION if re.search(r"(^|[._])(pos|position|wpe)", name) else Role.EMBEDDING
    if num_axes < 2:
        return Role.BIAS
    for part in reversed(name.split(".")):
        for role, pattern in _ATTENTION:
            if pattern.match(part):
                return role
    return Role.POSITION if re.search(r"(^|[._])pos(ition)?[._]?emb", name) else Role.HIDDEN
