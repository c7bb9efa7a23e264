"""Transformers: encoders and decoders whose query, key, value and output weights are separate parameters."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from headstart.core.errors import HeadstartError, check_count, check_flag, check_positive
from headstart.core.roles import Parameter, Role
from headstart.core.signature import Signature
from headstart.core.streams import Stream, normals, uniforms
from headstart.models.activations import Activation
from headstart.models.model import Weights
from headstart.models.tokens import Signs, Tokens

if TYPE_CHECKING:
    import torch

# The id in the init stream of the map behind a table of low rank, which no other parameter has.
_MAP_ID = 2**32 + 1


class Readout(StrEnum):
    """mean: of the last layer's tokens. last: its last token, as a decoder is read. tokens: every token by itself."""

    MEAN = "mean"
    LAST = "last"
    TOKENS = "tokens"


class Norm(StrEnum):
    """rms: x / rms(x) * scale. layer: (x - mean(x)) / std(x) * scale + shift. Over the features of a token."""

    RMS = "rms"
    LAYER = "layer"


class Positions(StrEnum):
    """learned: a table [T, width]. sinusoidal: sines and cosines of geometric wavelengths, which are never trained."""

    LEARNED = "learned"
    SINUSOIDAL = "sinusoidal"


@dataclass(frozen=True)
class Transformer:
    """`depth` residual layers of attention and MLP on learned embeddings and positions, then a linear readout.

        h <- h + W_o concat_heads softmax(q k^T / sqrt(d_head)) v,    h <- h + W_2 s(W_1 h)

    with q, k, v = W_q h, W_k h, W_v h and d_head = width / heads. There is no layer normalisation unless `pre_norm`
    puts a `norm` before every attention, MLP and the readout, or `post_norm` one after the embedding and after every
    addition to h, as BERT has it; `qk_norm` puts an RMSNorm with a learnable scale on q and k.
    Symbols are tokens, looked up in a table [symbols, width]; with `embedding_rank`, in a table A [symbols, rank], and
    the vector of symbol s is B A_s with a map B [width, rank]. `tokens` says how real inputs become tokens. `causal`
    masks later tokens (a decoder). `mlp_width` defaults to 4 x width. `tied` reads out by the table of symbols itself:
    scores are <h, table row>. Linear weights, B too, and biases are drawn as PyTorch does, U(+-1/sqrt(fan_in)); with
    `weight_std`, linear weights are N(0, weight_std^2) and biases 0. Tables of symbols and learned positions are
    N(0, embedding_std^2), sinusoidal positions have that mean square; norms begin at 1.
    Reference: Less Data, Faster Training, Appendix B.1, which states neither normalisation, positions nor readout, and
    of scales only that they are PyTorch's defaults, N(0, 1) for embeddings; the defaults here are those at which its
    gap is plain on (10,6)-parity.
    """

    width: int = 64
    depth: int = 2
    heads: int = 4
    tokens: Tokens = Signs()
    causal: bool = False
    readout: Readout = Readout.MEAN
    mlp_width: int | None = None
    activation: Activation = Activation.RELU
    bias: bool = True
    pre_norm: bool = False
    qk_norm: bool = False
    embedding_std: float = 0.1
    embedding_rank: int | None = field(default=None, metadata={"since": 3})
    norm: Norm = field(default=Norm.RMS, metadata={"since": 4})
    post_norm: bool = field(default=False, metadata={"since": 4})
    positions: Positions = field(default=Positions.LEARNED, metadata={"since": 4})
    tied: bool = field(default=False, metadata={"since": 4})
    weight_std: float | None = field(default=None, metadata={"since": 4})

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        for name in ("width", "depth", "heads"):
            check_count("Transformer", name, getattr(self, name), maximum=10_000 if name == "depth" else None)
        for name in ("mlp_width", "embedding_rank"):
            if getattr(self, name) is not None:
                check_count("Transformer", name, getattr(self, name))
        check_positive("Transformer", "embedding_std", self.embedding_std)
        if self.weight_std is not None:
            check_positive("Transformer", "weight_std", self.weight_std)
        for name in ("post_norm", "tied"):
            check_flag("Transformer", name, getattr(self, name))
        if self.pre_norm and self.post_norm:
            raise HeadstartError("Transformer(pre_norm=True, post_norm=True): norms are before or after; choose one")
        if self.width % self.heads:
            raise HeadstartError(f"Transformer(width={self.width}, heads={self.heads}): heads must divide the width")
        kinds = {"activation": Activation, "readout": Readout, "norm": Norm, "positions": Positions}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if value not in list(kind):
                raise HeadstartError(f"Transformer({name}={value!r}): choose one of {', '.join(kind)}")
            object.__setattr__(self, name, kind(value))
        if isinstance(self.tokens, type) or not hasattr(self.tokens, "num_features"):
            raise HeadstartError(f"Transformer(tokens={self.tokens!r}): give Signs() or Vectors(...)")

    @property
    def normed(self) -> bool:
        """Whether its layers have norms."""
        return self.pre_norm or self.post_norm

    def length(self, signature: Signature) -> int:
        """The number of tokens of an input."""
        return signature.num_inputs if signature.symbols else self.tokens.length(signature.num_inputs)

    def parameters(self, signature: Signature) -> tuple[Parameter, ...]:
        """Weights [fan_out, fan_in]; the embedding is a table, or a weight on features; positions [T, width].

        FLOPs count every use: a weight is applied to all T tokens, and the products q k^T and softmax v, 6 T^2 width
        each, are counted with the query and the value weights.
        """
        tokens, mlp = self.length(signature), self.mlp_width or 4 * self.width
        self._check_readout(signature, tokens)
        self._check_tied(signature)
        if self.embedding_rank is not None and signature.symbols is None:
            raise HeadstartError(
                f"Transformer(embedding_rank={self.embedding_rank}): the inputs of this task are real numbers, not "
                "symbols to look up in a table; leave embedding_rank out"
            )
        out: list[Parameter] = []

        def linear(name: str, role: Role, layer: int, fan_out: int, fan_in: int, uses: int, products: int = 0) -> None:
            flops = 6 * uses * fan_out * fan_in + products
            out.append(Parameter(f"{name}.weight", role, layer, (fan_out, fan_in), fan_in, flops))
            if self.bias:
                out.append(Parameter(f"{name}.bias", Role.BIAS, layer, (fan_out,), fan_in, 2 * uses * fan_out))

        def norm(name: str, layer: int, size: int, kind: Norm = self.norm) -> None:
            # Square, mean, product and scale, and twice as much backward.
            out.append(Parameter(f"{name}.scale", Role.NORM, layer, (size,), 1, 12 * tokens * self.width))
            if kind is Norm.LAYER:
                out.append(Parameter(f"{name}.shift", Role.NORM, layer, (size,), 1, 6 * tokens * self.width))

        features, dim = signature.symbols or self.tokens.num_features, self.embedding_rank or self.width
        products = 6 * tokens * tokens * self.width
        embedding = 2 * tokens * dim if self._discrete(signature) else 6 * tokens * self.width * features
        each = self.readout is Readout.TOKENS
        scores, read = signature.outputs[-1] if signature.outputs else 1, tokens if each else 1
        if self.tied:
            embedding += 6 * read * self.width * features
        shape = (features, dim) if signature.symbols else (self.width, features)
        out.append(Parameter("embedding.weight", Role.EMBEDDING, 0, shape, features, embedding))
        if self.embedding_rank is not None:
            flops = 6 * tokens * self.width * dim
            out.append(Parameter("embedding.map", Role.HIDDEN, 0, (self.width, dim), dim, flops))
        shape, fixed = (tokens, self.width), self.positions is Positions.SINUSOIDAL
        out.append(Parameter("position.weight", Role.POSITION, 0, shape, 1, 2 * tokens * self.width, fixed))
        if self.post_norm:
            norm("embedding_norm", 0, self.width)
        for i in range(self.depth):
            block, layer = f"blocks.{i}", i + 1
            if self.normed:
                norm(f"{block}.attention_norm", layer, self.width)
            linear(f"{block}.query", Role.QUERY, layer, self.width, self.width, tokens, products)
            linear(f"{block}.key", Role.KEY, layer, self.width, self.width, tokens)
            linear(f"{block}.value", Role.VALUE, layer, self.width, self.width, tokens, products)
            if self.qk_norm:
                norm(f"{block}.query_norm", layer, self.width // self.heads, Norm.RMS)
                norm(f"{block}.key_norm", layer, self.width // self.heads, Norm.RMS)
            linear(f"{block}.projection", Role.PROJECTION, layer, self.width, self.width, tokens)
            if self.normed:
                norm(f"{block}.mlp_norm", layer, self.width)
            linear(f"{block}.up", Role.HIDDEN, layer, mlp, self.width, tokens)
            linear(f"{block}.down", Role.HIDDEN, layer, self.width, mlp, tokens)
        if self.pre_norm:
            norm("norm", self.depth + 1, self.width)
        if not self.tied:
            linear("readout", Role.READOUT, self.depth + 1, scores, self.width, read)
        elif self.bias:
            out.append(Parameter("readout.bias", Role.BIAS, self.depth + 1, (scores,), self.width, 2 * read * scores))
        return tuple(out)

    def _discrete(self, signature: Signature) -> bool:
        return signature.symbols is not None or self.tokens.discrete

    def _check_readout(self, signature: Signature, tokens: int) -> None:
        each, outputs = self.readout is Readout.TOKENS, signature.outputs
        if each and (len(outputs) != 2 or outputs[0] != tokens):
            raise HeadstartError(
                f"Transformer(readout='tokens'): the task asks for predictions of shape {outputs}, not one row of "
                f"scores for each of {tokens} tokens; use readout='mean' or 'last'"
            )
        if not each and len(outputs) > 1:
            raise HeadstartError(
                f"Transformer(readout={str(self.readout)!r}): the task asks for predictions of shape {outputs}, one "
                "row of scores per token; use readout='tokens'"
            )

    def _check_tied(self, signature: Signature) -> None:
        if self.tied and signature.outputs[-1:] != (signature.symbols,):
            raise HeadstartError(
                f"Transformer(tied=True): the table has {signature.symbols or 'no'} symbols and predictions are of "
                f"shape {signature.outputs}; a tied readout has one score per symbol, so use tied=False"
            )

    def initial_weights(self, signature: Signature, seed: int) -> Weights:
        """Each parameter is drawn from an id of the init stream of its own, that does not depend on the options."""
        discrete = self._discrete(signature)
        return {p.name: self._draw(p, seed, discrete) for p in self.parameters(signature)}

    def _draw(self, parameter: Parameter, seed: int, discrete: bool) -> Any:
        size = int(np.prod(parameter.shape))
        if parameter.role is Role.NORM:
            return np.full(parameter.shape, not parameter.name.endswith(".shift"), dtype=np.float32)
        if parameter.fixed:
            return np.float32(self.embedding_std) * _sinusoids(*parameter.shape)
        id = _ids(self.depth)[parameter.name]
        normal = parameter.role is Role.POSITION or (parameter.role is Role.EMBEDDING and discrete)
        if normal:
            return np.float32(self.embedding_std) * normals(seed, Stream.INIT, [id], size)[0].reshape(parameter.shape)
        if self.weight_std is not None:
            std = 0.0 if parameter.role is Role.BIAS else self.weight_std
            return np.float32(std) * normals(seed, Stream.INIT, [id], size)[0].reshape(parameter.shape)
        values = parameter.fan_in**-0.5 * (2.0 * uniforms(seed, Stream.INIT, [id], size)[0] - 1.0)
        return values.astype(np.float32).reshape(parameter.shape)

    def module(self, signature: Signature) -> "torch.nn.Module":
        """The network as a torch module."""
        from headstart.models.attention import Network

        return Network(self, signature)


def _sinusoids(length: int, width: int) -> Any:
    """sqrt(2) sin(t / 10000^(2i / width)) and the cosines beside them: of mean square 1, float32[length, width].

    Reference: Vaswani et al., "Attention is all you need", Section 3.5, where the factor is 1.
    """
    angles = np.arange(length)[:, None] * 10_000.0 ** (-2.0 * np.arange(-(-width // 2)) / width)
    table = np.stack((np.sin(angles), np.cos(angles)), axis=2).reshape(length, -1)[:, :width]
    return (2**0.5 * table).astype(np.float32)


def _ids(depth: int) -> dict[str, int]:
    """The id in the init stream of each parameter that is drawn."""

    def names() -> Iterator[str]:
        yield from ("embedding.weight", "position.weight", "readout.weight", "readout.bias")
        for i in range(depth):
            for part in ("query", "key", "value", "projection", "up", "down"):
                yield from (f"blocks.{i}.{part}.weight", f"blocks.{i}.{part}.bias")

    return {name: id for id, name in enumerate(names())} | {"embedding.map": _MAP_ID}
