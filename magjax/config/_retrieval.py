"""What a text-retrieval run states."""

from ml_collections import ConfigDict

__all__ = ["retrieval_config"]


def retrieval_config(*, variant: str, seed: int) -> ConfigDict:
    """What every text-retrieval run states; a file in ``configs/`` changes what differs.

    ``temperature.initial = 0`` calibrates it on the first batch; its bounds are multiples of the
    initial value. ``model.init`` is ``"random"`` or the folder (or hub name) of a checkpoint.

    >>> config = retrieval_config(variant="qnorm", seed=1)
    >>> config.variant, config.loop.metric
    ('qnorm', 'ndcg@10')
    """
    config = ConfigDict()
    config.seed = seed
    config.variant = variant
    config.batch_size = 64
    config.accumulation = 1
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
    config.loss = ConfigDict(
        {
            "name": "info_nce",
            "direction": "query_to_document",
            "negatives_per_query": 0,
            "share_negatives": True,
            "multiple_positives": "mask",
            "label_smoothing": 0.0,
        }
    )
    config.temperature = ConfigDict(
        {"initial": 0.0, "learn": True, "lowest_ratio": 0.2, "highest_ratio": 20.0}
    )
    config.gamma_initial = 0.5  # of variant=learnable, both sides
    config.optimizer = ConfigDict(
        {
            "learning_rate": 1e-3,
            "head_learning_rate_scale": 1.0,
            "schedule": "cosine",
            "warmup_fraction": 0.1,
            "weight_decay": 0.01,
            "clip_norm": 1.0,
            "b1": 0.9,
            "b2": 0.999,
            "eps": 1e-8,
        }
    )
    config.loop = ConfigDict(
        {
            "steps": 200,
            "evaluate_every": 100,
            "save_every": 100,
            "log_every": 10,
            "keep": 2,
            "metric": "ndcg@10",
            "patience": 0,
        }
    )
    config.evaluation = ConfigDict(
        {
            "metrics": ("ndcg@10", "mrr@10", "recall@100", "map", "success@5"),
            "k": 100,
            "bm25": True,
        }
    )
    return config
