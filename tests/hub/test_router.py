import json
import logging
import sys

import numpy as np
import pytest
from safetensors.numpy import save_file
from sentence_transformers_versions import TOLERANCE, differences, tiny_model

from magjax.checks import InputError
from magjax.hub import load
from magjax.hub._tower import write_tower
from magjax.similarity import Score

KINDS = "sentence_transformers.models."
TOWER = ["Transformer", "Pooling"]


def write(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def write_modules(folder, names):
    listed = [
        {"idx": i, "name": str(i), "path": f"{i}_{name}" if i else "", "type": KINDS + name}
        for i, name in enumerate(names)
    ]
    write(folder / "modules.json", listed)


@pytest.fixture
def make_folder(tmp_path):
    """Writes a folder by hand: one tower and a Router, or a Router with two towers in front."""
    model = tiny_model(Score.of("dot"), shared=False)
    sides = {"query": model.encoder.query_tower, "document": model.encoder.document_tower}

    def write_part(folder, kind, side, tag=0):
        folder.mkdir(parents=True, exist_ok=True)
        if kind == "Transformer":
            write_tower(sides[side], folder)
            model.tokenizer.save(folder)
        elif kind == "Pooling":
            write(folder / "config.json", {"pooling_mode_mean_tokens": True})
        elif kind == "Dense":
            config = {
                "in_features": 16,
                "out_features": 3,
                "bias": False,
                "activation_function": "torch.nn.modules.linear.Identity",
            }
            write(folder / "config.json", config)
            weight = np.random.default_rng(tag).normal(size=(3, 16)).astype(np.float32)
            save_file({"linear.weight": weight}, folder / "model.safetensors")

    def make(routes, *, front=False, similarity="dot", prompts=None, parameters=None):
        """Routes map a side to kinds, or to names of modules, ``KIND@NAME``, to share them."""
        folder = tmp_path / "router"
        chain = ["Router"] if front else [*TOWER, "Router"]
        write_modules(folder, chain)
        for place, kind in enumerate(chain[:-1]):
            write_part(folder / (f"{place}_{kind}" if place else ""), kind, "query")
        place = folder if front else folder / "2_Router"
        types, structure = {}, {}
        for side, kinds in routes.items():
            structure[side] = []
            for index, named in enumerate(kinds):
                kind, _, name = named.partition("@")
                name = name or f"{side}_{index}_{kind}"
                if name not in types:
                    write_part(place / name, kind, side if side in sides else "query", len(types))
                types[name] = KINDS + kind
                structure[side].append(name)
        config = {"types": types, "structure": structure, "parameters": parameters or {}}
        write(place / "router_config.json", config)
        general = {"prompts": prompts or {}, "similarity_fn_name": similarity}
        write(folder / "config_sentence_transformers.json", general)
        return folder

    return make


@pytest.mark.parametrize(
    ("query", "document", "score"),
    [
        (["Normalize"], ["Dropout"], "qnorm"),
        (["Dropout"], ["Normalize"], "dnorm"),
        (["Normalize"], [], "qnorm"),
        ([], ["Normalize"], "dnorm"),
        (["Normalize"], ["Normalize"], "cosine"),
        (["Dropout", "Dropout"], [], "dot"),
        (["Dropout", "Normalize"], [], "qnorm"),
    ],
)
def test_routes_after_a_common_tower(make_folder, query, document, score):
    model = load(make_folder({"query": query, "document": document}))
    assert model.score == Score.of(score)
    assert model.encoder.is_shared


@pytest.mark.parametrize("similarity", ["cosine", None])
def test_one_sided_modules_with_a_two_sided_similarity_state_no_score(
    make_folder, similarity, caplog
):
    folder = make_folder({"query": ["Normalize"], "document": []}, similarity=similarity)
    with caplog.at_level(logging.WARNING, "magjax.hub"):
        assert load(folder).score is None
    assert "normalizes queries alone" in caplog.text
    assert load(folder, score=Score.of("qnorm")).score == Score.of("qnorm")


def test_dense_layers_in_the_routes(make_folder):
    own = load(make_folder({"query": ["Dense", "Normalize"], "document": ["Dense"]}))
    assert own.score == Score.of("qnorm")
    assert own.encoder.document_tower is None
    assert own.encoder.dim == 3
    first, second = own.encoder.projection, own.encoder.document_projection
    assert np.abs(first.linear.kernel[...] - second.linear.kernel[...]).max() > 0.1
    common = load(make_folder({"query": ["Dense@d"], "document": ["Dense@d", "Normalize"]}))
    assert common.score == Score.of("dnorm")
    assert common.encoder.document_projection is None


def test_towers_in_front(make_folder):
    folder = make_folder({"query": [*TOWER, "Normalize"], "document": TOWER}, front=True)
    write(folder / "query_0_Transformer" / "sentence_bert_config.json", {"max_seq_length": 9})
    write(folder / "document_0_Transformer" / "sentence_bert_config.json", {"max_seq_length": 20})
    model = load(folder)
    assert model.score == Score.of("qnorm")
    assert (model.text.query_max_length, model.text.document_max_length) == (9, 20)
    expected = tiny_model(Score.of("dot"), shared=False).encoder
    for side in ("query", "document"):
        table = model.encoder.tower(side).embeddings.word.embedding[...]
        np.testing.assert_array_equal(table, expected.tower(side).embeddings.word.embedding[...])


def test_one_tower_in_both_routes_in_front_is_shared(make_folder):
    routes = {
        "query": ["Transformer@t", "Pooling@p", "Normalize"],
        "document": ["Transformer@t", "Pooling@p"],
    }
    model = load(make_folder(routes, front=True))
    assert model.encoder.is_shared
    assert model.score == Score.of("qnorm")


def test_a_length_of_version_6_for_each_side(make_folder):
    folder = make_folder({"query": [], "document": []})
    lengths = {"max_seq_length": 30, "query_length": 8, "document_length": None}
    write(folder / "sentence_bert_config.json", lengths)
    text = load(folder).text
    assert (text.query_max_length, text.document_max_length) == (8, 30)


def test_the_router_before_version_5(make_folder):
    folder = make_folder({"query": ["Normalize"], "document": ["Dropout"]})
    (folder / "2_Router/router_config.json").rename(folder / "2_Router/config.json")
    listed = json.loads((folder / "modules.json").read_text())
    listed[2]["type"] = KINDS + "Asym"
    write(folder / "modules.json", listed)
    assert load(folder).score == Score.of("qnorm")


@pytest.mark.parametrize(
    ("routes", "settings", "message"),
    [
        ({"query": ["Normalize"]}, {}, "has the routes query; exactly query and document"),
        (
            {"query": [], "document": [], "image": []},
            {},
            "has the routes query, document, image; exactly query and document",
        ),
        (
            {"query": [], "document": []},
            {"parameters": {"route_mappings": {"('query', 'text')": "query"}}},
            "maps tasks and modalities",
        ),
        ({"query": ["Router"], "document": []}, {}, "a router within a router"),
        ({"query": ["Dense"], "document": []}, {}, "Dense layer for queries alone"),
        ({"query": [], "document": ["Dense"]}, {}, "Dense layer for documents alone"),
        (
            {"query": ["Normalize", "Dense"], "document": []},
            {},
            "chains .*Normalize > Dense for the query side",
        ),
        ({"query": ["Pooling"], "document": []}, {}, "Pooling > Pooling for the query side"),
        ({"query": ["LayerNorm"], "document": []}, {}, "module 'sentence_.*LayerNorm'; known"),
        ({"query": TOWER, "document": []}, {"front": True}, "chains nothing for the document side"),
        (
            {"query": ["Transformer", "Dropout", "Pooling"], "document": TOWER},
            {"front": True},
            "chains Transformer > Dropout > Pooling for the query side",
        ),
    ],
)
def test_what_cannot_be_expressed_is_named(make_folder, routes, settings, message):
    with pytest.raises(InputError, match=message):
        load(make_folder(routes, **settings))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("document_1_Pooling/config.json", {"pooling_mode": "cls"}, "pools queries by mean and"),
        (
            "query_2_Normalize/config.json",
            {"module_input_name": "token_embeddings"},
            "module_input_name 'token_embeddings'",
        ),
        (
            "query_0_Transformer/sentence_bert_config.json",
            {"query_expansion": {"length": 32}},
            "sets query_expansion",
        ),
        (
            "query_0_Transformer/sentence_bert_config.json",
            {"tokenizer_args": {"model_max_length": 5}},
            "sets tokenizer_args",
        ),
        (
            "query_0_Transformer/sentence_bert_config.json",
            {"max_seq_length": "all"},
            "max_seq_length in .*'all' must be a whole number",
        ),
        (
            "query_0_Transformer/sentence_bert_config.json",
            {"modality_config": {"text": {"method_output_name": "logits"}}},
            "takes 'logits' of its text model",
        ),
        (
            "query_0_Transformer/tokenizer_config.json",
            {"pad_token": "[PAD]", "truncation_side": "left"},
            "truncation_side 'left'",
        ),
        ("router_config.json", {"types": {}}, 'must hold "types" and "structure"'),
        ("router_config.json", ["text"], 'must hold "types" and "structure"'),
        (
            "router_config.json",
            {"types": {}, "structure": {"query": ["gone"], "document": []}},
            'the route query must list names in "types"',
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "CrossEncoder"},
            "holds a CrossEncoder",
        ),
    ],
)
def test_settings_that_would_change_the_numbers_are_refused(make_folder, file, content, message):
    folder = make_folder({"query": [*TOWER, "Normalize"], "document": TOWER}, front=True)
    write(folder / file, content)
    with pytest.raises(InputError, match=message):
        load(folder)


