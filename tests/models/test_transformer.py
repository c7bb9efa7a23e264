"""Transformers: roles, initial values, FLOPs, and what masks and norms do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from headstart.core.encoding import encode
from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.signature import Signature
from headstart.core.units import flops_per_sample
from headstart.losses import CrossEntropy
from headstart.methods import LayerScale
from headstart.models import MLP, Readout, Signs, Transformer, Vectors
from headstart.models.attend import BACKWARD, FORWARD
from headstart.models.lookup import FORWARD as LOOK_UP
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import ModularArithmetic, Parity

DIM = 10
SIGNS = Signature((DIM,))


def load(model, signature=SIGNS, seed=0):
    module = model.module(signature)
    module.load_state_dict({k: torch.from_numpy(v) for k, v in model.initial_weights(signature, seed).items()})
    return module


def test_every_kind_of_weight_has_its_own_role_in_every_layer():
    roles = [p.role for p in Transformer(16, depth=2, bias=False, qk_norm=True).parameters(SIGNS)]
    block = [Role.QUERY, Role.KEY, Role.VALUE, Role.NORM, Role.NORM, Role.PROJECTION, Role.HIDDEN, Role.HIDDEN]
    assert roles == [Role.EMBEDDING, Role.POSITION, *block, *block, Role.READOUT]


def test_options_do_not_change_what_the_other_weights_begin_with():
    plain = Transformer(16).initial_weights(SIGNS, 0)
    for other in (Transformer(16, pre_norm=True, qk_norm=True), Transformer(16, causal=True), Transformer(16, depth=3)):
        weights = other.initial_weights(SIGNS, 0)
        assert all(np.array_equal(value, weights[name]) for name, value in plain.items())


def test_linear_weights_begin_as_those_of_torch_and_embeddings_of_symbols_with_the_stated_scale():
    weights = Transformer(64).initial_weights(SIGNS, 0)
    assert np.abs(weights["blocks.0.query.weight"]).max() <= 1 / 8
    np.testing.assert_allclose(weights["blocks.0.query.weight"].std(), 3**-0.5 / 8, rtol=0.05)
    np.testing.assert_allclose(weights["position.weight"].std(), 0.1, rtol=0.1)
    unit = Transformer(64, embedding_std=1).initial_weights(SIGNS, 0)
    np.testing.assert_allclose(weights["embedding.weight"], unit["embedding.weight"] * np.float32(0.1))
    assert np.abs(Transformer(64, tokens=Vectors(1)).initial_weights(SIGNS, 0)["embedding.weight"]).max() <= 1


def test_a_table_of_low_rank_begins_with_its_scale_its_map_as_a_linear_layer_and_the_rest_as_without_it():
    signature = Signature((2,), symbols=59, outputs=(59,))
    plain, low = (Transformer(64, embedding_rank=rank).initial_weights(signature, 0) for rank in (None, 16))
    assert (low["embedding.weight"].shape, low["embedding.map"].shape) == ((59, 16), (64, 16))
    np.testing.assert_allclose(low["embedding.weight"].std(), 0.1, rtol=0.1)
    assert np.abs(low["embedding.map"]).max() <= 1 / 4
    np.testing.assert_allclose(low["embedding.map"].std(), 3**-0.5 / 4, rtol=0.1)
    assert all(np.array_equal(low[name], plain[name]) for name in plain if name != "embedding.weight")
    roles = [(p.name, p.role, p.layer) for p in Transformer(64, embedding_rank=16).parameters(signature)][:2]
    assert roles == [("embedding.weight", Role.EMBEDDING, 0), ("embedding.map", Role.HIDDEN, 0)]


def test_a_stored_transformer_keeps_its_name_though_it_has_gained_fields():
    later = {"embedding_rank", "norm", "post_norm", "positions", "tied", "weight_std"}
    assert not later & set(encode(Transformer()))
    assert encode(Transformer(embedding_rank=4))["embedding_rank"] == 4


@pytest.mark.parametrize("where", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("causal", [True, False])
def test_blocks_are_those_of_torch_whatever_their_weights_and_norms_are(where, causal):
    signature = Signature((6,), symbols=5, outputs=(6, 5))
    model = Transformer(
        16, depth=3, heads=2, causal=causal, readout="tokens", activation="gelu", norm="layer", **{where: True}
    )
    module, generator = load(model, signature), torch.Generator().manual_seed(0)
    torch_layer = torch.nn.TransformerEncoderLayer(
        16, 2, 64, 0.0, "gelu", layer_norm_eps=1e-6, batch_first=True, norm_first=where == "pre_norm"
    ).eval()
    h = torch.randn(4, 6, 16, generator=generator)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        for block in module.blocks:
            ours = (block.query, block.key, block.value)
            attention = torch_layer.self_attn
            attention.in_proj_weight.copy_(torch.cat([part.weight for part in ours]))
            attention.in_proj_bias.copy_(torch.cat([part.bias for part in ours]))
            pairs = ((attention.out_proj, block.projection), (torch_layer.linear1, block.up))
            for theirs, own in (*pairs, (torch_layer.linear2, block.down)):
                theirs.load_state_dict(own.state_dict())
            for theirs, own in ((torch_layer.norm1, block.attention_norm), (torch_layer.norm2, block.mlp_norm)):
                theirs.load_state_dict({"weight": own.scale, "bias": own.shift})
            mask = torch.nn.Transformer.generate_square_subsequent_mask(6) if causal else None
            expected = torch_layer(h, mask, is_causal=causal)
            h = block(h.reshape(-1, 16), 6, False).reshape(h.shape)
            torch.testing.assert_close(h, expected, rtol=1e-4, atol=1e-5)


def test_norms_on_both_sides_and_a_tied_readout_without_its_symbols_are_refused():
    with pytest.raises(HeadstartError, match="norms are before or after; choose one"):
        Transformer(pre_norm=True, post_norm=True)
    with pytest.raises(HeadstartError, match=r"Transformer\(tied=True\): the table has 5 symbols .* use tied=False"):
        Transformer(tied=True).parameters(Signature((2,), symbols=5, outputs=(3,)))
    with pytest.raises(HeadstartError, match=r"Transformer\(norm='batch'\): choose one of rms, layer"):
        Transformer(norm="batch")


def test_fixed_positions_are_waves_of_the_scale_of_learned_ones_and_stay():
    model, signature = Transformer(16, positions="sinusoidal", embedding_std=0.2), Signature((40,))
    (position,) = (p for p in model.parameters(signature) if p.role is Role.POSITION)
    assert position.fixed
    table = model.initial_weights(signature, 0)["position.weight"]
    np.testing.assert_allclose(np.square(table).mean(axis=1), 0.2**2, rtol=1e-5)
    np.testing.assert_allclose(table[:, 0], 0.2 * 2**0.5 * np.sin(np.arange(40)), atol=1e-6)
    assert not any(p.fixed for p in Transformer(16).parameters(signature))


def test_a_decoder_does_not_see_later_tokens_and_an_encoder_does():
    x = torch.ones(1, DIM)
    changed = x.clone()
    changed[0, 6] = -1
    for causal in (True, False):
        module = load(Transformer(16, causal=causal))
        seen = []
        module.blocks[0].register_forward_hook(lambda m, i, out, seen=seen: seen.append(out.detach()))
        module(x), module(changed)
        same = torch.isclose(seen[0], seen[1], atol=1e-7).all(dim=1)
        assert same[:6].all() == causal
        assert not same[6:].any()


def test_normalised_queries_and_keys_do_not_depend_on_the_scale_of_their_weights():
    x = torch.from_numpy(Parity(DIM, 6).sample(0, np.arange(20)).x)
    for qk_norm in (True, False):
        model = Transformer(16, bias=False, qk_norm=qk_norm)
        module, scaled = load(model), load(model)
        with torch.no_grad():
            for block in scaled.blocks:
                block.query.weight *= 8
                block.key.weight *= 8
        # Up to the small number in the norm's root.
        assert torch.allclose(module(x), scaled(x), atol=1e-3) == qk_norm


def test_flops_count_every_use_of_a_weight_and_the_products_of_attention():
    model = Transformer(16, depth=1, heads=2, mlp_width=24, bias=False)
    tokens, width = DIM, 16
    linear = tokens * (4 * width * width + 2 * width * 24)
    attention = 2 * tokens * tokens * width
    assert flops_per_sample(model.parameters(SIGNS)) == 6 * (linear + attention + width) + 4 * tokens * width


def test_flops_agree_with_the_counter_of_torch_up_to_the_lookups():
    from torch.utils.flop_counter import FlopCounterMode

    model = Transformer(32, depth=2, causal=True, bias=False, readout=Readout.TOKENS)
    digits = Signature((DIM,), symbols=10, outputs=(DIM, 7))
    module = load(model, digits)

    def products(number):  # of [T, width] with [T, width], in all heads together
        return lambda q, k, *_, **__: number * 2 * q[0] * q[1] * k[1] * q[2]

    mapping = {FORWARD.overloadpacket: products(2), BACKWARD.overloadpacket: products(4)}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        module(torch.zeros(4, DIM, dtype=torch.int64)).sum().backward()
    ours = 4 * flops_per_sample(model.parameters(digits))
    # Torch does not count lookups.
    assert counter.get_total_flops() == pytest.approx(ours, rel=0.02)


@pytest.mark.parametrize("tokens", [Signs(), Vectors(2)])
@pytest.mark.parametrize("qk_norm", [True, False])
def test_maps_in_a_cheaper_order_are_the_same_network_with_the_same_gradients(tokens, qk_norm):
    """The first block by the factors of its stream, and the mean before the last map, against token by token."""
    model = Transformer(16, heads=2, tokens=tokens, qk_norm=qk_norm)
    module, x = load(model).double(), torch.randn(7, DIM, generator=torch.Generator().manual_seed(0)).double()

    def directly(x):
        features = tokens.features(x)
        h = (features @ module.embedding.weight.T).reshape(7, -1, 16) + module.position.weight
        for block in module.blocks:
            h = block(h.reshape(-1, 16), module.length, "tokens").reshape(h.shape)
        return module.readout(h.mean(dim=1), module.embedding).squeeze(-1)

    gradients = [torch.autograd.grad(f(x).square().sum(), list(module.parameters())) for f in (module, directly)]
    assert torch.allclose(module(x), directly(x), atol=1e-12)
    for ours, direct in zip(*gradients, strict=True):
        assert torch.allclose(ours, direct, atol=1e-12)


def test_the_last_token_alone_attends_in_the_last_layer_and_nothing_else_changes():
    x = torch.from_numpy(Parity(DIM, 6).sample(0, np.arange(5)).x)
    model = Transformer(16, causal=True, readout=Readout.LAST)
    module, outs = load(model), []
    module.blocks[-1].register_forward_hook(lambda m, i, out: outs.append(out))
    module(x)
    whole = load(model).blocks[-1]
    h = []
    module.blocks[0].register_forward_hook(lambda m, i, out: h.append(out))
    module(x)
    expected = whole(h[0], DIM, "tokens").reshape(5, DIM, 16)[:, -1]
    assert torch.allclose(outs[0], expected, atol=1e-6)


def test_a_model_that_does_not_fit_the_signature_of_its_task_is_refused():
    task = ModularArithmetic(50, 7)
    with pytest.raises(HeadstartError, match=r"10 symbols; look them up by MLP\(embedding=Embedding"):
        Run(task, MLP(8), Online(), CrossEntropy(), SGD(0.1))
    with pytest.raises(HeadstartError, match=r"readout='tokens'.*shape \(7,\), not one row .* each of 4 tokens"):
        Run(task, Transformer(8, readout="tokens"), Online(), CrossEntropy(), SGD(0.1))
    with pytest.raises(HeadstartError, match=r"readout='mean'.*shape \(4, 7\), one row .* use readout='tokens'"):
        Transformer(8).parameters(Signature((4,), symbols=10, outputs=(4, 7)))


def test_the_outputs_and_the_symbols_are_those_of_the_task():
    shapes = {p.name: p.shape for p in Transformer(8).parameters(ModularArithmetic(50, 7).signature)}
    assert (shapes["embedding.weight"], shapes["position.weight"]) == ((10, 8), (4, 8))
    assert (shapes["readout.weight"], shapes["readout.bias"]) == ((7, 8), (7,))


def test_every_token_read_by_itself_sees_what_one_last_token_would():
    digits = Signature((5,), symbols=6, outputs=(5, 3))
    every, last = (Transformer(8, heads=2, causal=True, readout=readout) for readout in ("tokens", "last"))
    x = torch.arange(10).reshape(2, 5) % 6
    assert flops_per_sample(every.parameters(digits)) > flops_per_sample(last.parameters(replace(digits, outputs=(3,))))
    module = load(every, digits)
    for length in (1, 3, 5):
        short = load(last, Signature((5,), symbols=6, outputs=(3,)))
        short.length = length
        with torch.no_grad():
            short.position.weight = torch.nn.Parameter(short.position.weight[:length].clone())
            assert torch.allclose(short(x[:, :length]), module(x)[:, length - 1], atol=1e-6)


def test_query_key_scales_touch_query_and_key_weights_only():
    method, optimizer = LayerScale.query_key(rate=3, init=8), SGD(0.1)
    for parameter in Transformer(16).parameters(SIGNS):
        scaled = parameter.role in (Role.QUERY, Role.KEY)
        assert method.init_scale(parameter) == (8 if scaled else 1)
        assert method.rate_scale(parameter, optimizer) == (3 if scaled else 1)


def test_query_key_scales_multiply_the_logits_by_their_square():
    model, scale = replace(Transformer(16, bias=False)), 4.0
    x = torch.from_numpy(Parity(DIM, 6).sample(0, np.arange(3)).x)
    logits = []
    for factor in (1.0, scale):
        module = load(model)
        with torch.no_grad():
            for part in (module.blocks[1].query, module.blocks[1].key):
                part.weight *= factor
        q, k = [], []
        module.blocks[1].query.register_forward_hook(lambda m, i, out, q=q: q.append(out))
        module.blocks[1].key.register_forward_hook(lambda m, i, out, k=k: k.append(out))
        module(x)
        logits.append(q[0] @ k[0].T)
    assert torch.allclose(logits[1], scale**2 * logits[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [0, -1, float("inf"), "2"])
def test_a_query_key_factor_is_a_number_above_zero(factor):
    with pytest.raises(HeadstartError, match=r"LayerScale\(rate="):
        LayerScale.query_key(rate=factor)


@pytest.mark.parametrize("options", [{}, {"pre_norm": True, "qk_norm": True, "bias": True}, {"embedding_rank": 3}])
def test_two_symbols_are_read_by_symbol_where_samples_are_more_and_it_is_the_same_network(options):
    model = Transformer(8, 3, heads=2, causal=True, readout="last", **({"bias": False} | options))
    module = load(model, Signature((2,), symbols=5, outputs=(5,))).double()
    x = torch.cartesian_prod(torch.arange(5), torch.arange(5))
    cotangent = torch.sin(torch.arange(125.0, dtype=torch.float64)).view(25, 5)

    def gradients(out):
        return torch.autograd.grad((out * cotangent).sum(), list(module.parameters()))

    together = module(x)
    by_sample = torch.cat([module(part) for part in x.split(5)])
    assert torch.allclose(together, by_sample, rtol=1e-12, atol=1e-14)
    for mine, theirs in zip(gradients(together), gradients(by_sample), strict=True):
        assert torch.allclose(mine, theirs, rtol=1e-10, atol=1e-13)


def test_only_where_there_are_more_samples_than_symbols_is_anything_looked_up_by_symbol():
    module = load(Transformer(8, causal=True, readout="last"), Signature((2,), symbols=5, outputs=(5,)))
    for num, calls in ((5, False), (6, True)):
        graph = make_fx(module)(torch.zeros(num, 2, dtype=torch.int64)).graph
        assert any(node.target is LOOK_UP for node in graph.nodes) == calls
