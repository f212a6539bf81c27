"""What every training run states, whatever its data."""

from ml_collections import ConfigDict

__all__ = ["training_config"]


def training_config(*, task: str, variant: str, seed: int) -> ConfigDict:
    """The keys that runs on texts and runs on images with captions share.

    ``temperature.initial = 0`` calibrates it on the first batch, so that logits spread as those of
    cosine at ``temperature.reference`` do; its bounds are multiples of the initial value.

    Args:
        task: what is trained, a key of ``magjax.study.TASKS``.
        variant: a name in ``magjax.similarity.VARIANTS``.
        seed: of everything that is drawn.
    """
    config = ConfigDict()
    config.task = task
    config.seed = seed
    config.variant = variant
    config.batch_size = 64
    config.accumulation = 1
    config.loss = ConfigDict(
        {
            "name": "info_nce",
            "direction": "query_to_document",
            "direction_weights": (0.5, 0.5),  # of "both": query to document, document to query
            "multiple_positives": "mask",
            "label_smoothing": 0.0,
        }
    )
    config.temperature = ConfigDict(
        {
            "initial": 0.0,
            "reference": 0.05,
            "learn": True,
            "lowest_ratio": 0.2,
            "highest_ratio": 20.0,
        }
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
            "freeze": (),  # patterns of parameter names, such as ("document_tower",)
        }
    )
    config.loop = ConfigDict(
        {
            "steps": 200,
            "evaluate_every": 100,
            "save_every": 100,
            "log_every": 10,
            "keep": 2,  # of the newest checkpoints
            "keep_best": 0,  # of the best by metric, beside those
            "keep_every": 0,  # checkpoints at multiples of this stay for good; 0: none
            "metric": "ndcg@10",
            "patience": 0,
        }
    )
    config.evaluation = ConfigDict(
        {"metrics": ("ndcg@10", "mrr@10", "recall@100", "map", "success@5"), "k": 100}
    )
    return config