def test_two_tokenizers_are_refused(make_folder):
    folder = make_folder({"query": TOWER, "document": TOWER}, front=True)
    file = folder / "document_0_Transformer" / "tokenizer.json"
    content = json.loads(file.read_text())
    content["normalizer"] = None
    write(file, content)
    with pytest.raises(InputError, match="different tokenizers"):
        load(folder)
    file.unlink()
    with pytest.raises(InputError, match="document_0_Transformer holds no tokenizer"):
        load(folder)


def test_pickled_weights_in_a_route_are_refused(make_folder):
    folder = make_folder({"query": TOWER, "document": TOWER}, front=True)
    tower = folder / "document_0_Transformer"
    (tower / "model.safetensors").rename(tower / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"holds pytorch_model.bin but no model.safetensors"):
        load(folder)


@pytest.mark.parametrize(
    "name",
    [
        "hostile_module.Transformer",
        "hostile_module.Router",
        "sentence_transformers.hostile_module",
        "sentence_transformers.models.Router; import hostile_module",
        "builtins.eval",
        "",
        None,
        7,
        ["sentence_transformers.models.Normalize"],
    ],
)
@pytest.mark.parametrize("place", ["modules.json", "2_Router/router_config.json"])
def test_a_class_that_a_file_names_is_never_imported(
    make_folder, tmp_path, monkeypatch, name, place
):
    (tmp_path / "hostile_module.py").write_text("raise SystemExit('this was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    folder = make_folder({"query": ["Normalize"], "document": []})
    content = json.loads((folder / place).read_text())
    if isinstance(content, list):
        content[1]["type"] = name
    else:
        content["types"]["query_0_Normalize"] = name
    write(folder / place, content)
    with pytest.raises(InputError, match="names the module"):
        load(folder)
    assert "hostile_module" not in sys.modules


OUTSIDE = ["../other", "/etc", "a/../../b", "C:\\models", "..\\other", "\\\\host\\x", "a\0b"]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        *(("modules.json", path) for path in [*OUTSIDE, 3, None]),
        *(("2_Router/router_config.json", path) for path in OUTSIDE),
    ],
)
def test_paths_outside_the_folder_are_refused(make_folder, place, path):
    folder = make_folder({"query": ["Normalize"], "document": []})
    content = json.loads((folder / place).read_text())
    if isinstance(content, list):
        content[1]["path"] = path
    else:
        content["types"][path] = content["types"].pop("query_0_Normalize")
        content["structure"]["query"] = [path]
    write(folder / place, content)
    with pytest.raises(InputError, match="names a path outside its folder"):
        load(folder)


