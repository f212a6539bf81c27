"""What a run on images with captions states."""

from ml_collections import ConfigDict

from magjax.config._training import training_config

__all__ = ["image_text_config"]


def image_text_config(*, variant: str, seed: int) -> ConfigDict:
    """What every run on images with captions states; a file in ``configs/`` changes what differs.

    The sections ``loss``, ``temperature``, ``optimizer`` and ``loop`` are those of
    :func:`retrieval_config`. ``query_modality`` says which side the variant's "query" is: with
    ``"text"``, qnorm normalizes captions and leaves images their length. The score is one function
    of both, whichever side is searched. ``model.init`` is ``"random"`` or the folder (or hub name)
    of a CLIP or SigLIP checkpoint; ``model.text_init`` and ``model.image_init`` together take
    each tower from another checkpoint (LiT), ``optimizer.freeze`` then leaves one as it is.

    ``loop.metric`` is the development test's mean over both directions.

    Args:
        variant: a name in ``magjax.similarity.VARIANTS``.
        seed: of everything that is drawn.

    Returns:
        An unlocked config.

    >>> config = image_text_config(variant="dnorm", seed=0)
    >>> config.task, config.query_modality, config.loss.direction
    ('image_text', 'text', 'both')
    """
    config = training_config(task="image_text", variant=variant, seed=seed)
    config.query_modality = "text"  # or image
    config.data = ConfigDict(
        {
            "source": "icons",  # icons, folder, table, tfds
            "path": "",  # folder, table or shards, or the name of a TFDS set
            "test_path": "",  # of table: another table or shards
            "icon_size": 32,  # pixels at which icons are drawn
            "train_split": "train",  # of tfds, as are the next two
            "test_split": "test",
            "folder": "",  # where TFDS keeps its sets; empty: its own default
            "dev_images": 500,  # held out of training where the source has no development test
            "image_field": "",  # empty: the usual names are looked for
            "caption_field": "",
            "augmentation": "icon",  # none, photo, icon, placed
            "on_error": "raise",  # skip: leave out images that cannot be read, and count them
            "transparency": "white",  # what shows through: white, or drop (the alpha channel)
        }
    )
    config.model = ConfigDict(
        {
            "init": "random",
            "text_init": "",  # LiT: a tower of each of two checkpoints; set both
            "image_init": "",
            "family": "clip",  # of a random start: clip, siglip
            "dim": 0,  # of the embeddings; 0: the width, or the checkpoint's own
            "image_size": 32,  # 0: the checkpoint's own
            "patch_size": 8,
            "image_layers": 4,
            "image_width": 128,
            "image_heads": 4,
            "text_layers": 4,
            "text_width": 128,
            "text_heads": 4,
            "vocab_size": 4096,
            "dropout": 0.0,
            "dtype": "float32",
            "remat": False,
        }
    )
    config.text = ConfigDict({"prompt": "", "max_length": 16})
    config.loss.direction = "both"
    config.loop.metric = "mrr"
    config.evaluation = ConfigDict(
        {
            "metrics": ("success@1", "success@5", "success@10", "mrr"),
            "k": 100,
            "all_scores": False,  # also rank by the scores it was not trained for
        }
    )
    return config
