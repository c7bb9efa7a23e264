"""Looking symbols up in tables as one operation: the rows they name, added up; its derivatives, alone and stacked."""

import pytest
import torch
from torch.func import grad, jvp, vmap

from headstart.models.lookup import looked_up


def draw(members, places=2, symbols=5, width=3, num=7):
    make = torch.Generator().manual_seed(0)
    tables = torch.randn(members, places, symbols, width, generator=make, dtype=torch.float64)
    return tables, torch.randint(symbols, (members, num, places), generator=make)


def written_out(tables, x):
    return torch.stack([sum(tables[j, s] for j, s in enumerate(row)) for row in x])


@pytest.mark.parametrize("places", [1, 2, 3])
def test_it_adds_the_rows_that_the_symbols_name(places):
    (tables,), (x,) = draw(1, places)
    assert torch.allclose(looked_up(tables, x), written_out(tables, x))


def test_its_derivatives_are_those_of_finite_differences():
    (tables,), (x,) = draw(1)
    tables.requires_grad_()
    assert torch.autograd.gradcheck(lambda t: looked_up(t, x), tables)
    assert torch.autograd.gradgradcheck(lambda t: looked_up(t, x) ** 2, tables)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what torch imports for it
def test_forward_mode_is_the_look_up_of_the_change():
    (tables,), (x,) = draw(1)
    _, change = jvp(lambda t: looked_up(t, x), (tables,), (2 * tables,))
    assert torch.allclose(change, written_out(2 * tables, x))


def test_stacked_members_have_the_gradients_that_each_has_alone():
    tables, x = draw(3)

    def loss(tables, x):
        return looked_up(tables, x).square().sum()

    together = vmap(grad(loss))(tables, x)
    for member in range(3):
        assert torch.allclose(together[member], grad(loss)(tables[member], x[member]))


def test_members_may_share_their_symbols():
    tables, x = draw(3)
    out = vmap(looked_up, in_dims=(0, None))(tables, x[0])
    assert torch.allclose(out[2], written_out(tables[2], x[0]))
