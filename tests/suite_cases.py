"""Toy data sets on disk, in the forms that suites read."""

import json


def write_lines(path, rows):
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_beir(folder, corpus, queries, split="test", **grades):
    """A BEIR folder; ``grades`` are ``query="document document"``, all of grade 1."""
    write_lines(folder / "corpus.jsonl", [{"_id": d, "text": t} for d, t in corpus.items()])
    write_lines(folder / "queries.jsonl", [{"_id": q, "text": t} for q, t in queries.items()])
    lines = ["query-id\tcorpus-id\tscore"]
    lines += [f"{q}\t{d}\t1" for q, names in grades.items() for d in names.split()]
    (folder / "qrels").mkdir(exist_ok=True)
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def values(report, metric):
    """``{data set: value}`` of the model's rows."""
    return {row.name: row.values[metric] for row in report.rows if row.system == "model"}
