"""Products of stacked matrices by our own kernel."""

import pytest
import torch

from headstart.engines.ensemble.product import bmm


def _pair(members, rows, depth, columns, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(members, rows, depth, generator=generator), torch.randn(
        members, depth, columns, generator=generator
    )


@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(1, 1, 1), (6, 8, 64), (7, 5, 59), (13, 600, 17), (5, 1025, 130), (100, 9, 33)]
)
def test_the_kernel_agrees_with_torch_for_any_shape_and_layout(rows, depth, columns):
    a, b = _pair(3, rows, depth, columns)
    exact = (a.double() @ b.double()).float()
    for left in (a, a.transpose(1, 2).contiguous().transpose(1, 2)):
        for right in (b, b.transpose(1, 2).contiguous().transpose(1, 2)):
            torch.testing.assert_close(bmm(left, right), exact, rtol=1e-4, atol=1e-4 * depth**0.5)


def test_a_part_of_a_larger_tensor_is_multiplied_where_it_lies():
    a, b = _pair(4, 20, 30, 40)
    torch.testing.assert_close(bmm(a[1:3, 2:9, 3:20], b[1:3, 3:20, 5:39]), a[1:3, 2:9, 3:20] @ b[1:3, 3:20, 5:39])


def test_one_matrix_for_all_members_is_read_without_copies():
    a, b = _pair(3, 8, 16, 20)
    torch.testing.assert_close(bmm(a, b[:1].expand(3, -1, -1)), a @ b[0])


def test_a_member_has_the_same_product_alone_and_in_company_bit_for_bit():
    a, b = _pair(5, 50, 300, 59)
    together = bmm(a, b)
    assert all(torch.equal(together[i], bmm(a[i : i + 1], b[i : i + 1])[0]) for i in range(5))


def test_what_is_not_finite_stays_with_its_member_and_its_row():
    a, b = _pair(2, 14, 10, 20)
    a[0, 3, 4], b[1, 0, 0] = float("nan"), float("inf")
    out = bmm(a, b)
    assert out[0, 3].isnan().all()
    assert torch.cat((out[0, :3], out[0, 4:])).isfinite().all()
    assert out[1, :, 1:].isfinite().all()
    assert not out[1, :, 0].isfinite().any()


def test_the_product_is_written_where_it_is_told():
    a, b = _pair(2, 9, 11, 16)
    out = torch.full((2, 9, 16), float("nan"))
    assert bmm(a, b, out=out) is out
    torch.testing.assert_close(out, a @ b)
