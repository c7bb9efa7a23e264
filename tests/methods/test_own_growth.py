"""Models of a user's own, grown with their optimizer: Hugging Face architectures from tiny configs, and plain torch."""

import copy

import pytest
import torch

import headstart as hs

transformers = pytest.importorskip("transformers", reason="the extra huggingface brings it")

SIZES = {"vocab_size": 24, "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 3, "bos_token_id": 0}
KINDS = ["bert", "gpt2", "llama"]


def made(kind, **changes):
    """A model with random weights, on a tiny config."""
    torch.manual_seed(0)
    sizes = {**SIZES, "eos_token_id": 1, "pad_token_id": 2, "max_position_embeddings": 16, **changes}
    if kind == "bert":
        return transformers.BertForMaskedLM(transformers.BertConfig(intermediate_size=16, **sizes))
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(intermediate_size=16, num_key_value_heads=2, **sizes))


STACKS = {"bert": "bert.encoder.layer", "gpt2": "transformer.h", "llama": "model.layers"}
BATCH = {"input_ids": torch.arange(20).reshape(2, 10), "labels": torch.arange(20).flip(0).reshape(2, 10)}


def trained(model, steps=3, optimizer=None):
    """The model after a few steps, without dropout, and its optimizer, which has two groups."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = optimizer or torch.optim.AdamW(groups, lr=1e-3)
    model.eval()
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    model(**BATCH).loss.backward()
    optimizer.step()


def layer(model, kind, number):
    return dict(model.get_submodule(STACKS[kind])[number].named_parameters())


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", KINDS)
def test_layers_configs_and_places_in_the_cache_follow_and_the_model_is_saved_and_read(kind, tmp_path):
    model, optimizer = trained(made(kind))
    before = copy.deepcopy(model.state_dict())
    grown = hs.grow(model, optimizer, hs.Grow(1, 2, layers=2), batch=BATCH)
    assert grown.stack == STACKS[kind]
    for number, source in enumerate([0, 1, 2, 1, 2]):
        assert same(layer(grown.model, kind, number), layer(model, kind, source))
        parts = grown.model.get_submodule(grown.stack)[number].modules()
        assert {part.layer_idx for part in parts if hasattr(part, "layer_idx")} <= {number}
    assert grown.model.config.num_hidden_layers == 5
    assert model.config.num_hidden_layers == 3
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    grown.model.save_pretrained(tmp_path)
    read = type(model).from_pretrained(tmp_path).eval()
    assert [path.suffix for path in tmp_path.glob("model*")] == [".safetensors"]
    with torch.no_grad():
        assert torch.equal(read(**BATCH).logits, grown.model.eval()(**BATCH).logits)
    assert grown.preservation.loss_before != grown.preservation.loss_after
    assert "1 2 3 [2] [3]; loss" in repr(grown)


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_a_grown_decoder_generates_with_its_cache_what_it_does_without(kind):
    grown = hs.grow(made(kind), None, hs.Grow(0, 1, layers=2)).model.eval()
    prompt = BATCH["input_ids"][:, :4]
    with_cache, without = (
        grown.generate(prompt, max_new_tokens=6, do_sample=False, use_cache=use, eos_token_id=None)
        for use in (True, False)
    )
    assert torch.equal(with_cache, without)


def test_layers_that_keep_their_place_under_another_name_follow_too(tmp_path):
    sizes = {"vocab_size": 24, "hidden_size": 8, "num_heads": 2, "num_layers": 2, "max_position_embeddings": 16}
    kinds = {"attention_types": [[["global", "local"], 1]], "window_size": 4}
    model = transformers.GPTNeoForCausalLM(transformers.GPTNeoConfig(**sizes, **kinds)).eval()
    grown = hs.grow(model, None, hs.Grow(0, 1, layers=2), batch=BATCH).model
    assert grown.config.attention_layers == ["global", "global", "local", "local"]
    assert [block.attn.attention.layer_id for block in grown.transformer.h] == [0, 1, 2, 3]
    grown.save_pretrained(tmp_path)
    read = transformers.GPTNeoForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        cached, plain = (read(**BATCH, use_cache=use).logits for use in (True, False))
        assert torch.equal(plain, grown(**BATCH, use_cache=False).logits)
    assert torch.allclose(cached, plain, atol=1e-6)
    assert model.config.attention_layers == ["global", "local"]


@pytest.mark.parametrize("new", ["zero_output", "identity"])
@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_silent_layers_keep_the_function_of_pre_norm_models_to_rounding(kind, new):
    grown = hs.grow(made(kind), None, hs.Grow(0, 3, new, layers=3), batch=BATCH)
    assert grown.preservation.largest < 1e-5
    assert grown.preservation.loss_after == pytest.approx(grown.preservation.loss_before, rel=1e-6)


def test_the_report_says_that_a_post_norm_model_is_another_function():
    model = made("bert")
    operator = hs.Grow(0, 3, "zero_output", layers=3)
    assert hs.grow(model, None, operator, batch=BATCH).preservation.relative < 1e-6  # norms that learned nothing
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm.weight" in name:
                weight.copy_(torch.linspace(0.5, 1.5, len(weight)))
    assert hs.grow(model, None, operator, batch=BATCH).preservation.relative > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_random_layers_are_drawn_as_the_model_draws_its_own(kind):
    model, optimizer = trained(made(kind, initializer_range=0.3))
    one, again, other = (hs.grow(model, optimizer, hs.Grow.on_top(3, 2, "random"), seed=s).model for s in (0, 0, 1))
    drawn = layer(one, kind, 3)
    assert same(drawn, layer(again, kind, 3))
    for name, weight in drawn.items():
        if weight.ndim > 1:
            assert not torch.equal(weight, layer(other, kind, 3)[name])
            assert not torch.equal(weight, layer(one, kind, 4)[name])
            expected = 0.3 / (10**0.5 if kind == "gpt2" and "c_proj" in name else 1)  # GPT-2's own, sqrt(2 x 5 layers)
            assert weight.std().item() == pytest.approx(expected, rel=0.3), name
        else:
            assert set(weight.tolist()) <= {0.0, 1.0}


@pytest.mark.parametrize("new", ["duplicate", "random"])
def test_a_step_of_the_grown_optimizer_is_that_of_one_made_by_hand(new):
    model, optimizer = trained(made("llama"))
    grown = hs.grow(model, optimizer, hs.Grow.on_top(3, 1, new))
    hand = copy.deepcopy(grown.model)
    old, names = dict(model.named_parameters()), [n for n, _ in hand.named_parameters()]
    new_ones = {n: n.replace("layers.3", "layers.2") for n in names if "layers.3" in n}
    state = {}
    for name, weight in hand.named_parameters():
        known = optimizer.state[old[new_ones.get(name, name)]]
        if name not in new_ones or new == "duplicate":
            state[weight] = {key: value.clone() for key, value in known.items()}
    matrices = [p for p in hand.parameters() if p.ndim > 1]
    vectors = [p for p in hand.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    by_hand = torch.optim.AdamW(groups, lr=1e-3)
    by_hand.state.update(state)
    for _ in range(3):
        step(hand, by_hand)
        step(grown.model, grown.optimizer)
    assert same(dict(hand.named_parameters()), dict(grown.model.named_parameters()))


def test_step_counts_of_new_parameters_are_their_own_or_on_request_the_wrong_ones():
    model, optimizer = trained(made("gpt2"), steps=5)
    for operator, expected in (
        (hs.Grow.on_top(3, 1, "random"), None),
        (hs.Grow(2, 1, "random", 1, count="source"), 5),
        (hs.Grow(2, 1, "random", 1, moments="copied"), 5),
        (hs.Grow(2, 1, "duplicate", 1, moments="zero"), None),
        (hs.Grow.on_top(3, 1), 5),
    ):
        grown = hs.grow(model, optimizer, operator)
        for name, weight in grown.model.named_parameters():
            known = grown.optimizer.state.get(weight, {})
            count = expected if ".h.3." in name else 5
            assert (int(known["step"]) if known else None) == count
            if ".h.3." in name and operator.count == "source":
                assert not known["exp_avg_sq"].any()
    assert all(int(known["step"]) == 5 for known in optimizer.state.values())


def test_growth_by_no_layers_trains_on_exactly_even_with_a_scheduler_on_the_old_optimizer():
    model, optimizer = trained(made("llama"))
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    grown = hs.grow(model, optimizer, hs.Grow(layers=0), batch=BATCH)
    assert grown.preservation.largest == 0.0
    for _ in range(2):
        step(model, optimizer)
        step(grown.model, grown.optimizer)
    assert same(dict(model.named_parameters()), dict(grown.model.named_parameters()))


class Block(torch.nn.Module):
    """A residual layer of one's own."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(6, 6)

    def forward(self, x):
        return x + torch.tanh(self.inner(x))


