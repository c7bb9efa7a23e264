"""A weak model's embedding in a module of one's own: the function, the gradients, the ties, and what is refused."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn

import headstart as hs

VOCABULARY, WEAK, DIM = 30, 4, 16
IDS = torch.arange(VOCABULARY).reshape(3, 10)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def embedding(rows=VOCABULARY, dim=DIM, std=0.02, seed=0, **options):
    return nn.Embedding(rows, dim, _weight=std * drawn(rows, dim, seed=seed), **options)


class Language(nn.Module):
    """A table, positions, a layer and a head that may be tied to the table."""

    def __init__(self, dim=DIM, tied=False, **options):
        super().__init__()
        self.tokens, self.position = embedding(dim=dim, **options), embedding(10, dim, seed=1)
        self.middle, self.head = nn.Linear(dim, dim), nn.Linear(dim, VOCABULARY)
        with torch.no_grad():
            for layer, seed in ((self.middle, 2), (self.head, 3)):
                layer.weight.copy_(0.1 * drawn(*layer.weight.shape, seed=seed))
                layer.bias.copy_(0.1 * drawn(*layer.bias.shape, seed=seed + 2))
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        hidden = self.tokens(ids) + self.position(torch.arange(ids.shape[1]))
        return self.head(hidden + torch.relu(self.middle(hidden)))


def weak_table(rows=VOCABULARY, seed=5):
    return drawn(rows, WEAK, seed=seed)


def rms(table):
    return float(table.detach().double().square().mean().sqrt())


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def transformers():
    library = pytest.importorskip("transformers")
    library.logging.set_verbosity_error()
    return library


def gpt2(library, **options):
    sizes = {"vocab_size": VOCABULARY, "n_positions": 10, "n_embd": DIM, "n_layer": 1, "n_head": 2}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = library.GPT2Config(**sizes, **dropout, bos_token_id=0, eos_token_id=0, **options)
        return library.GPT2LMHeadModel(config)


# The embedding alone


def test_a_low_rank_embedding_looks_up_the_product_and_merged_is_the_same_function():
    low = hs.LowRankEmbedding(VOCABULARY, DIM, WEAK, seed=3)
    assert torch.allclose(low(IDS), (low.table @ low.map.T)[IDS], atol=1e-6)
    merged = low.merge()
    assert isinstance(merged, nn.Embedding)
    assert torch.allclose(merged(IDS), low(IDS), atol=1e-6)
    assert torch.allclose(low.weight[IDS], low(IDS), atol=1e-6)
    assert torch.linalg.matrix_rank(merged.weight) == WEAK
    with torch.no_grad():
        merged.weight.zero_()
    assert low.weight.abs().sum() > 0  # of its own


def test_its_fresh_entries_have_the_variance_of_an_embedding_and_are_named_by_the_seed():
    large = hs.LowRankEmbedding(3000, 64, 16)
    assert rms(large.weight) == pytest.approx(1.0, rel=0.05)
    assert torch.equal(large.map, hs.LowRankEmbedding(3000, 64, 16).map)
    assert not torch.equal(large.map, hs.LowRankEmbedding(3000, 64, 16, seed=1).map)


def test_gradients_flow_to_both_factors_by_the_lookup_and_by_the_weight():
    low = hs.LowRankEmbedding(VOCABULARY, DIM, WEAK)
    target = drawn(3, 10, DIM)
    (low(IDS) * target).sum().backward()
    by_lookup = low.table.grad.clone(), low.map.grad.clone()
    low.zero_grad()
    (low.weight[IDS] * target).sum().backward()
    for one, other in zip(by_lookup, (low.table.grad, low.map.grad), strict=True):
        assert one.abs().min() > 0
        assert torch.allclose(one, other, atol=1e-4)


def test_the_padding_row_is_zero_and_stays_so():
    low = hs.LowRankEmbedding(VOCABULARY, DIM, WEAK, padding_idx=-1)
    assert low.padding_idx == VOCABULARY - 1
    low(IDS).sum().backward()
    with torch.no_grad():
        low.table -= low.table.grad
        low.map -= low.map.grad
    assert not low(torch.tensor([VOCABULARY - 1])).any()
    assert low(torch.tensor([0])).any()
    assert low.merge().padding_idx == VOCABULARY - 1


def test_its_state_is_saved_loaded_and_pickled_and_it_follows_type_and_device():
    low, other = hs.LowRankEmbedding(VOCABULARY, DIM, WEAK), hs.LowRankEmbedding(VOCABULARY, DIM, WEAK, seed=1)
    assert list(low.state_dict()) == ["table", "map"]
    other.load_state_dict(low.state_dict())
    assert torch.equal(other(IDS), low(IDS))
    assert torch.equal(pickle.loads(pickle.dumps(low))(IDS), low(IDS))
    half = copy.deepcopy(low).to(torch.bfloat16)
    assert half(IDS).dtype == half.weight.dtype == half.merge().weight.dtype == torch.bfloat16
    assert low.to("meta").weight.is_meta
    assert "rank=4" in repr(low)


@pytest.mark.parametrize(("options", "says"), [({"rank": 0}, "rank=0"), ({"padding_idx": 30}, "padding_idx=30")])
def test_sizes_that_make_no_sense_are_refused(options, says):
    with pytest.raises(hs.HeadstartError, match=says):
        hs.LowRankEmbedding(**{"num_embeddings": VOCABULARY, "embedding_dim": DIM, "rank": WEAK} | options)


# The transfer


def test_the_targets_table_becomes_a_b_with_the_weak_rows_and_the_old_root_mean_square():
    target, table = Language(), weak_table()
    before = target.tokens.weight.detach().clone()
    done = hs.transfer_embedding(table, target, seed=7)
    low = target.tokens
    assert done.embedding is low
    assert isinstance(low, hs.LowRankEmbedding)
    assert (done.name, done.rank, done.heads) == ("tokens", WEAK, ())
    assert torch.equal(low.table, table)
    assert torch.equal(done.replaced, before)
    assert rms(low.weight) == pytest.approx(rms(before), rel=1e-5)
    assert isinstance(target.position, nn.Embedding)
    assert target(IDS).shape == (3, 10, VOCABULARY)
    other = Language()
    hs.transfer_embedding(table, other, seed=8)
    assert not torch.equal(other.tokens.map, low.map)


@pytest.mark.parametrize("give", ["model", "embedding", "array", "low rank", "half"])
def test_the_weak_side_may_be_a_model_an_embedding_or_a_table_and_is_left_alone(give):
    weak = Language(dim=WEAK)
    table = weak.tokens.weight.detach().clone()
    given = {"model": weak, "embedding": weak.tokens, "array": table.numpy(), "half": table.to(torch.bfloat16)}
    if give == "low rank":
        given[give] = hs.LowRankEmbedding(VOCABULARY, WEAK, 2)
        table = given[give].weight
    target = Language()
    hs.transfer_embedding(given[give], target)
    assert torch.allclose(target.tokens.table, table, rtol=1e-2 if give == "half" else 1e-6)
    with torch.no_grad():
        target.tokens.table.zero_()
    assert weak.tokens.weight.abs().min() > 0


def test_frozen_trains_b_alone_and_a_table_that_was_frozen_stays_so():
    target = Language()
    hs.transfer_embedding(weak_table(), target, freeze=True)
    target(IDS).sum().backward()
    assert target.tokens.table.grad is None
    assert target.tokens.map.grad.abs().max() > 0
    frozen = Language()
    frozen.tokens.weight.requires_grad_(False)
    hs.transfer_embedding(weak_table(), frozen)
    assert not any(one.requires_grad for one in frozen.tokens.parameters())


def test_shuffled_has_the_same_rows_in_another_order():
    plain, control = Language(), Language()
    hs.transfer_embedding(weak_table(), plain)
    hs.transfer_embedding(weak_table(), control, shuffled=True)
    rows, shuffled = plain.tokens.table.tolist(), control.tokens.table.tolist()
    assert rows != shuffled
    assert sorted(rows) == sorted(shuffled)
    assert rms(control.tokens.weight) == pytest.approx(rms(plain.tokens.weight), rel=1e-5)


def test_rows_say_which_weak_row_each_row_takes_and_fresh_ones_have_its_spread():
    weak = weak_table(rows=7)
    rows = [3, 0, 6] + [-1] * (VOCABULARY - 3)
    target = Language()
    hs.transfer_embedding(weak, target, rows=rows)
    table = target.tokens.table.detach()
    assert torch.equal(table[:3], weak[[3, 0, 6]])
    assert rms(table[3:]) == pytest.approx(rms(weak), rel=0.25)
    assert len({tuple(row) for row in table.tolist()}) == VOCABULARY
    other = Language()
    hs.transfer_embedding(weak, other, rows=torch.tensor(rows))
    assert torch.equal(other.tokens.table, table)


def test_the_targets_padding_row_is_zero_whatever_the_weak_row_was():
    target = Language(padding_idx=2)
    hs.transfer_embedding(weak_table(), target)
    assert not target.tokens.weight[2].any()
    fresh = embedding().weight.detach()
    kept = [i for i in range(VOCABULARY) if i != 2]
    assert rms(target.tokens.weight[kept]) == pytest.approx(rms(fresh[kept]), rel=1e-5)


def test_merged_at_once_every_module_and_parameter_stays():
    target = Language(tied=True)
    weight, before = target.tokens.weight, target.tokens.weight.detach().clone()
    optimizer = torch.optim.SGD(target.parameters(), lr=0.1)
    done = hs.transfer_embedding(weak_table(), target, merge=True)
    assert target.tokens.weight is weight
    assert target.head.weight is weight
    assert done.embedding is target.tokens
    assert torch.equal(done.replaced, before)
    factored = Language()
    hs.transfer_embedding(weak_table(), factored)
    assert torch.allclose(weight, factored.tokens.weight, atol=1e-6)
    target(IDS).sum().backward()
    optimizer.step()
    assert torch.linalg.matrix_rank(weight) > WEAK  # nothing limits the rank any more


# Tied heads


def stepped(model, loss):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss(model).backward()
    optimizer.step()
    return model


def cross_entropy(model):
    return nn.functional.cross_entropy(model(IDS).flatten(0, 1), IDS.roll(1).flatten())


def test_a_tied_head_reads_with_the_same_factors_and_both_uses_give_gradients():
    target = Language(tied=True)
    done = hs.transfer_embedding(weak_table(), target)
    assert done.heads == ("head",)
    hidden = drawn(5, DIM)
    expected = hidden @ target.tokens.weight.T + target.head.bias
    assert torch.allclose(target.head(hidden), expected, atol=1e-5)
    assert [name for name, _ in target.named_parameters() if "head" in name] == ["head.bias"]
    cross_entropy(target).backward()
    table, map_ = (one.detach().clone().requires_grad_() for one in (target.tokens.table, target.tokens.map))
    plain = Language()
    weight = table @ map_.T
    state = dict(plain.named_parameters()) | {"tokens.weight": weight, "head.weight": weight}
    logits = torch.func.functional_call(plain, state, (IDS,))
    nn.functional.cross_entropy(logits.flatten(0, 1), IDS.roll(1).flatten()).backward()
    assert torch.allclose(target.tokens.table.grad, table.grad, atol=1e-6)
    assert torch.allclose(target.tokens.map.grad, map_.grad, atol=1e-6)


def test_merging_gives_the_same_function_the_old_parameters_and_the_old_tie():
    target = Language(tied=True)
    names = list(target.state_dict())
    hs.transfer_embedding(weak_table(), target)
    stepped(target, cross_entropy)
    before = target(IDS)
    merged = hs.merge_embedding(target)
    assert target.tokens is merged
    assert target.head.weight is merged.weight
    assert list(target.state_dict()) == names
    assert torch.allclose(target(IDS), before, atol=1e-5)
    stepped(target, cross_entropy)
    assert torch.linalg.matrix_rank(merged.weight) > WEAK


def test_a_head_of_its_own_keeps_the_table_it_had():
    target = Language(tied=True)
    before = target.head.weight.detach().clone()
    done = hs.transfer_embedding(weak_table(), target, keep_tied=False)
    assert done.heads == ()
    assert torch.equal(target.head.weight, before)
    assert isinstance(target.head, nn.Linear)
    stepped(target, cross_entropy)
    assert not torch.equal(target.head.weight, before)
    assert torch.equal(done.replaced, before)


def test_a_copy_of_a_tied_model_reads_with_its_own_factors_and_a_checkpoint_has_them_once():
    target = Language(tied=True)
    hs.transfer_embedding(weak_table(), target)
    twin = copy.deepcopy(target)
    assert twin.head.tied_to is twin.tokens
    saved = io.BytesIO()
    torch.save(stepped(twin, cross_entropy).state_dict(), saved)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    assert [name for name in state if name.startswith(("tokens", "head"))] == [
        "tokens.table",
        "tokens.map",
        "head.bias",
    ]
    target.load_state_dict(state)
    assert torch.equal(target(IDS), twin(IDS))


def test_the_roles_of_the_factors_are_known():
    target = Language(tied=True)
    hs.transfer_embedding(weak_table(), target)
    found = hs.roles(target)
    assert found["tokens.table"].role == "embedding + readout"
    assert found["tokens.map"].role == "hidden"
    assert found["middle.weight"].role == "hidden"
    untied = Language()
    hs.transfer_embedding(weak_table(), untied)
    found = hs.roles(untied)
    assert (found["tokens.table"].role, found["head.weight"].role) == ("embedding", "readout")
    groups = hs.param_groups(untied, {"first": 0.5}, lr=1.0)
    slow = [p for group in groups if group["lr"] == 0.5 for p in group["params"]]
    assert any(p is untied.tokens.table for p in slow)


def test_mup_is_refused_for_a_head_tied_to_factors_and_knows_the_factors_of_an_untied_one():
    def model(dim, tied):
        made = Language(dim, tied)
        hs.transfer_embedding(weak_table(), made)
        return made

    with pytest.raises(hs.HeadstartError, match="keep_tied=False"):
        hs.mup_groups(model(DIM, True), model(8, True), lr=0.1)
    wide = model(DIM, False)
    groups = hs.mup_groups(wide, model(8, False), lr=0.1)
    rates = {id(p): group["lr"] for group in groups for p in group["params"]}
    assert (rates[id(wide.tokens.table)], rates[id(wide.tokens.map)]) == (0.1, 0.1)  # an input's, for Adam
    assert rates[id(wide.middle.weight)] == pytest.approx(0.05)


# Hugging Face


def hf_loss(model):
    return model(input_ids=IDS, labels=IDS).loss


def test_a_tied_gpt2_trains_merges_is_saved_and_comes_back_the_same(transformers, tmp_path):
    target = gpt2(transformers)
    weak = nn.Embedding(VOCABULARY, WEAK, _weight=weak_table())
    done = hs.transfer_embedding(weak, target)
    assert (done.name, done.heads) == ("transformer.wte", ("lm_head",))
    assert target.get_input_embeddings() is done.embedding
    assert target.get_output_embeddings().weight.shape == (VOCABULARY, DIM)
    target.tie_weights()  # what loading and resizing call
    stepped(target, hf_loss)
    before = target(input_ids=IDS).logits
    hs.merge_embedding(target)
    assert target.lm_head.weight is target.transformer.wte.weight
    assert torch.allclose(target(input_ids=IDS).logits, before, atol=1e-5)
    target.save_pretrained(tmp_path)
    back = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert back.config.tie_word_embeddings
    assert back.lm_head.weight is back.transformer.wte.weight
    assert torch.allclose(back(input_ids=IDS).logits, before, atol=1e-5)
    target.resize_token_embeddings(VOCABULARY + 3, mean_resizing=False)
    assert target(input_ids=IDS).logits.shape[-1] == VOCABULARY + 3
    assert target.lm_head.weight is target.transformer.wte.weight


def test_a_gpt2_whose_head_is_untied_says_so_in_its_configuration_and_comes_back_the_same(transformers, tmp_path):
    target = gpt2(transformers)
    given = target.config
    hs.transfer_embedding(weak_table(), target, keep_tied=False)
    stepped(target, hf_loss)
    hs.merge_embedding(target)
    assert given.tie_word_embeddings  # another model may have it
    assert not target.config.tie_word_embeddings
    target.tie_weights()
    target.save_pretrained(tmp_path)
    back = transformers.GPT2LMHeadModel.from_pretrained(tmp_path)
    assert torch.allclose(back(input_ids=IDS).logits, target(input_ids=IDS).logits, atol=1e-6)
    assert not torch.equal(back.lm_head.weight, back.transformer.wte.weight)


def test_berts_head_keeps_the_bias_it_shares(transformers, tmp_path):
    sizes = {"hidden_size": DIM, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    target = transformers.BertForMaskedLM(transformers.BertConfig(vocab_size=VOCABULARY, **sizes)).eval()
    hs.transfer_embedding(weak_table(), target)
    assert not target.get_input_embeddings().weight[0].any()  # its padding
    target.save_pretrained(tmp_path / "factors")  # a Trainer's checkpoint on the way
    before = target(input_ids=IDS).logits
    hs.merge_embedding(target)
    assert target.cls.predictions.decoder.bias is target.cls.predictions.bias
    target.save_pretrained(tmp_path)
    back = transformers.BertForMaskedLM.from_pretrained(tmp_path)
    assert torch.allclose(back(input_ids=IDS).logits, before, atol=1e-5)


def test_an_encoder_and_a_decoder_that_share_a_table_share_the_factors(transformers, tmp_path):
    sizes = {"d_model": DIM, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2, "tie_word_embeddings": True}
    options = {"pad_token_id": 0, "decoder_start_token_id": 0}
    target = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=VOCABULARY, **sizes, **options))
    target.eval()
    with pytest.raises(hs.HeadstartError, match="merge=True"):
        hs.transfer_embedding(weak_table(), target, keep_tied=False)
    done = hs.transfer_embedding(weak_table(), target)
    assert target.encoder.embed_tokens is target.decoder.embed_tokens is done.embedding
    target.tie_weights()
    target.save_pretrained(tmp_path / "factors")
    before = target(input_ids=IDS, labels=IDS).logits
    hs.merge_embedding(target)
    target.save_pretrained(tmp_path)
    back = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.allclose(back(input_ids=IDS, labels=IDS).logits, before, atol=1e-5)


def test_a_scaled_embedding_is_refused_and_merged_keeps_its_scale(transformers):
    from transformers.models.bart.modeling_bart import BartScaledWordEmbedding

    scaled = BartScaledWordEmbedding(VOCABULARY, DIM, padding_idx=1, embed_scale=4.0)
    target = nn.Sequential(scaled, nn.Linear(DIM, 2))
    with pytest.raises(hs.HeadstartError, match="BartScaledWordEmbedding"):
        hs.transfer_embedding(weak_table(), target)
    hs.transfer_embedding(weak_table(), target, merge=True)
    assert target[0] is scaled
    assert torch.allclose(scaled(IDS), 4 * scaled.weight[IDS])


@pytest.mark.slow
def test_the_trainer_checkpoints_the_factors_resumes_from_them_and_gives_them_weight_decay(transformers, tmp_path):
    rows = [{"input_ids": row, "labels": row} for row in IDS.repeat(4, 1)]

    def trainer(steps):
        target = gpt2(transformers)
        hs.transfer_embedding(weak_table(), target)
        options = {"save_steps": 2, "max_steps": steps, "per_device_train_batch_size": 2, "learning_rate": 0.01}
        quiet = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "logging_strategy": "no"}
        arguments = transformers.TrainingArguments(str(tmp_path), lr_scheduler_type="constant", **options, **quiet)
        return transformers.Trainer(model=target, args=arguments, train_dataset=rows)

    whole = trainer(4)
    whole.train()
    decayed = whole.get_decay_parameter_names(whole.model)
    assert {"transformer.wte.table", "transformer.wte.map"} <= set(decayed)
    resumed = trainer(4)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-2"))
    assert torch.equal(resumed.model.transformer.wte.table, whole.model.transformer.wte.table)
    assert not torch.equal(whole.model.transformer.wte.table, weak_table())
    assert torch.equal(resumed.model.lm_head.weight, whole.model.lm_head.weight)


# What is refused


def hooked():
    target = Language()
    target.tokens.register_forward_hook(lambda *_: None)
    return target


def odd():
    target = Language()
    target.extra = nn.Bilinear(2, 2, 2)
    target.extra.again = target.tokens.weight
    return target


def trained():
    target = Language()
    target.tokens = nn.Embedding(300, DIM, _weight=0.02 * drawn(300, DIM) + 0.1)
    return target


@pytest.mark.parametrize(
    ("weak", "target", "options", "says"),
    [
        (weak_table(7), Language, {}, "7 rows and the target's 30; give rows="),
        (weak_table(), Language, {"rows": [0, 1]}, r"rows=int64\[2\].*30 whole numbers"),
        (weak_table(), Language, {"rows": [30] * VOCABULARY}, "to 29"),
        (weak_table(), Language, {"rows": [0.5] * VOCABULARY}, "whole numbers"),
        (weak_table(), Language, {"rows": [-1] * VOCABULARY}, "nothing of the weak table"),
        (weak_table()[0], Language, {}, "a table is"),
        (weak_table() * float("nan"), Language, {}, "finite"),
        (weak_table() * 0, Language, {}, "zero"),
        (weak_table().long(), Language, {}, "a table is"),
        ("gpt2", Language, {}, "weak=str"),
        (nn.Linear(2, 2), Language, {}, "there is none"),
        (nn.ModuleList([embedding(), embedding(seed=1)]), Language, {}, "'0', '1'; give the embedding itself"),
        (weak_table(), lambda: nn.ModuleList([embedding(), embedding(seed=1)]), {}, "'0', '1'; name it, as module="),
        (weak_table(), Language, {"module": "middle"}, "there are 'tokens', 'position'"),
        (weak_table(), lambda: 3, {}, "target=int"),
        (weak_table(), embedding, {}, "the model that holds it"),
        (weak_table(), lambda: Language().to("meta"), {}, "meta"),
        (weak_table(), lambda: Language(std=0.0), {}, "initialise the target"),
        (weak_table(), hooked, {}, "'tokens', a Embedding, holds the table and has hooks"),
        (weak_table(), odd, {}, "'extra', a Bilinear"),
        (weak_table(), lambda: Language(max_norm=1.0), {}, "max_norm"),
        (weak_table(300), trained, {}, "replace_trained=True"),
        (weak_table(), Language, {"freeze": True, "merge": True}, "no A to freeze"),
        (weak_table(), Language, {"freeze": 1}, "freeze=1"),
        (weak_table(), Language, {"seed": -1}, "seed=-1"),
        (weak_table(), Language, {"rows": [[0], [0, 1]]}, "whole numbers, one for each row"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_reason(weak, target, options, says):
    with pytest.raises(hs.HeadstartError, match=says):
        hs.transfer_embedding(weak, target(), **options)


def test_a_refused_transfer_leaves_the_target_as_it_was():
    target = odd()
    before = {name: value.clone() for name, value in target.state_dict().items()}
    with pytest.raises(hs.HeadstartError):
        hs.transfer_embedding(weak_table(), target)
    assert isinstance(target.tokens, nn.Embedding)
    assert all(torch.equal(value, before[name]) for name, value in target.state_dict().items())


def test_the_choice_is_named_a_trained_table_is_replaced_when_asked_and_a_second_transfer_needs_a_merge():
    two = nn.ModuleList([embedding(), embedding(seed=1)])
    hs.transfer_embedding(weak_table(), two, module="1")
    assert [type(part).__name__ for part in two] == ["Embedding", "LowRankEmbedding"]
    target = trained()
    hs.transfer_embedding(weak_table(300), target, replace_trained=True)
    with pytest.raises(hs.HeadstartError, match="merge_embedding"):
        hs.transfer_embedding(weak_table(300), target)
    hs.merge_embedding(target)
    with pytest.raises(hs.HeadstartError, match="found none"):
        hs.merge_embedding(target)
    with pytest.raises(hs.HeadstartError, match=r"give a torch\.nn\.Module"):
        hs.merge_embedding(None)


@pytest.mark.parametrize("options", [{"padding_idx": 1.5}, {"padding_idx": "pad"}, {"dtype": torch.int64}, {"rank": 0}])
def test_a_product_of_nothing_that_can_be_trained_is_refused(options):
    with pytest.raises(hs.HeadstartError, match=rf"LowRankEmbedding\({next(iter(options))}="):
        hs.LowRankEmbedding(**{"num_embeddings": 10, "embedding_dim": 4, "rank": 2} | options)


def test_no_fresh_table_of_any_usual_initialisation_looks_trained():
    for seed in range(5):
        for rows, dim in ((3, 2), (30, 8), (500, 4), (100, 100)):
            for table in (drawn(rows, dim, seed=seed), drawn(rows, dim, seed=seed).clamp(-1, 1)):
                target = nn.Sequential(nn.Embedding(rows, dim, _weight=table), nn.Linear(dim, 1))
                hs.transfer_embedding(drawn(rows, 2, seed=seed + 99), target)
