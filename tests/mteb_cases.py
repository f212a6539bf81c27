"""What mteb wants to know of a task made in a test."""


def describe(mteb, name, kind, main_score):
    return mteb.TaskMetadata(
        name=name,
        description="Made in a test.",
        dataset={"path": "none", "revision": "1"},
        type=kind,
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=main_score,
    )
