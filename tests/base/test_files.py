"""Files that a user named."""

import pytest

from mnemoscope.base.files import write_marked

MARKS = ("<!-- begin -->", "<!-- end -->")


def test_a_text_is_written_into_a_new_file_and_between_the_marks_of_an_existing_one(tmp_path):
    page = write_marked(tmp_path / "new" / "page.md", MARKS, "first")
    assert page.read_text() == "<!-- begin -->\nfirst\n<!-- end -->\n"
    page.write_text(f"Before.\n\n{page.read_text()}\nAfter.\n")
    write_marked(page, MARKS, "second")
    assert page.read_text() == "Before.\n\n<!-- begin -->\nsecond\n<!-- end -->\n\nAfter.\n"


@pytest.mark.parametrize("text", ["Notes.\n", "<!-- end --> and then <!-- begin -->\n", ""])
def test_a_file_without_the_marks_is_refused_and_unchanged(text, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match=r"page.md has no place for the text: .* Add them, or name another file."):
        write_marked(page, MARKS, "lost")
    assert page.read_text() == text