@pytest.fixture
def modules():
    pytest.importorskip("sentence_transformers", reason="needs the parity extra")
    from sentence_transformers.sentence_transformer import modules

    return modules


@pytest.mark.parametrize("front", [False, True])
def test_routers_that_the_library_wrote(modules, make_folder, tmp_path, front):
    import sentence_transformers
    import torch

    towers = make_folder({"query": TOWER, "document": TOWER}, front=True)
    heads = {
        side: [
            modules.Transformer(str(towers / f"{side}_0_Transformer"), max_seq_length=length),
            modules.Pooling(16, pooling_mode="mean"),
        ]
        for side, length in (("query", 10), ("document", 20))
    }
    torch.manual_seed(0)
    dense = [modules.Dense(16, 5, activation_function=torch.nn.Tanh()) for _ in range(2)]
    query, document = [dense[0], modules.Normalize()], [dense[1]]
    if front:
        chain = [
            modules.Router.for_query_document(
                query_modules=[*heads["query"], *query],
                document_modules=[*heads["document"], *document],
            )
        ]
    else:
        router = modules.Router.for_query_document(query_modules=query, document_modules=document)
        chain = [*heads["document"], router]
    theirs = sentence_transformers.SentenceTransformer(
        modules=chain,
        device="cpu",
        prompts={"query": "find: ", "document": ""},
        similarity_fn_name="dot",
    )
    theirs.save(str(tmp_path / "saved"), create_model_card=False)
    model = load(tmp_path / "saved")
    assert model.score == Score.of("qnorm")
    assert (model.encoder.document_tower is not None) is front
    assert model.text.query_max_length == (10 if front else 20)
    assert model.text.query_prompt == "find: "
    assert max(differences(tmp_path / "saved").values()) <= TOLERANCE


def test_an_empty_route_that_the_library_wrote(modules, make_folder, tmp_path):
    import sentence_transformers

    tower = make_folder({"query": [], "document": []})
    router = modules.Router.for_query_document(
        query_modules=[], document_modules=[modules.Normalize()]
    )
    theirs = sentence_transformers.SentenceTransformer(
        modules=[modules.Transformer(str(tower)), modules.Pooling(16, pooling_mode="cls"), router],
        device="cpu",
        similarity_fn_name="dot",
    )
    theirs.save(str(tmp_path / "saved"), create_model_card=False)
    assert load(tmp_path / "saved").score == Score.of("dnorm")
    assert max(differences(tmp_path / "saved").values()) <= TOLERANCE
