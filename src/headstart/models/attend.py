"""Scaled dot-product attention as one torch operation, so that an engine can see it in a traced step and do it faster.

    out_i = sum_j p_ij v_j,    p_i = softmax_j(q_i . k_j / sqrt(d_head))

It works under torch.func, and is differentiable once, backwards or forwards.
"""

from typing import Any

import torch

from headstart.models.operation import operation


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, causal: bool = False) -> torch.Tensor:
    """[n, T', width] from queries [n, T', width] and keys and values [n, T, width]; queries are the last T' tokens.

    `causal` hides later tokens from each.
    """
    out: torch.Tensor = _Attention.apply(q, k, v, heads, causal)[0]
    return out


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, causal: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """The output, and the weights p [n, heads, T', T]."""
    q, k, v = (_apart(x, heads) for x in (q, k, v))
    logits = (q * q.shape[-1] ** -0.5) @ k.transpose(2, 3)
    if causal:
        later = torch.ones(logits.shape[2:], dtype=torch.bool, device=q.device)
        logits = logits.masked_fill(later.triu(1 + k.shape[2] - q.shape[2]), -torch.inf)
    p = torch.softmax(logits, dim=-1)
    return _together(p @ v), p


def _attend_backward(
    d_out: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, p: torch.Tensor, causal: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of q, k and v. Where p is 0 because later tokens are hidden, so is everything that it multiplies."""
    heads = p.shape[1]
    d_out, q, k, v = (_apart(x, heads) for x in (d_out, q, k, v))
    d_p = d_out @ v.transpose(2, 3)
    d_logits = p * (d_p - (p * d_p).sum(dim=-1, keepdim=True)) * q.shape[-1] ** -0.5
    return _together(d_logits @ k), _together(d_logits.transpose(2, 3) @ q), _together(p.transpose(2, 3) @ d_out)


def _apart(x: torch.Tensor, heads: int) -> torch.Tensor:
    """[n, T, width] to [n, heads, T, width / heads]."""
    return x.reshape(*x.shape[:2], heads, -1).transpose(1, 2)


def _together(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(1, 2).flatten(2)


class _Attention(torch.autograd.Function):
    """The two operations as one function for torch.func."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return FORWARD(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
        q, k, v, _, ctx.causal = inputs
        ctx.save_for_backward(q, k, v, output[1])
        ctx.save_for_forward(q, k, v, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def jvp(ctx: Any, d_q: Any, d_k: Any, d_v: Any, *_: Any) -> tuple[torch.Tensor, None]:
        """d out = d p v + p d v with d p_i = p_i (d l_i - p_i . d l_i), l the logits: plain operations, linear in d."""
        *inputs, p = ctx.saved_tensors
        heads = p.shape[1]
        q, k, v = (_apart(x, heads) for x in inputs)
        d_q, d_k, d_v = (
            torch.zeros_like(x) if d is None else _apart(d, heads)
            for x, d in zip((q, k, v), (d_q, d_k, d_v), strict=True)
        )
        d_logits = (d_q @ k.transpose(2, 3) + q @ d_k.transpose(2, 3)) * q.shape[-1] ** -0.5
        d_p = p * (d_logits - (p * d_logits).sum(dim=-1, keepdim=True))
        return _together(d_p @ v + p @ d_v), None

    @staticmethod
    def backward(ctx: Any, d_out: torch.Tensor, _: Any) -> tuple[Any, ...]:
        return *BACKWARD(d_out, *ctx.saved_tensors, ctx.causal), None, None


# What a traced step calls, for engines that put something faster in its place.
FORWARD, BACKWARD = operation(_attend), operation(_attend_backward)
