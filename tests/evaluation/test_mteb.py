"""The model as mteb meets it: its protocol, its tasks, and the same figures as ours."""

import dataclasses
import importlib.util
import json
import sys

import numpy as np
import pytest
from mteb_cases import describe
from scipy.stats import spearmanr

from magjax.checks import InputError
from magjax.data import Benchmark, TextPreprocessor, TextSettings
from magjax.encoders import DualEncoder
from magjax.evaluation import encode, evaluate_retrieval, evaluate_run
from magjax.evaluation.mteb import MtebEncoder
from magjax.similarity import PRESETS, Score

if importlib.util.find_spec("mteb") is None:
    pytest.skip("the mteb extra is not installed", allow_module_level=True)

WORDS = [a + b for a in ("ka", "lo", "mi", "nu") for b in ("ban", "dor", "fex", "gul", "hin")]
ABOUT = {"task_metadata": None, "hf_split": "test", "hf_subset": "default"}


@pytest.fixture(scope="module")
def mteb():
    return importlib.import_module("mteb")


@pytest.fixture(scope="module")
def benchmark():
    """40 documents of 3 to 20 words, and 12 queries of 3 words of one of them."""
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(WORDS, rng.integers(3, 21))) for _ in range(40)]
    queries = [" ".join(rng.choice(text.split(), 3)) for text in documents[:12]]
    return Benchmark(
        "tiny",
        [f"q{i}" for i in range(12)],
        queries,
        [f"d{i}" for i in range(40)],
        documents,
        {f"q{i}": {f"d{i}": 2, f"d{i + 12}": 1} for i in range(12)},
    )


@pytest.fixture(scope="module")
def model(small_model):
    """Sides that differ in everything a side has: tower, prompt, length."""
    config = small_model.encoder.tower("query").config
    text = TextSettings(
        query_max_length=16, document_max_length=24, query_prompt="q: ", document_prompt="the "
    )
    encoder = DualEncoder.create(config, shared=False, seed=1)
    return dataclasses.replace(small_model, encoder=encoder, text=text)


def retrieval_task(mteb, benchmark):
    from datasets import Dataset
    from mteb.abstasks import AbsTaskRetrieval

    class TinyRetrieval(AbsTaskRetrieval):
        metadata = describe(mteb, "TinyRetrieval", "Retrieval", "ndcg_at_10")
        k_values = (1, 10, 20)

        def load_data(self, num_proc=None, **_):
            def rows(ids, texts):
                return Dataset.from_dict({"id": list(ids), "text": list(texts)})

            self.dataset = {
                "default": {
                    "test": {
                        "queries": rows(benchmark.query_ids, benchmark.queries),
                        "corpus": rows(benchmark.document_ids, benchmark.documents),
                        "relevant_docs": {q: dict(row) for q, row in benchmark.qrels.items()},
                        "top_ranked": None,
                    }
                }
            }
            self.data_loaded = True

    return TinyRetrieval()


def sts_task(mteb, pairs):
    from datasets import Dataset
    from mteb.abstasks import AbsTaskSTS

    class TinySTS(AbsTaskSTS):
        metadata = describe(mteb, "TinySTS", "STS", "spearman")

        def load_data(self, num_proc=None, **_):
            first, second, grades = zip(*pairs, strict=True)
            columns = {"sentence1": first, "sentence2": second, "score": grades}
            self.dataset = {"test": Dataset.from_dict(columns)}
            self.data_loaded = True

    return TinySTS()


@pytest.mark.parametrize("score", [*map(Score.of, PRESETS), Score.power(0.3, 0.7)], ids=str)
def test_retrieval_scores_as_we_do(mteb, benchmark, model, score, tmp_path):
    model = dataclasses.replace(model, score=score)
    task = retrieval_task(mteb, benchmark)
    result = mteb.evaluate(
        MtebEncoder(model), task, cache=None, show_progress_bar=False, prediction_folder=tmp_path
    )
    (theirs,) = result.task_results[0].scores["test"]
    ours = evaluate_retrieval(
        model.encoder,
        TextPreprocessor(model.tokenizer, model.text),
        benchmark,
        score,
        k=20,
        metrics=["ndcg@10", "recall@10", "map@10"],
    )
    assert 0.05 < ours.evaluation.mean["ndcg@10"] < 0.95
    # mteb reports five digits; its ranking has them all.
    (file,) = tmp_path.rglob("*predictions.json")
    ranked = json.loads(file.read_text())["default"]["test"]
    for query, scores in ours.ranking.to_run().items():
        assert ranked[query] == pytest.approx(scores, rel=1e-5, abs=1e-5)
    again = evaluate_run(ranked, benchmark.qrels, ["ndcg@10"])
    for query, values in ours.evaluation.per_query.items():
        assert again.per_query[query]["ndcg@10"] == pytest.approx(values["ndcg@10"], abs=1e-6)
    for name, value in ours.evaluation.mean.items():
        assert theirs[name.replace("@", "_at_")] == pytest.approx(value, abs=5.01e-6)


