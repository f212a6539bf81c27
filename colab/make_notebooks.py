"""Makes the notebooks of this folder from their sources: ``python colab/make_notebooks.py``.

A source is a Python file in jupytext's percent format. Its notebook has no outputs, and its cells
have ids that count them, so that the same source gives the same bytes.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = ("quickstart", "magnitude_and_gradients", "which_side_to_normalize", "clip")
METADATA = {
    "accelerator": "GPU",  # what Colab offers first; TPU and CPU work too
    "colab": {"provenance": []},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def notebook_text(source: str) -> str:
    """The ``.ipynb`` file's content for the text of a percent file."""
    import jupytext
    import nbformat

    notebook = jupytext.reads(source, fmt="py:percent")
    notebook.metadata = nbformat.from_dict(METADATA)
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number:02d}"
        cell.metadata = nbformat.from_dict({})
    return nbformat.writes(notebook, version=4) + "\n"


def main() -> None:
    """Writes every notebook anew."""
    for name in NAMES:
        text = notebook_text((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
        (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(f"wrote {name}.ipynb", file=sys.stderr)


if __name__ == "__main__":
    main()
