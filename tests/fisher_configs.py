"""Fisher configs that run in seconds on a tiny BEIR folder."""

from magjax.config import fisher_config, to_json

SETS, SIZE, BATCHES = 2, 8, 3


def tiny_fisher_config(folder, config=None, **changes):
    """JSON of ``config`` for one layer of width 16; ``section__key=`` or a key of ``fisher``."""
    config = config or fisher_config(init="random", seed=0)
    config.data.update(
        source="beir", path=str(folder), dev_queries=10, dev_documents=40, test_paths=()
    )
    config.model.update(layers=1, width=16, heads=2, vocab_size=300)
    config.text.update(query_max_length=16, document_max_length=32)
    config.fisher.update(
        candidates=SIZE,
        examples=SETS * SIZE,
        batches=BATCHES,
        parameter_examples=SIZE,
        steps=6,
        dampings=(0.1,),
        orders=(10,),
    )
    for key, value in changes.items():
        section, _, name = key.rpartition("__")
        config[section or "fisher"][name] = value
    return to_json(config)
