"""Fisher settings that cannot be used: one sentence, before anything is written."""

import pytest
from fisher_configs import tiny_fisher_config

from magjax.checks import InputError
from magjax.study import measure_fisher


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"examples": 12}, r"examples=12 is not a multiple of fisher\.candidates=8; try 8"),
        ({"parameter_examples": 4}, r"parameter_examples=4 is not a multiple of .*; try 8"),
        ({"parameter_examples": 24}, r"parameter_examples=24 is more than fisher\.examples=16"),
        ({"parameter_batches": 4}, r"parameter_batches=4 is more than fisher\.batches=3"),
        (
            {"candidates": 64, "examples": 64, "parameter_examples": 64},
            r"50 training pairs, fewer than one candidate set of fisher\.candidates=64",
        ),
        ({"candidates": 1}, r"fisher\.candidates=1 leaves a query nothing to choose from"),
        ({"examples": 56}, r"50 training pairs, .*try --config\.fisher\.examples=48"),
        ({"batches": 4}, r"fills 3 independent batches of 16, fewer than fisher\.batches=4"),
        ({"batches": 0}, r"fisher\.batches=0 must be a whole number"),
        ({"spaces": ("document", "attention/kye")}, r"'attention/kye'; the nearest are .*/key/"),
        ({"spaces": ("documents",)}, r"'documents'.* Of embeddings: query, document\."),
        ({"spaces": ("document", "layers/(")}, r"no regular expression"),
        ({"spaces": ()}, r"fisher\.spaces is empty"),
        ({"spaces": ("query",)}, r"looks at space 'document', which is not in fisher\.spaces=que"),
        ({"measure": "effective_rank"}, r"looks at space ''"),
        ({"measure": "document|kapa"}, "Did you mean 'kappa'"),
        ({"measure": "document|kappa_damped@0.5"}, r"not computed; .*fisher\.dampings"),
        ({"variants": ("cosine", "qnrom")}, "'qnrom' is neither one of cosine"),
        ({"variants": ("cosine", "1,1")}, r"names 'cosine' twice"),
        ({"variants": ()}, r"fisher\.variants is empty"),
        ({"kind": "gnn"}, "Did you mean 'ggn'"),
        ({"task": "symetric"}, "Did you mean 'symmetric'"),
        ({"task": "symmetric", "variants": ("qnorm", "dnorm")}, "add cosine or dot"),
        ({"direction": "query_to_documents"}, "Did you mean 'query_to_document'"),
        ({"spces": ("query",)}, r"unknown config key 'fisher\.spces'.*'fisher\.spaces'"),
        # What is needed only after the batches are measured is refused before as well.
        ({"confidence": 1.5}, "confidence=1.5 must be below 1"),
        ({"dampings": (0.0,)}, "damping=0.0 must be a finite number above 0"),
        ({"orders": (0,)}, "order=0 must be a whole number"),
        ({"reference_temperature": 0.0}, r"fisher\.reference_temperature=0.0 must be"),
        ({"steps": 0}, r"fisher\.steps=0 must be"),
        ({"probes": 0}, r"fisher\.probes=0 must be"),
        ({"micro_batch": 0}, r"fisher\.micro_batch=0 must be"),
        ({"memory_gib": -1.0}, r"fisher\.memory_gib=-1.0 must be"),
        ({"samples": 0}, "samples=0 must be"),
        ({"data__path": "/nowhere/else"}, "/nowhere/else"),
        ({"model__init": "/nowhere/model"}, "/nowhere/model does not exist"),
    ],
)
def test_wrong_settings_are_refused_before_a_folder_is_made(changes, message, tmp_path, tiny_beir):
    with pytest.raises(InputError, match=message) as found:
        measure_fisher(tiny_fisher_config(tiny_beir, **changes), tmp_path / "run")
    assert "\n" not in str(found.value)
    assert not (tmp_path / "run").exists()


def test_a_section_that_is_missing_is_refused(tmp_path, tiny_beir):
    config = tiny_fisher_config(tiny_beir)
    del config["fisher"]["measure"]
    with pytest.raises(InputError, match=r"lacks fisher\.measure"):
        measure_fisher(config, tmp_path / "run")
