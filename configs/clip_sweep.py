"""A study on images: which side of a CLIP pair should keep its length?

    python launch/study.py --config=configs/clip_sweep.py

Five variants, two seeds, real icons, both directions of retrieval in and out of domain
(docs/studies.md says how studies work, docs/clip.md what is measured). A killed study goes on where
it was.
"""

import importlib.util
from pathlib import Path

from magjax.config import parse_arguments, study_claim, study_config

_IN = ("icons/in_domain:text_to_image", "icons/in_domain:image_to_text")
_OUT = ("icons/out_of_domain:text_to_image", "icons/out_of_domain:image_to_text")


def _base():
    place = Path(__file__).with_name("clip_asym.py")
    spec = importlib.util.spec_from_file_location("clip_asym", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config()


def get_config(arguments=None):
    """The runs of configs/clip_asym.py with fewer steps, so that ten of them take an hour."""
    parsed = parse_arguments(arguments, steps=1000)
    base = _base()
    base.loop.update(steps=parsed["steps"], evaluate_every=200, save_every=200)
    config = study_config(base, name="clip_sweep")
    config.title = "One-sided normalization of images and captions"
    config.question = (
        "A CLIP pair compares a caption with an image by cosine, which drops both lengths. The paper "
        "reports that keeping the length of one side helps one direction of retrieval and costs the "
        "other. Does it here?"
    )
    config.setup = (
        "Captions are the names of icons, images are the icons, 32 pixels wide. Here captions are the "
        "queries of the score: qnorm normalizes captions and keeps the lengths of images, dnorm the "
        "reverse. Names of three icon families that were held out are searched in domain, three other "
        "families out of domain, each in both directions by the same score."
    )
    config.tasks = {"icons": {}}
    config.starts = {"random": {}}
    config.seeds = (0, 1)
    config.metrics = ("success@10", "mrr")
    config.in_domain = _IN
    config.lexical = False
    claims = []
    for domains, where in ((_IN, "in domain"), (_OUT, "out of domain")):
        to_images, to_text = domains
        claims += [
            study_claim(
                f"Keeping the images' length (qnorm) beats cosine when captions search images, {where}.",
                better=("qnorm",),
                than=("cosine",),
                domain=to_images,
            ),
            study_claim(
                f"Keeping the images' length (qnorm) loses to cosine when images search captions, {where}.",
                better=("cosine",),
                than=("qnorm",),
                domain=to_text,
            ),
            study_claim(
                f"Keeping the captions' length (dnorm) beats cosine when images search captions, {where}.",
                better=("dnorm",),
                than=("cosine",),
                domain=to_text,
            ),
            study_claim(
                f"Keeping the captions' length (dnorm) loses to cosine when captions search images, {where}.",
                better=("cosine",),
                than=("dnorm",),
                domain=to_images,
            ),
        ]
    config.claims = tuple(claims)
    return config
