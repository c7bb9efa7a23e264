"""Read the roles of a torch module's parameters off its layers, the names of its parts, and their order."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.methods.module_roles import TABLES, UNKNOWN_MATRIX, UNKNOWN_VECTOR, Found, Roles, given_roles

if TYPE_CHECKING:
    import torch

# Names of PyTorch, Hugging Face, timm, diffusers and nanoGPT; they count only beside one another (see `_attention`).
_QUERY = re.compile(r"^(q|query|q_proj|wq|w_q|to_q|q_lin|q_attn|q_proj_weight|query_proj|q_[ab]_proj)$", re.I)
_KEY = re.compile(r"^(k|key|k_proj|wk|w_k|to_k|k_lin|k_proj_weight|key_proj)$", re.I)
_VALUE = re.compile(r"^(v|value|v_proj|wv|w_v|to_v|v_lin|v_proj_weight|value_proj)$", re.I)
_KEY_VALUE = re.compile(r"^(kv|kv_proj|to_kv|wkv|c_kv|kv_[ab]_proj(_with_mqa)?)$", re.I)
_FUSED = re.compile(r"^(in_proj_weight|c_attn|qkv|qkv_proj|query_key_value|wqkv|w_qkv|to_qkv)$", re.I)
_PROJECTION = re.compile(
    r"^(o|o_proj|out_proj|wo|w_o|to_out|out_lin|c_proj|proj|dense|out|out_layer|output_proj)$", re.I
)
_ATTENTION = re.compile(r"attn|attention", re.I)
_FORWARD = re.compile(r"mlp|ffn|feed_?forward", re.I)
_POSITION = re.compile(r"(^|[._])(pos|positions?|positional|wpe|relative)([._]|$)|pos_?emb|position_?(emb|bias)", re.I)
_TOKEN = re.compile(r"^(\w*_tokens?|class_embedding)$")
_BIAS = re.compile(r"^(b|beta|\w*bias(_.*)?)$")
_HEAD = re.compile(
    r"^(heads?|lm_head|\w*classifier|classification_head|fc|fc_out|out|output|output_layer|readout|score|qa_outputs"
    r"|logits|unembed|to_logits|decoder|embed_out)$"
)
_NORM = re.compile(r"Norm(?![a-z])")


@dataclass(frozen=True)
class _Use:
    """A tensor where a module holds it; `module` is the module's path, `own` the tensor's name in it."""

    module: str
    own: str
    part: Any
    tensor: Any
    roles: frozenset[Role]
    why: str
    layer: int = 0
    fans: tuple[int, int] = (1, 1)

    @property
    def name(self) -> str:
        return f"{self.module}.{self.own}" if self.module else self.own

    @property
    def is_plain(self) -> bool:
        """Whether it is a matrix that only its place tells apart."""
        return self.roles == {Role.HIDDEN}


def roles(model: "torch.nn.Module", given: Mapping[str, Role | str] | None = None) -> Roles:
    """What every parameter of a model does, and why that is thought: a table to look at before rules are given.

        print(hs.roles(model))
        hs.roles(model, {"encoder.W": "input"})  # what cannot be known is said by a pattern

    Embeddings, norms and biases are known by their layers, attention by the names of its parts beside one another. Of
    the other matrices a head is known by its name, or by Hugging Face's `get_output_embeddings`, else it is the last
    one outside of repeated blocks; the first matrix is the input unless there is an embedding. One tensor in two places
    has both roles (a head tied to the embedding), one matrix of queries, keys and values all three. A tensor that
    belongs to no layer has a role only if its name tells.
    """
    import torch

    if not isinstance(model, torch.nn.Module):
        raise HeadstartError(f"roles(model={model!r}): give a torch.nn.Module")
    uses = _with_ends(model, list(_uses(model)))
    by_tensor: dict[int, list[_Use]] = defaultdict(list)
    for use in uses:
        by_tensor[id(use.tensor)].append(use)
    found = Roles(tuple(_joined(same) for same in by_tensor.values()))
    return found if given is None else given_roles(found, given)


def _joined(uses: list[_Use]) -> Found:
    """One tensor, from all the places that hold it."""
    first, *others = uses
    matrices = [use for use in uses if len(use.tensor.shape) > 1 and Role.NORM not in use.roles]
    why = first.why if not others else f"{first.why}; tied: {', '.join(f'{use.name} is {use.why}' for use in others)}"
    its_roles = frozenset().union(*(use.roles for use in uses))
    return Found(
        first.name,
        tuple(first.tensor.shape),
        its_roles,
        tuple(dict.fromkeys(use.layer for use in matrices or uses)),
        *first.fans,
        why,
        known=not any(use.roles in (UNKNOWN_MATRIX, UNKNOWN_VECTOR) for use in uses),
        readers=tuple(use.module for use in uses if Role.READOUT in use.roles and use.roles != UNKNOWN_MATRIX),
        bare=not _is_layer(first.part),
    )


def _uses(model: "torch.nn.Module") -> Iterator[_Use]:
    """Every tensor wherever a module holds it, with every matrix that only its place tells apart as hidden."""
    layer = -1
    parts = dict(model.named_modules())
    for module, part in parts.items():
        fans = (1, 1)
        parent = parts[module.rpartition(".")[0]] if module else part
        held = list(part.named_parameters(recurse=False))
        if type(part).__name__ == "LowRankHead":  # its matrix is that of the embedding it is tied to
            held.insert(0, ("table", part.tied_to.table))
        for own, tensor in held:
            its_roles, why = _job(module, own, part, parent, tensor)
            if tensor.ndim > 1 and Role.NORM not in its_roles:
                layer += 1
                fans = _fans(part, tuple(tensor.shape), its_roles)
            out = tensor.numel() if tensor.ndim < 2 else fans[1]
            yield _Use(module, own, part, tensor, its_roles, why, max(layer, 0), (fans[0], out))


def _fans(part: Any, shape: tuple[int, ...], its_roles: frozenset[Role]) -> tuple[int, int]:
    """(fan-in, fan-out) of a matrix."""
    kind = type(part).__name__
    if its_roles <= TABLES:
        return shape[-1], shape[-1]
    if kind == "Conv1D":  # Hugging Face's holds its matrix the other way round
        return shape[0], shape[1]
    if "ConvTranspose" in kind:
        return shape[0] * prod(shape[2:]) // part.groups, shape[1] * part.groups
    return prod(shape[1:]), shape[0]


def _is_layer(part: Any) -> bool:
    """Whether a module is a layer whose tensors' axes are known."""
    import torch

    nn = torch.nn
    known = (nn.Linear, nn.Bilinear, nn.modules.conv._ConvNd, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
    return isinstance(part, (*known, nn.Embedding, nn.EmbeddingBag)) or bool(
        re.search(r"(Linear|Conv1D|LowRank(Embedding|Head)|Norm(?![a-z])\w*)$", type(part).__name__)
    )


def _job(module: str, own: str, part: Any, parent: Any, tensor: Any) -> tuple[frozenset[Role], str]:
    """(roles, why) of a tensor from its layer and names alone."""
    import torch

    kind = type(part).__name__
    name = f"{module}.{own}"
    if _NORM.search(kind):
        return frozenset({Role.NORM}), f"of {kind}"
    if isinstance(part, torch.nn.Embedding | torch.nn.EmbeddingBag):
        is_place = bool(_POSITION.search(name)) or "Position" in kind
        return frozenset(
            {Role.POSITION if is_place else Role.EMBEDDING}
        ), f"{kind}{', by its name' if is_place else ''}"
    if kind == "LowRankEmbedding":
        return frozenset({Role.EMBEDDING if own == "table" else Role.HIDDEN}), f"the {own} of {kind}"
    if _BIAS.match(own):
        return frozenset({Role.BIAS}), "by its name"
    if kind == "LowRankHead":
        return frozenset({Role.READOUT}), "a head that reads with it"
    if tensor.ndim < 2:
        return UNKNOWN_VECTOR, f"a vector of {kind}: a bias or a gain"
    leaf, around = (module.rpartition(".")[2], parent) if own == "weight" else (own, part)
    if attention := _attention(module.split("."), leaf, around):
        return attention
    if _is_layer(part):
        return frozenset({Role.HIDDEN}), "a matrix between others"
    if _POSITION.search(name):
        return frozenset({Role.POSITION}), "by its name"
    if _TOKEN.match(own):
        return frozenset({Role.EMBEDDING}), "a learned token, by its name"
    return UNKNOWN_MATRIX, f"a tensor of {kind}, which is no layer that is known"


def _attention(path: list[str], leaf: str, around: Any) -> tuple[frozenset[Role], str] | None:
    """The roles of a matrix of an attention layer: by its name, if the parts beside it are those of attention."""
    beside = [name for name, _ in around.named_children()] + [
        name for name, _ in around.named_parameters(recurse=False)
    ]
    has_query, has_key = (any(map(p.match, beside)) for p in (_QUERY, _KEY))
    has_both, is_fused = any(map(_KEY_VALUE.match, beside)), any(map(_FUSED.match, beside))
    attends = (has_query and (has_key or has_both or is_fused)) or is_fused
    if _FUSED.match(leaf):
        if has_query:  # of another sequence: its queries have a matrix of their own
            return frozenset({Role.KEY, Role.VALUE}), "fused, beside a query"
        return frozenset({Role.QUERY, Role.KEY, Role.VALUE}), "queries, keys and values in one"
    for role, pattern in ((Role.QUERY, _QUERY), (Role.KEY, _KEY), (Role.VALUE, _VALUE)):
        if attends and pattern.match(leaf):
            return frozenset({role}), "by its name in attention"
    if attends and _KEY_VALUE.match(leaf):
        return frozenset({Role.KEY, Role.VALUE}), "keys and values in one"
    within = attends or (any(_ATTENTION.search(s) for s in path[:-1]) and not any(_FORWARD.search(s) for s in path))
    if within and any(_PROJECTION.match(step) for step in (leaf, *path[-2:])):
        return frozenset({Role.PROJECTION}), "by its name in attention"
    return None


def _with_ends(model: Any, uses: list[_Use]) -> list[_Use]:
    """The uses with the readouts and the input told apart from the hidden matrices."""
    plain = [i for i, use in enumerate(uses) if use.is_plain and not _in_block(model, uses, use)]
    plain = [i for i in plain if type(uses[i].part).__name__ != "LowRankEmbedding"]  # a map is neither end
    for i, why in _readouts(model, uses, plain).items():
        uses[i] = replace(uses[i], roles=frozenset({Role.READOUT}), why=why)
    patches = [i for i in plain if uses[i].is_plain and "patch" in uses[i].name]
    symbols = any(use.roles == {Role.EMBEDDING} and _is_layer(use.part) for use in uses)
    attends = [i for i, use in enumerate(uses) if use.roles & {Role.QUERY, Role.KEY, Role.VALUE, Role.PROJECTION}]
    first = [i for i in plain if uses[i].is_plain and i < min(attends, default=len(uses))][:1]
    for i in patches or ([] if symbols else first):
        why = "of patches, by its name" if patches else "the first matrix"
        uses[i] = replace(uses[i], roles=frozenset({Role.INPUT}), why=why)
    return uses


def _readouts(model: Any, uses: list[_Use], plain: list[int]) -> dict[int, str]:
    """The numbers of the readouts, with why each is one."""
    ask = getattr(model, "get_output_embeddings", None)
    try:
        head = ask() if callable(ask) else None
    except (NotImplementedError, AttributeError):
        head = None
    if head is not None:
        return {i: "get_output_embeddings()" for i, use in enumerate(uses) if use.part is head and use.is_plain}
    if any(use.roles == {Role.READOUT} for use in uses):
        return {}
    paths = {i: uses[i].module.split(".") for i in plain}
    named = {i: "a head, by its name" for i, path in paths.items() if _HEAD.match(path[-1]) and len(path) < 3}
    last = [i for i in plain[-1:] if not _is_recurrent(uses[i].part)]
    return named or dict.fromkeys(last, "the last matrix")


def _is_recurrent(part: Any) -> bool:
    import torch

    return isinstance(part, torch.nn.RNNBase | torch.nn.RNNCellBase)


def _in_block(model: Any, uses: list[_Use], use: _Use) -> bool:
    """Whether the matrix belongs to a block of a stack: a numbered part of a list, with the like in its siblings."""
    path = use.module.split(".")
    for j, step in enumerate(path[:-1]):
        if not step.isdecimal():
            continue
        before, after = path[:j], path[j + 1 :]
        alike = [
            tuple(other.tensor.shape) == tuple(use.tensor.shape)
            for other in uses
            if other.own == use.own and other.module != use.module and _same_place(other.module, before, after)
        ]
        if any(alike) or (not alike and type(model.get_submodule(".".join(before))).__name__ == "ModuleList"):
            return True
    return False


def _same_place(module: str, before: list[str], after: list[str]) -> bool:
    path = module.split(".")
    j = len(before)
    return len(path) == j + 1 + len(after) and path[:j] == before and path[j + 1 :] == after and path[j].isdecimal()
