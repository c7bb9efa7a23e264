"""What the parameters of other people's models do: said with a reason, or not claimed to be known."""

import pytest
import torch
from torch import nn

import headstart as hs
from headstart.core.roles import Role

SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


@pytest.fixture
def transformers():
    library = pytest.importorskip("transformers")
    library.logging.set_verbosity_error()
    return library


def gpt2(library, kind="GPT2LMHeadModel", **options):
    sizes = {"vocab_size": 20, "n_positions": 8, "n_embd": 16, "n_layer": 2, "n_head": 2}
    return getattr(library, kind)(library.GPT2Config(**sizes, bos_token_id=0, eos_token_id=0, **options))


def by_role(model, role):
    return [found.name for found in hs.roles(model) if found.role == role]


def test_gpt2_has_a_tied_head_fused_attention_and_places(transformers):
    found = hs.roles(gpt2(transformers))
    assert found["transformer.wte.weight"].role == "embedding + readout"
    assert "lm_head.weight" in found["transformer.wte.weight"].why
    assert found["transformer.wpe.weight"].role == "position"
    assert found["transformer.h.1.attn.c_attn.weight"].role == "query + key + value"
    assert found["transformer.h.1.attn.c_proj.weight"].role == "projection"
    assert found["transformer.h.1.mlp.c_proj.weight"].role == "hidden"
    assert found["transformer.ln_f.bias"].role == "norm"
    fused = found["transformer.h.0.attn.c_attn.weight"]
    assert (fused.fan_in, fused.fan_out, fused.shape) == (16, 48, (16, 48))


def test_a_gpt2_whose_head_is_its_own_has_a_readout_and_one_without_head_has_none(transformers):
    assert by_role(gpt2(transformers, tie_word_embeddings=False), "readout") == ["lm_head.weight"]
    assert by_role(gpt2(transformers, "GPT2Model"), "readout") == []
    assert by_role(gpt2(transformers, "GPT2ForSequenceClassification"), "readout") == ["score.weight"]


def test_a_factor_on_gpt2s_readout_changes_no_hidden_matrix(transformers):
    with pytest.raises(hs.HeadstartError, match=r"transformer\.wte\.weight is embedding \+ readout in one tensor"):
        hs.param_groups(gpt2(transformers), {"readout": 3.0}, lr=1.0)
    with pytest.raises(hs.HeadstartError, match=r"c_attn\.weight is query \+ key \+ value in one tensor"):
        hs.param_groups(gpt2(transformers), {"query_key": 3.0}, lr=1.0)
    groups = hs.param_groups(gpt2(transformers), {"transformer.wte.weight": 3.0}, lr=1.0)
    assert [group["names"] for group in groups if group["lr"] == 3.0] == [["transformer.wte.weight"]]


def test_balancing_a_tied_gpt2_is_refused_and_leaves_its_embedding(transformers):
    model = gpt2(transformers)
    before = model.transformer.wte.weight.detach().clone()
    with pytest.raises(hs.HeadstartError, match=r"wte\.weight is embedding \+ readout"):
        hs.balance_layers(model, 2.0, {"input_ids": torch.arange(8)[None]})
    assert torch.equal(model.transformer.wte.weight, before)


@pytest.mark.parametrize(
    ("kind", "config", "options", "expected"),
    [
        (
            "BertForMaskedLM",
            "BertConfig",
            {"vocab_size": 20},
            {
                "bert.embeddings.word_embeddings.weight": "embedding + readout",
                "bert.embeddings.position_embeddings.weight": "position",
                "bert.encoder.layer.0.attention.self.key.weight": "key",
                "bert.encoder.layer.0.attention.output.dense.weight": "projection",
                "bert.encoder.layer.0.output.dense.weight": "hidden",
                "cls.predictions.transform.dense.weight": "hidden",
                "cls.predictions.bias": "bias",
            },
        ),
        (
            "BertForSequenceClassification",
            "BertConfig",
            {"vocab_size": 20},
            {"bert.pooler.dense.weight": "hidden", "classifier.weight": "readout"},
        ),
        (
            "LlamaForCausalLM",
            "LlamaConfig",
            {"vocab_size": 20, "num_key_value_heads": 1},
            {
                "model.layers.1.self_attn.q_proj.weight": "query",
                "model.layers.1.self_attn.o_proj.weight": "projection",
                "model.layers.1.mlp.down_proj.weight": "hidden",
                "model.layers.1.input_layernorm.weight": "norm",
                "lm_head.weight": "readout",
            },
        ),
        (
            "ViTForImageClassification",
            "ViTConfig",
            {"image_size": 8, "patch_size": 4},
            {
                "vit.embeddings.cls_token": "embedding",
                "vit.embeddings.position_embeddings": "position",
                "vit.embeddings.patch_embeddings.projection.weight": "input",
                "classifier.weight": "readout",
            },
        ),
    ],
)
def test_models_of_hugging_face(transformers, kind, config, options, expected):
    found = hs.roles(getattr(transformers, kind)(getattr(transformers, config)(**SMALL, **options)))
    assert {name: found[name].role for name in expected} == expected
    assert all(one.known for one in found)


