"""What a Fisher measurement states."""

from ml_collections import ConfigDict

from magjax.config._retrieval import retrieval_config

__all__ = ["fisher_config"]


def fisher_config(*, init: str, seed: int) -> ConfigDict:
    """What every Fisher measurement states; a file in ``configs/`` changes what differs.

    The sections ``data``, ``model`` and ``text`` are those of :func:`retrieval_config`, so that a
    start model is measured on the very data, prompts and lengths it would be trained with.

    Args:
        init: the start model: ``"random"``, or the folder (or hub name) of a checkpoint.
        seed: draws the batches and, for ``"random"``, the model.

    Returns:
        An unlocked config of ``seed``, ``data``, ``model``, ``text`` and ``fisher``.

    >>> config = fisher_config(init="random", seed=0)
    >>> sorted(config)
    ['data', 'fisher', 'model', 'seed', 'text']
    >>> config.model.init, config.fisher.kind, config.fisher.measure
    ('random', 'ggn', 'document|effective_rank')
    """
    base = retrieval_config(variant="cosine", seed=seed)
    config = ConfigDict({"seed": seed, "data": base.data, "model": base.model, "text": base.text})
    config.model.init = init
    config.fisher = ConfigDict(
        {
            "task": "asymmetric",  # symmetric (STS, clustering): one-sided scores are not advised
            "variants": ("cosine", "dot", "qnorm", "dnorm"),  # or powers such as "0.5,1"
            # query and document are embedding spaces; parameter spaces are all, last_block,
            # each_block, projection, embeddings, or a regular expression of parameter names.
            "spaces": ("query", "document"),
            "kind": "ggn",  # ggn (the true Fisher), monte_carlo or empirical
            "samples": 8,  # labels a query of monte_carlo
            "direction": "query_to_document",  # document_to_query, or both
            "candidates": 64,  # pairs of a candidate set: what a query's softmax runs over
            "examples": 512,  # queries of a batch, a multiple of candidates
            "batches": 5,  # independent batches; their spread gives the intervals
            "reference_temperature": 0.05,  # cosine's, matched by every other variant
            "confidence": 0.95,
            "dampings": (0.1, 0.01, 0.001),  # of the mean eigenvalue
            "orders": (10, 64),
            "measure": "document|effective_rank",  # decides the advice: space|measure
            "steps": 48,  # of Lanczos, parameter spaces
            "probes": 1,  # start vectors of Lanczos
            "parameter_batches": 1,  # batches of the parameter spaces
            "parameter_examples": 64,  # queries of such a batch
            "micro_batch": 32,  # pairs embedded at a time
            "memory_gib": 2.0,  # the encoder's residuals stay between products below this
        }
    )
    return config
