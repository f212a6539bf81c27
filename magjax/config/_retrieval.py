"""What a text-retrieval run states."""

from ml_collections import ConfigDict

from magjax.config._training import training_config

__all__ = ["retrieval_config"]


def retrieval_config(*, variant: str, seed: int) -> ConfigDict:
    """What every text-retrieval run states; a file in ``configs/`` changes what differs.

    ``temperature.initial = 0`` calibrates it on the first batch, so that logits spread as those of
    cosine at ``temperature.reference`` do; its bounds are multiples of the initial value.
    ``model.init`` is ``"random"`` or the folder (or hub name) of a checkpoint.

    >>> config = retrieval_config(variant="qnorm", seed=1)
    >>> config.variant, config.loop.metric
    ('qnorm', 'ndcg@10')
    """
    config = training_config(task="text", variant=variant, seed=seed)
    config.data = ConfigDict(
        {
            "source": "code",  # code, beir, jsonl, hf_dataset, msmarco, msmarco_triples
            "path": "",  # folder or file of the other sources
            "train_split": "train",
            "test_split": "test",
            "test_paths": (),  # BEIR folders searched at the end, each a domain of its own
            "dev_queries": 300,  # held out of the training queries; they choose the best model
            "dev_documents": 3000,
        }
    )
    config.model = ConfigDict(
        {
            "init": "random",
            "model_type": "bert",
            "layers": 2,
            "width": 256,
            "heads": 4,
            "vocab_size": 8192,
            "pooling": "mean",
            "shared": True,
            "projection_dim": 0,  # 0: none
            "dropout": 0.0,
            "dtype": "float32",
            "remat": False,
        }
    )
    config.text = ConfigDict(
        {
            "query_prompt": "",
            "document_prompt": "",
            "query_max_length": 32,
            "document_max_length": 64,
        }
    )
    config.loss.negatives_per_query = 0
    config.loss.share_negatives = True
    config.evaluation.bm25 = True
    return config
