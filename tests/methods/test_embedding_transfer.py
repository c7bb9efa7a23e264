"""What a target takes over from a weak model."""

from dataclasses import replace

import numpy as np
import pytest

import headstart as hs
from headstart.core.state import State
from headstart.engines import lower

P = 7
TASK = hs.Split(hs.ModularArithmetic(P, base=P), train=0.5)
WEAK = hs.Run(
    task=TASK,
    model=hs.MLP(6, bias=False, embedding=hs.Embedding(3)),
    plan=hs.Online(),
    batch=hs.FullBatch(),
    loss=hs.CrossEntropy(),
    optimizer=hs.AdamW(0.01),
    budget=hs.Budget(4, 2),
)
TARGET = replace(WEAK, model=hs.MLP(8, depth=3, bias=False, embedding=hs.Embedding(5, rank=3)))
MERGED = replace(WEAK, model=hs.MLP(8, depth=3, bias=False, embedding=hs.Embedding(5)))
SIGNS = replace(WEAK, task=hs.Parity(6, 2), plan=hs.Fixed(20), loss=hs.Logistic(), model=hs.MLP(4, bias=False))


def state_of(run):
    return lower(run).fresh()


def site(source, target, seed=0):
    ends = source.model, source.task.signature, target.model, target.task.signature
    return hs.Site(*ends, state_of(target.at(seed)), seed)


def test_the_weak_table_becomes_the_first_factor_and_all_else_is_the_targets_own():
    weak, place = state_of(WEAK), site(WEAK, TARGET)
    made = hs.TransferEmbedding()(weak, place)
    assert np.array_equal(made.weights["embedding.weight"], weak.weights["embedding.weight"])
    others = set(place.fresh.weights) - {"embedding.weight"}
    assert all(np.array_equal(made.weights[name], place.fresh.weights[name]) for name in others)


def test_a_target_of_the_same_dimension_takes_the_whole_table():
    target = replace(TARGET, model=hs.MLP(8, embedding=hs.Embedding(3)))
    weak = state_of(WEAK)
    made = hs.TransferEmbedding()(weak, site(WEAK, target))
    assert np.array_equal(made.weights["embedding.weight"], weak.weights["embedding.weight"])


def test_a_weak_table_that_is_a_product_goes_over_as_the_product():
    source = replace(WEAK, model=hs.MLP(6, embedding=hs.Embedding(3, rank=2)))
    weak = state_of(source)
    made = hs.TransferEmbedding()(weak, site(source, TARGET))
    product = weak.weights["embedding.weight"] @ weak.weights["embedding.map"].T
    np.testing.assert_allclose(made.weights["embedding.weight"], product, rtol=1e-5)


def test_shuffled_rows_have_the_same_values_in_an_order_of_each_seed():
    weak = state_of(WEAK).weights["embedding.weight"]
    orders = []
    for seed in (0, 1):
        made = hs.TransferEmbedding(shuffled=True)(state_of(WEAK), site(WEAK, TARGET, seed)).weights["embedding.weight"]
        orders.append([int(np.flatnonzero((weak == row).all(axis=1))[0]) for row in made])
        assert sorted(orders[-1]) == list(range(P)) != orders[-1]
    assert orders[0] != orders[1]


def test_the_first_layer_of_a_weak_model_becomes_the_map_of_the_inputs():
    target = replace(SIGNS, model=hs.MLP(8, bias=False, embedding=hs.Embedding(4)))
    weak = state_of(SIGNS)
    made = hs.TransferFirstLayer()(weak, site(SIGNS, target))
    assert np.array_equal(made.weights["embedding.weight"], weak.weights["layers.0.weight"].T)
    x = np.random.default_rng(0).standard_normal((5, 6))
    low = replace(SIGNS, model=hs.MLP(8, bias=False, embedding=hs.Embedding(9, rank=4)))
    through = hs.TransferFirstLayer()(weak, site(SIGNS, low)).weights
    np.testing.assert_allclose(x @ through["embedding.weight"], x @ weak.weights["layers.0.weight"].T)


def test_merging_changes_no_prediction():
    import torch

    source = state_of(TARGET)
    made = hs.MergeEmbedding()(source, site(TARGET, MERGED))
    x = torch.from_numpy(TASK.sample(0, np.arange(20)).x)
    predictions = []
    for run, state in ((TARGET, source), (MERGED, made)):
        module = run.model.module(run.task.signature)
        module.load_state_dict({name: torch.from_numpy(array) for name, array in state.weights.items()})
        predictions.append(module(x).detach().numpy())
    np.testing.assert_allclose(*predictions, rtol=1e-4, atol=1e-6)


def test_merging_forgets_the_moments_of_the_factors_alone():
    moments = {f"exp_avg/{name}": array for name, array in state_of(TARGET).weights.items()}
    made = hs.MergeEmbedding()(replace(state_of(TARGET), moments=moments), site(TARGET, TARGET))
    assert set(made.moments) == {f"exp_avg/layers.{i}.weight" for i in range(3)}


def test_a_chain_from_weak_to_merged_trains_and_counts_what_it_cost():
    low = replace(TARGET, start=hs.From(WEAK, via=hs.TransferEmbedding()))
    merged = replace(MERGED, start=hs.From(low, hs.Step(2), hs.MergeEmbedding()))
    (trace,) = hs.train(merged, seeds=[0])
    assert trace.before.steps == 4 + 2


def test_a_validation_slice_is_of_the_targets_training_rows():
    num = TASK.num_train
    sliced = hs.Split(TASK.task, train=num - 5, test=5)
    ours = sliced.sample(3, np.arange(5), hs.Stream.EVALUATION).x
    theirs = TASK.sample(3, np.arange(num)).x
    assert np.array_equal(ours, theirs[-5:])
    assert np.array_equal(sliced.sample(3, np.arange(num - 5)).x, theirs[:-5])


def test_init_scale_scales_what_is_trained_and_one_is_neutral():
    model = hs.MLP(6, embedding=hs.OneHot())
    plain = replace(WEAK, model=model)
    scaled = state_of(replace(plain, methods=(hs.InitScale(0.5),))).weights
    for name, array in state_of(plain).weights.items():
        assert np.array_equal(scaled[name], array * np.float32(1 if name == "embedding.weight" else 0.5))
    assert replace(plain, methods=(hs.InitScale(1.0),)).init_scales == plain.init_scales


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hs.TransferEmbedding("yes"), "shuffled='yes'"),
        (lambda: hs.InitScale(0), "factor=0"),
        (lambda: hs.TransferEmbedding()(state_of(SIGNS), site(SIGNS, TARGET)), "the source has no embedding"),
        (lambda: hs.TransferEmbedding()(state_of(WEAK), site(WEAK, SIGNS)), "the target has no embedding"),
        (lambda: hs.TransferEmbedding()(state_of(WEAK), site(WEAK, MERGED)), r"\(7, 3\).*\(7, 5\).*rank=3"),
        (lambda: hs.TransferFirstLayer()(state_of(WEAK), site(WEAK, TARGET)), "no first layer on its inputs"),
        (lambda: hs.MergeEmbedding()(state_of(WEAK), site(WEAK, WEAK)), "no product"),
    ],
)
def test_what_cannot_go_over_is_said(make, message):
    with pytest.raises(hs.HeadstartError, match=message):
        make()


def test_the_state_that_is_made_is_a_plain_state():
    assert isinstance(hs.TransferEmbedding()(state_of(WEAK), site(WEAK, TARGET)), State)