def test_mteb_takes_it_for_an_encoder(mteb, model):
    from mteb.models import EncoderProtocol, SearchProtocol

    encoder = MtebEncoder(model, name="somebody/retriever")
    assert isinstance(encoder, EncoderProtocol)
    assert not isinstance(encoder, SearchProtocol)
    meta = encoder.mteb_model_meta
    assert meta.name == "somebody/retriever"
    assert meta.similarity_fn_name.value == "dot"
    assert meta.embed_dim == 16
    assert meta.max_tokens == 24
    assert meta.framework == ["JAX"]
    shared = dataclasses.replace(
        model, encoder=DualEncoder.create(model.encoder.tower("query").config)
    )
    sizes = [MtebEncoder(m).mteb_model_meta.n_parameters for m in (shared, model)]
    assert sizes[1] == 2 * sizes[0] > 5_000


def test_the_revision_names_what_results_depend_on(model):
    """mteb's cache is by name and revision: another model must never be served from it."""
    text = dataclasses.replace(model.text, query_prompt="Q: ")
    config = model.encoder.tower("query").config
    others = {
        "score": MtebEncoder(dataclasses.replace(model, score=Score.of("dnorm"))),
        "prompt": MtebEncoder(dataclasses.replace(model, text=text)),
        "weights": MtebEncoder(
            dataclasses.replace(model, encoder=DualEncoder.create(config, shared=False, seed=2))
        ),
        "side": MtebEncoder(model, symmetric="query"),
    }
    revisions = {name: other.mteb_model_meta.revision for name, other in others.items()}
    revisions["itself"] = MtebEncoder(model).mteb_model_meta.revision
    assert len(set(revisions.values())) == 5
    same = DualEncoder.create(config, shared=False, seed=1)
    again = MtebEncoder(dataclasses.replace(model, encoder=same)).mteb_model_meta.revision
    assert again == revisions["itself"]


def test_each_side_has_its_prompt_length_tower_and_power(model):
    model = dataclasses.replace(model, score=Score.power(1.0, 0.5))
    encoder = MtebEncoder(model)
    batches = [{"text": ["kaban lodor", ""]}, {"text": ["mifex " * 30]}]
    texts = [text for batch in batches for text in batch["text"]]
    for side in ("query", "document"):
        found = encoder.encode(batches, prompt_type=side, batch_size=2, **ABOUT)
        preprocessor = TextPreprocessor(model.tokenizer, model.text)
        raw = encode(model.encoder, preprocessor, texts, side).astype(np.float64)
        power = model.score.gamma(side)
        expected = raw / np.linalg.norm(raw, axis=1, keepdims=True) ** power
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert found.dtype == np.float32
        assert found.flags.writeable


