from ledger.replies import as_entries, as_int, as_pairs, as_text, as_texts


def test_bytes_and_text_read_the_same() -> None:
    assert as_text(b"\xc3\xa9") == as_text("é") == "é"
    assert as_text(None) == ""
    assert as_text(7) == "7"


def test_numbers_come_as_numbers_or_text_or_not_at_all() -> None:
    assert [as_int(7), as_int(b"7"), as_int("7"), as_int(None), as_int("")] == [7, 7, 7, 0, 0]


def test_lists_may_be_absent() -> None:
    assert as_texts([b"a", "b"]) == ["a", "b"]
    assert as_texts(None) == []


def test_fields_come_as_a_mapping_or_a_flat_list() -> None:
    assert as_pairs({b"a": b"1"}) == as_pairs([b"a", b"1"]) == {"a": "1"}
    assert as_pairs([]) == {}


def test_stream_entries_are_ids_and_fields() -> None:
    assert as_entries([[b"1-0", [b"a", b"1"]], ("2-0", {"a": "2"})]) == [("1-0", {"a": "1"}), ("2-0", {"a": "2"})]
    assert as_entries(None) == []
