"""The forward pass of a Transformer, written so that many members can be stacked at little cost.

Linear maps act on all tokens of all samples as one matrix [n * T, features]: stacked with torch.func they are then
batched products with one weight per member, never one per sample. Without norms two of them cost less in another
order: the first block reads (F E^T + P) W^T = F (W E)^T + P W^T, where features F are fewer than the width, and the
mean over tokens, if that is what is read, comes before the last map and not after it.
"""

from typing import Any, NamedTuple

import torch

from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.models.activations import torch_function
from headstart.models.attend import attend
from headstart.models.lookup import Table, looked_up

_EPS = 1e-6
# A `Transformer`, whose module imports this one.
Architecture = Any


class _Linear(torch.nn.Module):
    """x W^T + b on matrices. Parameters are made without values, so that no generator is touched."""

    def __init__(self, shape: tuple[int, int], bias: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(shape))
        self.bias = torch.nn.Parameter(torch.empty(shape[0])) if bias else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        product = x @ self.weight.T
        return product if self.bias is None else product + self.bias


class _Readout(torch.nn.Module):
    """Scores h W^T + b by weights of its own or, without a shape, by the rows of a table of symbols."""

    def __init__(self, shape: tuple[int, int] | None, scores: int | None) -> None:
        super().__init__()
        self.weight = None if shape is None else torch.nn.Parameter(torch.empty(shape))
        self.bias = None if scores is None else torch.nn.Parameter(torch.empty(scores))

    def forward(self, h: torch.Tensor, table: Table) -> torch.Tensor:
        product = h @ (table() if self.weight is None else self.weight).T
        return product if self.bias is None else product + self.bias


class _Norm(torch.nn.Module):
    """RMSNorm, x / sqrt(mean(x^2) + eps) * scale over the last axis; of kind "layer", LayerNorm, which has a shift."""

    def __init__(self, size: int, kind: str = "rms") -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.empty(size))
        self.shift = torch.nn.Parameter(torch.empty(size)) if kind == "layer" else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.shift is not None:
            return torch.nn.functional.layer_norm(x, self.scale.shape, self.scale, self.shift, _EPS)
        return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + _EPS) * self.scale


