"""Words of the field: each explained once, found where a text has them."""

import pytest

from advisor.lessons.glossary import MOST, explained, glossary


def test_every_word_has_a_sentence() -> None:
    assert len(glossary()) >= 45
    for word, term in glossary().items():
        assert term.means.endswith("."), word
        assert term.means[0].isupper() or not term.means[0].isalpha(), word


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Time to first token", ["time to first token"]),
        ("LoRA on 8B, TTFT 200 ms", ["adapter", "time to first token"]),
        ("tensor parallel 2 and ZeRO", ["tensor parallelism", "ZeRO"]),
        ("nothing to explain, from zero on", []),
        ("tokenizer and GiBs", []),
    ],
)
def test_words_are_found_whole_and_once(text: str, words: list[str]) -> None:
    assert [word for word, _ in explained(text)] == words


def test_a_text_explains_few_words() -> None:
    everything = " ".join(glossary())
    assert len(list(explained(everything))) == MOST
