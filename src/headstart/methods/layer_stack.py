"""The stack of equal layers of a model, found by roles and shapes, and which of its parameters write to the stream."""

from collections.abc import Sequence
from itertools import groupby

from headstart.core.errors import HeadstartError
from headstart.core.roles import Parameter, Role

Layers = list[tuple[Parameter, ...]]  # one entry per layer, in the order of the forward pass


def by_layer(parameters: Sequence[Parameter]) -> Layers:
    """The parameters of each layer, from the input on."""
    ordered = sorted(parameters, key=lambda p: p.layer)  # stable: within a layer the order stays
    return [tuple(group) for _, group in groupby(ordered, key=lambda p: p.layer)]


def structure(layer: Sequence[Parameter]) -> tuple[tuple[Role, tuple[int, ...]], ...]:
    """What two layers must share for one to be put in the other's place: roles and shapes, in order."""
    return tuple((p.role, p.shape) for p in layer)


def find_stack(owner: str, source: Sequence[Parameter], target: Sequence[Parameter]) -> tuple[slice, slice]:
    """Where the stack is among the layers of both models: the longest run of equal layers of the target.

    All other layers must be the same in both. The target says what a layer of the stack is, since a source may have
    one alone.
    """
    ours, theirs = by_layer(source), by_layer(target)
    long = _longest_run([structure(layer) for layer in theirs])
    length = (long.stop - long.start) - (len(theirs) - len(ours))
    short = slice(long.start, long.start + length)
    expected = theirs[: long.start] + theirs[long.start : long.start + 1] * length + theirs[long.stop :]
    if length < 1 or [structure(layer) for layer in ours] != [structure(layer) for layer in expected]:
        raise HeadstartError(
            f"{owner}: the source has {len(ours)} layers and the target {len(theirs)}, and they differ in more than "
            "the number of equal layers in a row; give both the same model but for its depth, such as "
            "Transformer(depth=12) and Transformer(depth=16)"
        )
    return short, long


def _longest_run(kinds: Sequence[object]) -> slice:
    """The longest run of equal neighbours; the first of those as long."""
    runs, first = [], 0
    for _, group in groupby(kinds):
        last = first + len(list(group))
        runs.append(slice(first, last))
        first = last
    return max(runs, key=lambda run: run.stop - run.start)


def output_parameters(owner: str, layer: Sequence[Parameter]) -> frozenset[str]:
    """The names of those that write to the residual stream: the attention's projection and the MLP's last map.

    With their biases, which follow their weights.
    """
    hidden = [i for i, p in enumerate(layer) if p.role is Role.HIDDEN]
    writing = [i for i, p in enumerate(layer) if p.role is Role.PROJECTION]
    if not writing or not hidden:
        raise HeadstartError(
            f"{owner}: the layers of this model have no residual stream that a projection and an MLP write to, their "
            f"roles are {', '.join(dict.fromkeys(str(p.role) for p in layer))}; use new='duplicate' or 'random'"
        )
    writing.append(hidden[-1])
    biases = [i + 1 for i in writing if i + 1 < len(layer) and layer[i + 1].role is Role.BIAS]
    return frozenset(layer[i].name for i in (*writing, *biases))
