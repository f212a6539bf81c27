"""Code search from a random start: docstring sentences find their functions.

    python launch/train.py --config=configs/retrieval_code.py --workdir=runs/code
    python launch/train.py --config=configs/retrieval_code.py:variant=qnorm,seed=1 --workdir=...

Data: functions of installed packages (no download); trained on one set of packages, tested on
held-out functions of the same packages (in_domain) and on other packages (out_of_domain).

What to expect, first command, on 2 CPU cores (Intel Xeon, Python 3.11, JAX 0.10.2; one run): 6 min
23 s with mining the corpus, 1.7 GB; nDCG@10 in domain 0.046 untrained, 0.539 trained (BM25 0.353);
out of domain 0.045 untrained, 0.306 trained (BM25 0.270).
"""

from magjax.config import parse_arguments, retrieval_config


def get_config(arguments=None):
    """The default run: a 2-layer BERT of width 256, trained from scratch on 200 batches of 64 pairs."""
    return retrieval_config(**parse_arguments(arguments, variant="cosine", seed=0))
