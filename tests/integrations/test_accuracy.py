"""The accuracy an auto schedule hears: right for causal, masked and classification heads, else it asks."""

import logging

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import torch
from transformers import (
    BartConfig,
    BartForCausalLM,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    GPT2Config,
    GPT2LMHeadModel,
    T5Config,
    T5ForConditionalGeneration,
    TrainingArguments,
)

import headstart as hs
from headstart.integrations.huggingface import PhasedTrainer

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning"),
]
SYMBOLS, LENGTH, ROWS = 20, 8, 64
BERT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
AUTO = hs.PhaseSchedule.auto(0.5, 0.5, 1, steps=6, target=0.5)


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)


def gpt2():
    ids = {"bos_token_id": 0, "eos_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(vocab_size=SYMBOLS, n_positions=LENGTH, n_embd=16, n_layer=1, n_head=2, **ids))


def bert(kind, **options):
    return kind(BertConfig(vocab_size=SYMBOLS, **BERT, **options))


def t5():
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    return T5ForConditionalGeneration(T5Config(vocab_size=SYMBOLS, decoder_start_token_id=0, **sizes))


def bart_decoder():
    sizes = {"d_model": 16, "decoder_layers": 1, "decoder_attention_heads": 2, "decoder_ffn_dim": 16}
    return BartForCausalLM(BartConfig(vocab_size=SYMBOLS, max_position_embeddings=LENGTH, **sizes))


def rows(labels):
    """Sentences that count upwards from a random symbol, with labels made of them."""
    generator = torch.Generator().manual_seed(1)
    starts = torch.randint(0, SYMBOLS, (ROWS,), generator=generator)
    sentences = (starts[:, None] + torch.arange(LENGTH)) % SYMBOLS
    return [{"input_ids": sentence, "labels": labels(sentence.clone(), generator)} for sentence in sentences]


def second_half(sentence, generator):
    sentence[: LENGTH // 2] = -100
    return sentence


def some(sentence, generator):
    sentence[torch.rand(LENGTH, generator=generator) < 0.6] = -100
    return sentence


class Listener(PhasedTrainer):
    """Keeps what was reported beside what logits and labels say, by hand, for both readings of the labels."""

    def compute_loss(self, model, inputs, return_outputs=False, **options):
        labels = inputs["labels"]
        loss, outputs = super().compute_loss(model, inputs, True, **options)
        heard = self.__dict__.setdefault("heard", [])
        best = outputs.logits.argmax(dim=-1)
        aligned = (best == labels)[labels != -100].float().mean().item()
        after = labels[:, 1:] if labels.ndim == 2 else None
        shifted = None if after is None else (best[:, :-1] == after)[after != -100].float().mean().item()
        heard.append((self._metrics[-1], aligned, shifted))
        return (loss, outputs) if return_outputs else loss


def train(model, data, folder, schedule=AUTO, lr=0.01, arguments=None, **options):
    args = TrainingArguments(
        str(folder),
        per_device_train_batch_size=8,
        learning_rate=lr,
        lr_scheduler_type="constant",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        save_strategy="no",
        **(arguments or {}),
    )
    trainer = Listener(model=model, args=args, train_dataset=data, schedule=schedule, **options)
    trainer.train()
    return trainer


@pytest.mark.parametrize("labels", [lambda s, g: s, second_half], ids=["all tokens", "prompt masked"])
@pytest.mark.parametrize("arguments", [{}, {"bf16": True}], ids=["float32", "bfloat16"])
def test_a_causal_model_is_asked_for_the_next_token(tmp_path, labels, arguments):
    trainer = train(gpt2(), rows(labels), tmp_path, arguments=arguments)
    assert [heard for heard, _, _ in trainer.heard] == pytest.approx([shifted for _, _, shifted in trainer.heard])
    assert any(aligned != shifted for _, aligned, shifted in trainer.heard)


def test_a_trained_causal_model_scores_high_and_an_untrained_one_low(tmp_path):
    schedule = hs.PhaseSchedule.auto(0.5, 0.5, 1, steps=120, target=0.99, everything=20)
    heard = [heard for heard, _, _ in train(gpt2(), rows(lambda s, g: s), tmp_path, schedule, lr=0.02).heard]
    assert heard[0] < 0.3
    assert heard[-1] > 0.9


@pytest.mark.parametrize(
    ("model", "labels"),
    [
        (lambda: bert(BertForMaskedLM), some),
        (lambda: bert(BertForTokenClassification, num_labels=SYMBOLS), some),
        (lambda: bert(BertForTokenClassification, num_labels=SYMBOLS), lambda s, g: s),
        (t5, some),
        (bart_decoder, lambda s, g: s),  # its labels are for the same place, whatever its name says
    ],
    ids=["masked", "tokens, some", "tokens, all", "encoder and decoder", "aligned decoder"],
)
def test_other_heads_on_tokens_are_asked_for_the_label_of_the_same_place_where_there_is_one(tmp_path, model, labels):
    trainer = train(model(), rows(labels), tmp_path)
    assert [heard for heard, _, _ in trainer.heard] == pytest.approx([aligned for _, aligned, _ in trainer.heard])
    assert any(aligned != shifted for _, aligned, shifted in trainer.heard)


def test_a_classifier_is_asked_for_its_class(tmp_path):
    trainer = train(bert(BertForSequenceClassification, num_labels=3), rows(lambda s, g: int(s[0]) % 3), tmp_path)
    assert [heard for heard, _, _ in trainer.heard] == pytest.approx([right for _, right, _ in trainer.heard])


@pytest.mark.parametrize(
    ("num_labels", "labels"),
    [(1, lambda s, g: float(s[0])), (3, lambda s, g: torch.rand(3, generator=g).round())],
    ids=["regression", "several labels"],
)
def test_where_there_is_no_accuracy_a_metric_is_asked_for_and_taken(tmp_path, num_labels, labels):
    with pytest.raises(
        hs.HeadstartError, match=r"PhasedTrainer\(metric=\.\.\.\), a function metric\(outputs, inputs\)"
    ):
        train(bert(BertForSequenceClassification, num_labels=num_labels), rows(labels), tmp_path)


def test_a_batch_without_a_label_says_nothing(tmp_path):
    from headstart.integrations.accuracy import BatchAccuracy

    model, ids = gpt2(), torch.arange(LENGTH)[None]
    accuracy = BatchAccuracy()
    for labels, shift in ((torch.full_like(ids, -100), None), (ids, 1), (torch.full_like(ids, -100), 1)):
        outputs = model(input_ids=ids, labels=labels)
        heard = accuracy(outputs.loss, outputs, {"labels": labels})
        assert accuracy.shift == shift
        assert (heard is None) == bool((labels == -100).all())