def plain(blocks=3):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Sequential(*[Block() for _ in range(blocks)]))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adafactor])
def test_plain_torch_stacks_grow_with_any_optimizer_of_torch(optimizer):
    model, x = plain(), torch.randn(5, 4)
    made = optimizer(model.parameters(), lr=0.01, **({"momentum": 0.9} if optimizer is torch.optim.SGD else {}))
    model(x).square().mean().backward()
    made.step()
    grown = hs.grow(model, made, hs.Grow(0, 1, layers=2), batch=x)
    assert [len(grown.model[1]), len(model[1])] == [5, 3]
    grown.model(x).square().mean().backward()
    grown.optimizer.step()
    assert all(p.grad is not None for group in grown.optimizer.param_groups for p in group["params"])
    assert sum(p.numel() for g in grown.optimizer.param_groups for p in g["params"]) == sum(
        p.numel() for p in grown.model.parameters()
    )


def test_a_model_that_is_itself_a_stack_and_one_of_torchs_own():
    stack = torch.nn.Sequential(*[Block() for _ in range(2)])
    assert len(hs.grow(stack, None, hs.Grow.on_top(2, 1, "random")).model) == 3
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    grown = hs.grow(encoder, None, hs.Grow.on_top(2, 2, "identity"), batch=torch.randn(2, 3, 8))
    assert grown.model.num_layers == len(grown.model.layers) == 4


