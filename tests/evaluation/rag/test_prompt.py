import pytest
from hypothesis import given
from hypothesis import strategies as st

from magjax.checks import InputError
from magjax.evaluation.rag import CLOSED_BOOK_TEMPLATE, DEFAULT_TEMPLATE, PromptTemplate

PASSAGES = [("Emma", "by Jane Austen"), ("", "another")]


def test_the_default_prompt_holds_question_and_numbered_passages():
    prompt = PromptTemplate(DEFAULT_TEMPLATE, passages=2).fill("who wrote Emma?", PASSAGES)
    assert "[1] Emma\nby Jane Austen\n\n[2] another\n\nQuestion: who wrote Emma?\nAnswer:" in prompt
    closed = PromptTemplate(CLOSED_BOOK_TEMPLATE, passages=0).fill("who wrote Emma?", [])
    assert closed.endswith("Question: who wrote Emma?\nAnswer:")


@given(st.text(), st.text(), st.text())
def test_texts_stand_in_the_prompt_as_they_are(question, title, text):
    template = PromptTemplate('{{"q": "{question}"}}|{passages}|{question}', passages=1)
    shown = f"[1] {title}\n{text}" if title else f"[1] {text}"
    expected = '{"q": "' + question + '"}|' + shown + "|" + question
    assert template.fill(question, [(title, text)]) == expected


@pytest.mark.parametrize(
    ("text", "passages", "message"),
    [
        ("{question} {context}", 1, "unknown place in braces 'context'; known: question, passages"),
        ("{question} {passage}", 1, "Did you mean 'passages'"),
        ("{question!r} {passages}", 1, "unknown place in braces 'question!r:'"),
        ("{question} {passages[0]}", 1, r"unknown place in braces 'passages\[0\]'"),
        ("{question} {}", 1, "unknown place in braces ''"),
        ("{passages}", 1, "no place {question}"),
        ("{question}", 1, "has no place {passages}, but 1 passages are to be shown"),
        ("{question} {passages}", 0, "has a place {passages}, but no passage is shown"),
        ("{question} {passages} {", 1, "braces"),
        ("{question} } {passages}", 1, "write {{ and }} for braces"),
    ],
)
def test_a_template_that_cannot_be_filled_is_refused(text, passages, message):
    with pytest.raises(InputError, match=message):
        PromptTemplate(text, passages=passages)


def test_a_template_is_read_from_a_file(tmp_path):
    file = tmp_path / "prompt.txt"
    file.write_bytes(b"\xef\xbb\xbf{passages}\nQ: {question}\n")
    assert PromptTemplate.read(file, passages=1).fill("who?", [("", "x")]) == "[1] x\nQ: who?"
    file.write_bytes(b"\xff{question}")
    with pytest.raises(InputError, match=r"prompt\.txt: the prompt template is not UTF-8"):
        PromptTemplate.read(file, passages=1)
    file.write_text("{passages}")
    with pytest.raises(InputError, match=r"prompt\.txt has no place {question}"):
        PromptTemplate.read(file, passages=1)
    with pytest.raises(InputError, match="cannot be read"):
        PromptTemplate.read(tmp_path, passages=1)