def test_similarity_is_the_inner_product_of_arrays_and_tensors(model):
    torch = pytest.importorskip("torch")
    encoder = MtebEncoder(model)
    a, b = np.random.default_rng(0).normal(size=(2, 5, 16)).astype(np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_allclose(encoder.similarity(a, b), expected, rtol=1e-5, atol=1e-5)
    tensors = torch.from_numpy(a), torch.from_numpy(b)
    np.testing.assert_allclose(encoder.similarity(*tensors), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        encoder.similarity_pairwise(*tensors), np.diag(expected), rtol=1e-5, atol=1e-5
    )
    assert encoder.similarity(a[0], b).shape == (1, 5)
    half = encoder.similarity(torch.from_numpy(a).bfloat16().requires_grad_(), b)
    np.testing.assert_allclose(half, expected, atol=0.2)


@pytest.fixture(scope="module")
def pairs(benchmark):
    rng = np.random.default_rng(1)
    first = rng.choice(benchmark.documents, 30)
    second = rng.choice(benchmark.documents, 30)
    return [
        (a, b, float(len(set(a.split()) & set(b.split()))))
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]


def spearman_by_hand(model, side, pairs):
    preprocessor = TextPreprocessor(model.tokenizer, model.text)
    first, second = (
        encode(model.encoder, preprocessor, [pair[i] for pair in pairs], side).astype(np.float64)
        for i in (0, 1)
    )
    power = model.score.gamma(side)
    for vectors in (first, second):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) ** power
    return spearmanr((first * second).sum(axis=1), [pair[2] for pair in pairs]).statistic


def test_texts_that_are_equals_need_a_model_whose_sides_are(mteb, small_model, model, pairs):
    task = sts_task(mteb, pairs)

    def spearman(encoder):
        result = mteb.evaluate(encoder, task, cache=None, show_progress_bar=False)
        return result.task_results[0].scores["test"][0]["spearman"]

    symmetric = dataclasses.replace(small_model, score=Score.of("cosine"))
    assert spearman(MtebEncoder(symmetric)) == pytest.approx(
        spearman_by_hand(symmetric, "document", pairs), abs=1e-6
    )
    for one_sided in (small_model, dataclasses.replace(model, score=Score.of("cosine"))):
        with pytest.raises(
            InputError, match=r"TinySTS compares texts as equals.*symmetric='query'"
        ):
            spearman(MtebEncoder(one_sided))
    for side in ("query", "document"):
        expected = spearman_by_hand(small_model, side, pairs)
        named = MtebEncoder(small_model, symmetric=side)
        assert spearman(named) == pytest.approx(expected, abs=1e-6)
    # The two sides of qnorm are two scores: the cosine and the dot product.
    assert spearman_by_hand(small_model, "query", pairs) != pytest.approx(
        spearman_by_hand(small_model, "document", pairs), abs=1e-3
    )


def test_the_reasons_against_equals_are_named(model, small_model):
    with pytest.raises(InputError, match="is one-sided"):
        MtebEncoder(small_model).encode([{"text": ["a"]}], **ABOUT)
    one_prompt = dataclasses.replace(model.text, document_prompt="q: ")
    symmetric = dataclasses.replace(model, score=Score.of("dot"), text=one_prompt)
    with pytest.raises(InputError, match="does not: each side has an encoder of its own"):
        MtebEncoder(symmetric).encode([{"text": ["a"]}], **ABOUT)
    prompts = dataclasses.replace(small_model, score=Score.of("dot"), text=model.text)
    with pytest.raises(InputError, match="does not: each side has a prompt of its own"):
        MtebEncoder(prompts).encode([{"text": ["a"]}], **ABOUT)


def test_wrong_input_is_refused(model):
    encoder = MtebEncoder(model)
    for batch, options, message in (
        ({"image": []}, {"prompt_type": "query"}, "batches of image, but"),
        ({"text": []}, {"prompt_type": "passage"}, "unknown prompt_type 'passage'"),
        ({"text": []}, {"prompt_type": "query", "precision": "int8"}, "precision='int8'"),
        ({"text": []}, {"prompt_type": "query", "normalize": True}, "'normalize'"),
    ):
        with pytest.raises(InputError, match=message):
            encoder.encode([batch], **ABOUT, **options)
    assert encoder.encode([], prompt_type="document", precision="float32", **ABOUT).shape == (0, 16)
    with pytest.raises(InputError, match="organization/name"):
        MtebEncoder(model, name="mine")
    with pytest.raises(InputError, match="unknown symmetric 'both'"):
        MtebEncoder(model, symmetric="both")
    with pytest.raises(InputError, match="states no score"):
        MtebEncoder(dataclasses.replace(model, score=None))


def test_mteb_is_asked_for_when_it_is_missing(model, monkeypatch):
    for name in [name for name in sys.modules if name == "mteb" or name.startswith("mteb.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(InputError, match=r"mteb.*pip install -e '.\[mteb\]'"):
        _ = MtebEncoder(model).mteb_model_meta
