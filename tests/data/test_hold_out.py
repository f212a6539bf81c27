from magjax.data import TrainingSet, hold_out


def test_development_queries_leave_training():
    data = TrainingSet(
        [f"q{i}" for i in range(23)],
        [f"query {i // 2}" for i in range(23)],
        [(i,) for i in range(23)],
        [()] * 23,
        [f"d{i}" for i in range(23)],
        [f"document {i}" for i in range(23)],
    )
    rest, development = hold_out(data, queries=4, documents=20, seed=0)
    assert len(development.queries) == 4
    assert len(development.documents) == 20
    assert not set(development.queries) & set(rest.queries)
    answers = {d for row in development.qrels.values() for d in row}
    assert answers <= set(development.document_ids)
    assert not answers & {rest.document_ids[i] for row in rest.positives for i in row}
