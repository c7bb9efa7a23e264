"""The closed set of hooks through which a method changes training. Every hook here is neutral."""

from typing import ClassVar

from headstart.core.roles import Parameter


class Method:
    """One change to how training goes: a frozen dataclass that overrides the hooks it needs.

    Engines never see a method, only what `engines.lower` makes of its hooks. Methods compose in the order written.
    """

    semantics: ClassVar[int] = 1

    def init_scale(self, parameter: Parameter) -> float:
        """The factor on this parameter's initial values."""
        return 1.0

    def rate_scale(self, parameter: Parameter) -> float:
        """The factor on this parameter's learning rate."""
        return 1.0