class _Embedded(NamedTuple):
    """The stream before the first block, F E^T + P: features F [n * T, f], E [width, f], positions P [T, width]."""

    features: torch.Tensor
    embedding: torch.Tensor
    positions: torch.Tensor

    def stream(self) -> torch.Tensor:
        """[n * T, width]."""
        return self._placed(self.embedding, self.positions)

    def through(self, linear: _Linear) -> torch.Tensor:
        """A linear map of the stream."""
        return self._placed(linear.weight @ self.embedding, linear(self.positions))

    def _placed(self, embedding: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        tokens = self.features @ embedding.T
        return (tokens.reshape(-1, *positions.shape) + positions).reshape(tokens.shape)


class _Block(torch.nn.Module):
    def __init__(self, model: Architecture, shapes: dict[str, tuple[int, int]]) -> None:
        super().__init__()
        self.model, self.activation = model, torch_function(model.activation)
        self.attention_norm = _Norm(model.width, model.norm) if model.normed else None
        self.query, self.key, self.value = (_Linear(shapes[n], model.bias) for n in ("query", "key", "value"))
        self.query_norm = _Norm(model.width // model.heads) if model.qk_norm else None
        self.key_norm = _Norm(model.width // model.heads) if model.qk_norm else None
        self.projection = _Linear(shapes["projection"], model.bias)
        self.mlp_norm = _Norm(model.width, model.norm) if model.normed else None
        self.up, self.down = _Linear(shapes["up"], model.bias), _Linear(shapes["down"], model.bias)

    def forward(self, h: torch.Tensor, length: int, reads: str, embedded: _Embedded | None = None) -> torch.Tensor:
        """[n * T, width] to the same, or to the last token, or the mean of the tokens, of each sample, [n, width].

        `embedded` is h before the first block, if it is to be read by its factors.
        """
        last = reads == "last"
        attended = self._attention(self._before(h, self.attention_norm), length, last, embedded)
        if last:
            h = h.reshape(-1, length, h.shape[-1])[:, -1]
        return self._after(h, attended, length if reads == "mean" else 1)

    def _after(self, h: torch.Tensor, attended: torch.Tensor, tokens: int = 1) -> torch.Tensor:
        """What was attended to, and the MLP, added to the stream; the mean over so many tokens."""
        h = self._behind(h + self.projection(attended), self.attention_norm)
        inner = self.activation(self.up(self._before(h, self.mlp_norm)))
        if tokens > 1:
            h, inner = (x.reshape(-1, tokens, x.shape[-1]).mean(dim=1) for x in (h, inner))
        return self._behind(h + self.down(inner), self.mlp_norm)

    def _before(self, h: torch.Tensor, norm: _Norm | None) -> torch.Tensor:
        """What a layer reads of the stream."""
        return norm(h) if norm is not None and self.model.pre_norm else h

    def _behind(self, h: torch.Tensor, norm: _Norm | None) -> torch.Tensor:
        """The stream after an addition."""
        return norm(h) if norm is not None and self.model.post_norm else h

    def pair(self, first: torch.Tensor, second: torch.Tensor, x: torch.Tensor, last: bool) -> tuple[Any, torch.Tensor]:
        """The two streams of a decoder on two symbols x [n, 2]: the first by symbol, the second by symbol or sample.

        The first token sees itself alone, so that its stream depends on its symbol alone, [symbols, width]. The second
        sees both. Its stream is by symbol before the first block, and by sample, [n, width], behind every block. With
        two keys softmax is sigmoid(l), l the difference of the logits, and the output v_2 + sigmoid(l) (v_1 - v_2).
        """
        a, b = (self._before(stream, self.attention_norm) for stream in (first, second))
        value = self.value(a)
        ours = [second, self._normed(self.query(b), self.query_norm), self._normed(self.key(b), self.key_norm)]
        ours.append(self.value(b))
        k, v = (_rows(t, x[:, :1]) for t in (self._normed(self.key(a), self.key_norm), value))
        if len(second) != len(x):
            ours = [_rows(t, x[:, 1:]) for t in ours]
        second, q, own_k, own_v = ours
        apart = (len(x), self.model.heads, -1)
        logits = (q * (k - own_k)).reshape(apart).sum(dim=2, keepdim=True) * (q.shape[1] // apart[1]) ** -0.5
        attended = own_v + (torch.sigmoid(logits) * (v - own_v).reshape(apart)).reshape(q.shape)
        return None if last else self._after(first, value), self._after(second, attended)

    def _normed(self, y: torch.Tensor, norm: _Norm | None) -> torch.Tensor:
        """Queries or keys [n, width], each head normalised by itself."""
        return y if norm is None else norm(y.reshape(len(y), self.model.heads, -1)).reshape(y.shape)

    def _attention(self, x: torch.Tensor, length: int, last: bool, embedded: _Embedded | None) -> torch.Tensor:
        """With `last`, no other token is read, so that no other needs to attend."""
        model, width = self.model, x.shape[-1]
        if embedded is not None and not last:
            q, k, v = (embedded.through(linear) for linear in (self.query, self.key, self.value))
        else:
            tokens = x.reshape(-1, length, width)[:, -1] if last else x
            q, k, v = self.query(tokens), self.key(x), self.value(x)
        q, k = self._normed(q, self.query_norm), self._normed(k, self.key_norm)
        q, k, v = (y.reshape(-1, num, width) for y, num in ((q, 1 if last else length), (k, length), (v, length)))
        return attend(q, k, v, model.heads, model.causal and not last).reshape(-1, width)


def _rows(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The rows of a table [symbols, width] that the symbols x [n, 1] name."""
    return looked_up(table[None], x)


class Network(torch.nn.Module):
    """The module of a Transformer; its values are not set."""

    def __init__(self, model: Architecture, signature: Signature) -> None:
        super().__init__()
        vectors = (Role.BIAS, Role.NORM)
        shapes: dict[str, Any] = {p.name: p.shape for p in model.parameters(signature) if p.role not in vectors}
        self.model, self.length, self.signature = model, model.length(signature), signature
        scores = signature.outputs[-1] if signature.outputs else 1
        self.embedding = Table(shapes["embedding.weight"], shapes.get("embedding.map"))
        self.position = Table(shapes["position.weight"])
        inner = {name.split(".")[2]: shape for name, shape in shapes.items() if name.startswith("blocks.0.")}
        self.embedding_norm = _Norm(model.width, model.norm) if model.post_norm else None
        self.blocks = torch.nn.ModuleList(_Block(model, inner) for _ in range(model.depth))
        self.norm = _Norm(model.width, model.norm) if model.pre_norm else None
        self.readout = _Readout(shapes.get("readout.weight"), scores if model.bias else None)
        # What the last block passes on: the mean behind a norm is not that before it.
        self._behind_last = "tokens" if model.normed and model.readout == "mean" else str(model.readout)
        self._by_symbol = bool(signature.symbols and self.length == 2 and model.causal and model.readout == "last")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Inputs to predictions."""
        if self._by_symbol and len(x) > (self.signature.symbols or 0):
            return self._read(self._second(x))
        model, embedded = self.model, None
        if self.signature.symbols is not None:
            tokens = torch.nn.functional.embedding(x, self.embedding())
            h = (tokens.reshape(-1, self.length, model.width) + self.position.weight).reshape(-1, model.width)
        else:
            by_factors = _Embedded(model.tokens.features(x), self.embedding.weight, self.position.weight)
            h = by_factors.stream()
            embedded = by_factors if model.tokens.num_features < model.width and not model.normed else None
        if self.embedding_norm is not None:
            h = self.embedding_norm(h)
        for number, block in enumerate(self.blocks, start=1):
            h = block(h, self.length, self._behind_last if number == len(self.blocks) else "tokens", embedded)
            embedded = None
        return self._read(h)

    def _second(self, x: torch.Tensor) -> torch.Tensor:
        """The last layer's second token of two symbols x [n, 2], [n, width], where the first depends on its own alone.

        Both streams begin by symbol, which is fewer rows than samples.
        """
        table = self.embedding()
        norm = self.embedding_norm or torch.nn.Identity()
        first, second = (norm(table + position) for position in self.position.weight)
        blocks: Any = self.blocks
        for number, block in enumerate(blocks, start=1):
            first, second = block.pair(first, second, x, last=number == len(blocks))
        return second

    def _read(self, h: torch.Tensor) -> torch.Tensor:
        if self.norm is not None:
            h = self.norm(h)
        if self.model.readout == "mean" and self._behind_last == "tokens":
            h = h.reshape(-1, self.length, self.model.width).mean(dim=1)
        out = self.readout(h, self.embedding)
        if self.model.readout == "tokens":
            return out.reshape(-1, self.length, out.shape[-1])
        return out if self.signature.outputs else out.squeeze(-1)