def two_stacks():
    return torch.nn.ModuleDict({"left": plain(2), "right": plain(3)})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hs.grow(made("gpt2"), None, hs.Grow(3, layers=1)), "index=3.*1 consecutive layers of 3.*from 0 to 2"),
        (lambda: hs.grow(made("gpt2"), None, "twice"), "operator='twice'"),
        (lambda: hs.grow(torch.nn.Linear(2, 2), None, hs.Grow(layers=1)), "it has none; put its equal layers"),
        (lambda: hs.grow("model", None, hs.Grow()), "model=str"),
        (lambda: hs.grow(two_stacks(), None, hs.Grow()), r"several: 'left.1', 'right.1'; name one, stack='left.1'"),
        (lambda: hs.grow(plain(), None, hs.Grow(), stack="0"), r"stack='0'.*are '1'"),
        (
            lambda: hs.grow(made("gpt2"), torch.optim.SGD(plain().parameters(), 0.1), hs.Grow(layers=1)),
            "8 of the 8 tensors it trains are not of this model",
        ),
        (lambda: hs.grow(plain(), 0.1, hs.Grow(layers=1)), "optimizer=float"),
        (lambda: hs.grow(plain(), None, hs.Grow(0, 1, "identity", 1)), "no residual stream"),
        (lambda: hs.grow(plain(), None, hs.Grow(layers=1), seed=-1), "seed"),
        (
            lambda: hs.grow(made("gpt2", scale_attn_by_inverse_layer_idx=True), None, hs.Grow(layers=1)),
            "scale_attn_by_inverse_layer_idx",
        ),
        (
            lambda: hs.grow(plain(), None, hs.Grow(layers=1), batch=torch.ones(1, 4), forward=lambda m, b: "no"),
            "gave str and no logits",
        ),
    ],
)
def test_what_cannot_grow_is_said(call, message):
    with pytest.raises(hs.HeadstartError, match=message):
        call()


def test_a_stack_that_is_named_grows_alone():
    grown = hs.grow(two_stacks(), None, hs.Grow(layers=1), stack="right.1").model
    assert [len(grown[side][1]) for side in ("left", "right")] == [2, 4]
