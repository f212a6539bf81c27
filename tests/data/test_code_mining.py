import pytest

from magjax.data._code_mining import MAX_CHARACTERS, clone_key, first_sentence, mine_source


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Adds one to\nevery entry. Fast.", "Adds one to every entry."),
        ("Adds one to every entry\n\nReturns: it.", "Adds one to every entry"),
        ("Adds entries, e.g. two. Fast.", "Adds entries, e.g. two."),
        ("Adds entries, see `x.y`. Fast.", "Adds entries, see x.y."),
        ("add(a, b) -> int\n\nAdds the two numbers.", "Adds the two numbers."),
        ("Adds the two numbers.\nArgs:\n  a: one", "Adds the two numbers."),
        ("Adds the two numbers\n:param a: one", "Adds the two numbers"),
        ("Adds with :func:`~np.add` elementwise.", "Adds with np.add elementwise."),
        ("Args:\n  a: one two three", ""),
        ("a (int): the number to add to it", ""),
        ("Adds %(name)s to the entries.", ""),
        ("See base.", ""),
        ("", ""),
        ("word " * 61, ""),
    ],
)
def test_first_sentence(docstring, sentence):
    assert first_sentence(docstring) == sentence


SOURCE = '''
import functools


class Adder:
    @functools.cache
    def add(self, a, b):
        """Adds the two numbers.

        Args: many.
        """
        total = a + b  # sums

        def inner():
            "Is part of the outer function."
            return total
        return inner()

    def undocumented(self, a, b):
        total = a + b + 1
        return total * 2

    def stub(self):
        """Is left out as a stub."""
        raise NotImplementedError("for subclasses to write, at any length")

    @property
    def near_empty(self): return self._x


if True:
    async def one_line(a, b): 'Adds on one line.'; return a + b + a + b
'''


def test_functions_come_without_docstring_and_indentation():
    add, undocumented, one_line = mine_source(SOURCE)
    assert (add.name, add.query) == ("Adder.add", "Adds the two numbers.")
    assert add.source.splitlines()[:2] == [
        "def add(self, a, b):",
        "    total = a + b  # sums",
    ]
    assert "Is part" in add.source
    assert (undocumented.query, undocumented.documented) == ("", False)
    assert undocumented.source.startswith("def undocumented(self, a, b):\n    total")
    assert one_line.source == "async def one_line(a, b): return a + b + a + b"


def test_form_feeds_and_windows_line_ends_shift_no_lines():
    shifted = mine_source("\x0c\n" + SOURCE.replace("\n", "\r\n"))
    assert shifted == mine_source(SOURCE)


def test_text_before_a_docstring_may_be_wider_than_one_byte():
    (function,) = mine_source("def f(é='ü'): 'Adds the two.'; return é + é + é + é + é + é")
    assert function.source == "def f(é='ü'): return é + é + é + é + é + é"


def test_long_functions_end_at_a_line():
    (function,) = mine_source("def f(x):\n" + "    x = x + 1\n" * 1000)
    assert len(function.source) <= MAX_CHARACTERS
    assert function.source.endswith("    x = x + 1")


def test_clones_differ_only_in_class_names_and_comments():
    one = "def f(x):\n    return BertLayer(x)  # a"
    assert clone_key(one) == clone_key("def g(x):\n  return XLMRobertaLayer(x)")
    assert clone_key(one) != clone_key("def f(x):\n    return bert_layer(x)")
    assert clone_key(one) != clone_key("def f(y):\n    return BertLayer(y)")