def test_t5_has_three_places_for_one_embedding_and_biases_of_positions(transformers):
    sizes = {"vocab_size": 20, "d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    found = hs.roles(transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes)))
    assert found["shared.weight"].role == "embedding + readout"
    layer = "decoder.block.0.layer"
    assert found[f"{layer}.0.SelfAttention.relative_attention_bias.weight"].role == "position"
    assert found[f"{layer}.1.EncDecAttention.o.weight"].role == "projection"
    assert found[f"{layer}.2.DenseReluDense.wo.weight"].role == "hidden"


def test_torchs_own_attention_is_fused_and_has_no_readout():
    with pytest.warns(UserWarning, match="nested"):
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
    found = hs.roles(encoder)
    assert found["layers.0.self_attn.in_proj_weight"].role == "query + key + value"
    assert found["layers.0.self_attn.out_proj.weight"].role == "projection"
    assert by_role(encoder, "readout") == by_role(encoder, "input") == []
    whole = nn.ModuleDict({"embed": nn.Linear(3, 8), "encoder": encoder, "last": nn.Linear(8, 2)})
    assert by_role(whole, "input") == ["embed.weight"]
    assert by_role(whole, "readout") == ["last.weight"]


def test_separate_projections_of_torchs_attention_are_told_apart():
    found = hs.roles(nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True))
    assert {one.name: one.role for one in found if one.role != "bias"} == {
        "q_proj_weight": "query",
        "k_proj_weight": "key",
        "v_proj_weight": "value",
        "out_proj.weight": "projection",
    }


def test_a_head_called_value_is_no_attention():
    class Actor(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.policy_head, self.value = nn.Linear(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)

    assert {found.name: found.role for found in hs.roles(Actor()) if found.role != "bias"} == {
        "body.weight": "input",
        "policy_head.weight": "hidden",
        "value.weight": "readout",
    }


def test_a_name_counts_only_where_it_belongs():
    class Gate(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.fc = nn.Linear(width, width, bias=False)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.ModuleDict({"query": nn.Linear(8, 8, bias=False), "key": nn.Linear(8, 8, bias=False)})
            self.mlp = nn.ModuleDict({"out": nn.Linear(8, 8, bias=False)})

    stages = nn.Sequential(nn.Sequential(Gate(4)), nn.Sequential(Gate(8)))
    model = nn.ModuleDict({"stages": stages, "attention_block": Block(), "end": nn.Linear(8, 2, bias=False)})
    assert {found.name: found.role for found in hs.roles(model)} == {
        "stages.0.0.fc.weight": "input",
        "stages.1.0.fc.weight": "hidden",
        "attention_block.attention.query.weight": "query",
        "attention_block.attention.key.weight": "key",
        "attention_block.mlp.out.weight": "hidden",
        "end.weight": "readout",
    }


def test_the_last_matrix_of_a_stack_of_blocks_is_hidden_unless_it_is_unlike_the_others():
    def block(inputs, outputs):
        return nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU())

    assert by_role(nn.Sequential(block(8, 8), block(8, 8), block(8, 8)), "readout") == []
    tower = nn.Sequential(block(3, 8), block(8, 8), block(8, 1))
    assert (by_role(tower, "input"), by_role(tower, "readout")) == (["0.0.weight"], ["2.0.weight"])


def test_convolutions_have_the_fans_of_their_windows():
    model = nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.ConvTranspose2d(6, 4, 2), nn.Flatten(), nn.Linear(4, 2)
    )
    found = hs.roles(model)
    assert (found["0.weight"].fan_in, found["0.weight"].fan_out) == (75, 6)
    assert (found["2.weight"].fan_in, found["2.weight"].fan_out) == (24, 4)
    assert [found[name].role for name in ("0.weight", "1.weight", "2.weight", "4.weight")] == [
        "input",
        "norm",
        "hidden",
        "readout",
    ]
    assert found["4.weight"].layers == found["4.bias"].layers == (2,)


def test_a_recurrent_layer_is_no_readout():
    assert {found.name: found.role for found in hs.roles(nn.LSTM(3, 4, bias=False))} == {
        "weight_ih_l0": "input",
        "weight_hh_l0": "hidden",
    }


class Bare(nn.Module):
    def __init__(self):
        super().__init__()
        self.W, self.gain, self.bias = (
            nn.Parameter(torch.zeros(3, 4)),
            nn.Parameter(torch.ones(4)),
            nn.Parameter(torch.ones(4)),
        )


def test_what_cannot_be_known_is_not_claimed_and_can_be_given():
    found = hs.roles(Bare())
    assert [(one.name, one.role, one.known) for one in found] == [
        ("W", "?", False),
        ("gain", "?", False),
        ("bias", "bias", True),
    ]
    given = hs.roles(Bare(), {"W": "input", "g*": Role.NORM})
    assert [(one.role, one.why) for one in given][:2] == [("input", "given"), ("norm", "given")]


def test_the_table_says_name_shape_role_and_why():
    said = repr(hs.roles(nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1, bias=False))))
    assert said.splitlines() == [
        "name      shape  role     why",
        "0.weight  4 x 3  input    the first matrix",
        "0.bias    4      bias     by its name",
        "1.weight  1 x 4  readout  the last matrix",
    ]
    assert "<td>1 x 4</td><td>readout</td>" in hs.roles(nn.Linear(4, 1))._repr_html_()


def test_the_names_are_those_of_the_module_in_its_order(transformers):
    model = gpt2(transformers)
    found = hs.roles(model)
    assert [one.name for one in found] == [name for name, _ in model.named_parameters()]
    assert len(found) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hs.roles(3), r"roles\(model=3\): give a torch\.nn\.Module"),
        (lambda: hs.roles(Bare(), {"V": "input"}), "'V'.*names look like W, gain, bias"),
        (lambda: hs.roles(Bare(), {"W": "big"}), "'big'.*roles are input"),
        (lambda: hs.roles(Bare(), ["W"]), r"roles=\['W'\]: give a mapping"),
        (lambda: hs.roles(Bare())["V"], r"roles\['V'\]: the parameters are W"),
    ],
)
def test_a_mistake_is_named(make, message):
    with pytest.raises(hs.HeadstartError, match=message):
        make()
