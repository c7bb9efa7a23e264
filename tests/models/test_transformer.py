"""Transformers: roles, initial values, FLOPs, and what masks and norms do."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headstart.core.errors import HeadstartError
from headstart.core.roles import Role
from headstart.core.units import flops_per_sample
from headstart.losses import CrossEntropy, Logistic
from headstart.methods import QueryKey
from headstart.models import MLP, Readout, Symbols, Transformer, Vectors
from headstart.models.attend import BACKWARD, FORWARD
from headstart.optimizers import SGD
from headstart.plans import Online
from headstart.run import Run
from headstart.tasks import ModularAddition, Parity

DIM = 10


def load(model, dim=DIM, seed=0):
    module = model.module(dim)
    module.load_state_dict({k: torch.from_numpy(v) for k, v in model.initial_weights(dim, seed).items()})
    return module


def test_every_kind_of_weight_has_its_own_role_in_every_layer():
    roles = [p.role for p in Transformer(16, depth=2, bias=False, qk_norm=True).parameters(DIM)]
    block = [Role.QUERY, Role.KEY, Role.VALUE, Role.NORM, Role.NORM, Role.PROJECTION, Role.HIDDEN, Role.HIDDEN]
    assert roles == [Role.EMBEDDING, Role.POSITION, *block, *block, Role.READOUT]


def test_options_do_not_change_what_the_other_weights_begin_with():
    plain = Transformer(16).initial_weights(DIM, 0)
    for other in (Transformer(16, pre_norm=True, qk_norm=True), Transformer(16, causal=True), Transformer(16, depth=3)):
        weights = other.initial_weights(DIM, 0)
        assert all(np.array_equal(value, weights[name]) for name, value in plain.items())


def test_linear_weights_begin_as_those_of_torch_and_embeddings_of_symbols_with_the_stated_scale():
    weights = Transformer(64).initial_weights(DIM, 0)
    assert np.abs(weights["blocks.0.query.weight"]).max() <= 1 / 8
    np.testing.assert_allclose(weights["blocks.0.query.weight"].std(), 3**-0.5 / 8, rtol=0.05)
    np.testing.assert_allclose(weights["position.weight"].std(), 0.1, rtol=0.1)
    unit = Transformer(64, embedding_std=1).initial_weights(DIM, 0)
    np.testing.assert_allclose(weights["embedding.weight"], unit["embedding.weight"] * np.float32(0.1))
    assert np.abs(Transformer(64, tokens=Vectors(1)).initial_weights(DIM, 0)["embedding.weight"]).max() <= 1


def test_a_decoder_does_not_see_later_tokens_and_an_encoder_does():
    x = torch.ones(1, DIM)
    changed = x.clone()
    changed[0, 6] = -1
    for causal in (True, False):
        module = load(Transformer(16, causal=causal))
        seen = []
        module.blocks[-1].register_forward_hook(lambda m, i, out, seen=seen: seen.append(out.detach()))
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
    assert flops_per_sample(model.parameters(DIM)) == 6 * (linear + attention + width) + 4 * tokens * width


def test_flops_agree_with_the_counter_of_torch_up_to_the_lookups():
    from torch.utils.flop_counter import FlopCounterMode

    model = Transformer(32, depth=2, tokens=Symbols(10), num_outputs=7, causal=True, bias=False)
    module = load(model)

    def products(number):  # of [T, width] with [T, width], in all heads together
        return lambda q, k, *_, **__: number * 2 * q[0] * q[1] * k[1] * q[2]

    mapping = {FORWARD.overloadpacket: products(2), BACKWARD.overloadpacket: products(4)}
    with FlopCounterMode(display=False, custom_mapping=mapping) as counter:
        module(torch.zeros(4, DIM)).sum().backward()
    ours = 4 * flops_per_sample(model.parameters(DIM))
    # Torch counts one-hot products where we count lookups.
    assert counter.get_total_flops() == pytest.approx(ours, rel=0.02)


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
    expected = whole(h[0], DIM, False).reshape(5, DIM, 16)[:, -1]
    assert torch.allclose(outs[0], expected, atol=1e-6)


def test_a_model_with_the_wrong_number_of_outputs_is_refused():
    task = ModularAddition(50, 7)
    for model in (MLP(8), Transformer(8, tokens=Symbols(10))):
        with pytest.raises(HeadstartError, match=r"1 outputs and ModularAddition asks for 7.*num_outputs=7"):
            Run(task, model, Online(), CrossEntropy(), SGD(0.1))
    with pytest.raises(HeadstartError, match="3 outputs and Parity asks for 1"):
        Run(Parity(8, 2), Transformer(8, num_outputs=3), Online(), Logistic(), SGD(0.1))


def test_query_key_scales_touch_query_and_key_weights_only():
    method, optimizer = QueryKey(rate=3, init=8), SGD(0.1)
    for parameter in Transformer(16).parameters(DIM):
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
            for part in (module.blocks[0].query, module.blocks[0].key):
                part.weight *= factor
        q, k = [], []
        module.blocks[0].query.register_forward_hook(lambda m, i, out, q=q: q.append(out))
        module.blocks[0].key.register_forward_hook(lambda m, i, out, k=k: k.append(out))
        module(x)
        logits.append(q[0] @ k[0].T)
    assert torch.allclose(logits[1], scale**2 * logits[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("factor", [0, -1, float("inf"), "2"])
def test_a_query_key_factor_is_a_number_above_zero(factor):
    with pytest.raises(HeadstartError, match="QueryKey"):
        QueryKey(rate=factor)
