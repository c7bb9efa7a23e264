"""What each parameter of any torch module does, as far as its layers and names tell, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from html import escape

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role

_MATRICES = frozenset({Role.INPUT, Role.HIDDEN, Role.READOUT, Role.QUERY, Role.KEY, Role.VALUE, Role.PROJECTION})
TABLES = frozenset({Role.EMBEDDING, Role.POSITION})
UNKNOWN_MATRIX, UNKNOWN_VECTOR = _MATRICES | TABLES, frozenset({Role.BIAS, Role.NORM})


@dataclass(frozen=True)
class Found:
    """One tensor of a module: what it does, and why that is thought.

    Several `roles` are of one tensor with several jobs (a tied head, fused attention) or, if it is not `known`, of one
    whose job may be any of them. `layers` are the places of its matrix, 0 being next to the input; a tied tensor has
    several. `readers` are the names of the modules that read the output with it; `bare` tensors belong to no layer that
    says which axis is the input.
    """

    name: str
    shape: tuple[int, ...]
    roles: frozenset[Role]
    layers: tuple[int, ...]
    fan_in: int
    fan_out: int
    why: str
    known: bool = True
    readers: tuple[str, ...] = ()
    bare: bool = False

    @property
    def role(self) -> str:
        """The roles as one word: "hidden", "embedding + readout"; "?" if they are not known."""
        in_order = [Role.EMBEDDING, *(role for role in Role if role is not Role.EMBEDDING)]
        return " + ".join(role for role in in_order if role in self.roles) if self.known else "?"

    def is_only(self, roles: frozenset[Role] | set[Role]) -> bool:
        """Whether all that the tensor does, or may do, is among these roles; raises where only a part of it is."""
        if not self.roles & roles:
            return False
        if self.roles <= roles:
            return True
        wanted = " or ".join(sorted(roles & self.roles))
        if not self.known:
            raise HeadstartError(
                f"{self.name}: whether it is {wanted} is not known ({self.why}); say what it is with "
                f"roles={{{self.name!r}: '{min(roles & self.roles)}'}}, or give it a rule by its name"
            )
        raise HeadstartError(
            f"{self.name} is {self.role} in one tensor ({self.why}), which has one rate and one scale, so there is no "
            f"{wanted} alone; give a rule for its name, {self.name!r}, or use a model with separate tensors"
        )


@dataclass(frozen=True)
class Roles:
    """The parameters of a module in the order of `named_parameters`, printed as a table: name, shape, role, why."""

    parameters: tuple[Found, ...]
    _by_name: dict[str, Found] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._by_name.update({found.name: found for found in self.parameters})

    def __iter__(self) -> Iterator[Found]:
        return iter(self.parameters)

    def __len__(self) -> int:
        return len(self.parameters)

    def __getitem__(self, name: str) -> Found:
        """What was found of the parameter with this name."""
        if name not in self._by_name:
            raise HeadstartError(f"roles[{name!r}]: the parameters are {', '.join(list(self._by_name)[:3])}, ..")
        return self._by_name[name]

    def _rows(self) -> list[tuple[str, str, str, str]]:
        head = [("name", "shape", "role", "why")]
        return head + [(f.name, " x ".join(map(str, f.shape)) or "1", f.role, f.why) for f in self.parameters]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "\n".join(
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]) for row in rows
        )

    def _repr_html_(self) -> str:
        head, *body = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self._rows()]
        return f"<table><tr>{head.replace('td>', 'th>')}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def given_roles(found: Roles, given: Mapping[str, Role | str]) -> Roles:
    """The same with the roles that a user gives to names by pattern; every pattern must match a parameter."""
    if not isinstance(given, Mapping):
        raise HeadstartError(f"roles={given!r}: give a mapping of names, or patterns of names, to roles")
    parameters = list(found)
    for pattern, role in given.items():
        if role not in list(Role):
            raise HeadstartError(f"roles={{{pattern!r}: {role!r}}}: roles are {', '.join(Role)}")
        matched = [i for i, one in enumerate(parameters) if isinstance(pattern, str) and fnmatchcase(one.name, pattern)]
        if not matched:
            names = ", ".join(one.name for one in parameters[:3])
            raise HeadstartError(f"roles={{{pattern!r}: ...}}: no parameter matches; names look like {names}")
        for i in matched:
            one = parameters[i]
            parameters[i] = Found(
                one.name,
                one.shape,
                frozenset({Role(role)}),
                one.layers,
                one.fan_in,
                one.fan_out,
                "given",
                bare=one.bare,
            )
    return Roles(tuple(parameters))
