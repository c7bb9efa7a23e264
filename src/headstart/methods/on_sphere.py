"""Weights that stay on a sphere, or in a ball: a projection after every step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headstart.core.errors import HeadstartError, check_positive
from headstart.core.roles import Parameter, Role, checked_roles
from headstart.methods.method import Hook, Method, Tensors

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class OnSphere(Method):
    """Each row of the weights with these `roles`, one neuron's, keeps the norm `radius`: w <- radius w / |w|.

    The start is projected too. With `tangent` the gradient loses its part along w before the step, which then is
    spherical gradient descent: g <- g - (g . w) w / |w|^2. Biases and other vectors are left alone.
    Reference: Online Learning and Information Exponents, projected and spherical SGD.
    """

    roles: tuple[Role, ...] = (Role.INPUT,)
    radius: float = 1.0
    tangent: bool = False

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check(self)

    @property
    def hooks(self) -> frozenset[Hook]:
        """A projection, and with `tangent` a transform of gradients."""
        return frozenset({Hook.PROJECTION} | ({Hook.GRADIENTS} if self.tangent else set()))

    def transform(
        self,
        gradients: Tensors,
        memory: Tensors,
        weights: Tensors,
        parameters: Mapping[str, Parameter],
        step: int,
    ) -> tuple[Tensors, Tensors]:
        """The gradients along the sphere."""
        if not self.tangent:
            return gradients, memory
        along = dict(gradients)
        for name in _chosen(self.roles, gradients, parameters):
            w, g = weights[name], gradients[name]
            along[name] = g - (g * w).sum(-1, keepdim=True) / w.square().sum(-1, keepdim=True) * w
        return along, memory

    def check_parameters(self, parameters: Sequence[Parameter]) -> None:
        """The model must have weights with these roles."""
        _check_there(self, parameters)

    def project(self, weights: Tensors, parameters: Mapping[str, Parameter]) -> Tensors:
        """Rows of norm `radius`."""
        return {
            name: weights[name] * (self.radius / _norms(weights[name]))
            for name in _chosen(self.roles, weights, parameters)
        }


@dataclass(frozen=True)
class InBall(Method):
    """Each row of the weights with these `roles` has a norm of at most `radius`: w <- w min(1, radius / |w|)."""

    roles: tuple[Role, ...] = (Role.INPUT,)
    radius: float = 1.0

    semantics: ClassVar[int] = 1

    def __post_init__(self) -> None:
        _check(self)

    def check_parameters(self, parameters: Sequence[Parameter]) -> None:
        """The model must have weights with these roles."""
        _check_there(self, parameters)

    def project(self, weights: Tensors, parameters: Mapping[str, Parameter]) -> Tensors:
        """Rows of at most this norm; shorter ones stay as they are, bit for bit."""
        return {
            name: weights[name] * (self.radius / _norms(weights[name])).clamp(max=1.0)
            for name in _chosen(self.roles, weights, parameters)
        }


def _check(method: OnSphere | InBall) -> None:
    name = type(method).__name__
    object.__setattr__(method, "roles", checked_roles(name, method.roles))
    check_positive(name, "radius", method.radius)


def _check_there(method: OnSphere | InBall, parameters: Sequence[Parameter]) -> None:
    """Raise where the model has no matrix with these roles, so that nothing would be projected."""
    if not _chosen(method.roles, [p.name for p in parameters], {p.name: p for p in parameters}):
        own = ", ".join(dict.fromkeys(p.role for p in parameters if len(p.shape) > 1))
        raise HeadstartError(
            f"{type(method).__name__}(roles={tuple(map(str, method.roles))}): the model has no weights with these "
            f"roles; its own are {own}"
        )


def _chosen(roles: tuple[Role, ...], names: Iterable[str], parameters: Mapping[str, Parameter]) -> list[str]:
    """The matrices with these roles."""
    return [name for name in names if parameters[name].role in roles and len(parameters[name].shape) > 1]


def _norms(weights: "torch.Tensor") -> "torch.Tensor":
    """The norm of each row, which is not 0."""
    return weights.square().sum(-1, keepdim=True).sqrt().clamp(min=1e-30)
