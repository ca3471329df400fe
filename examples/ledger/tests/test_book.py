from datetime import date

import pytest


def new_book():
    from ledger.book import Book
    return Book()


def filled():
    book = new_book()
    book.post(date(2026, 3, 4), "stamps", [("expenses:post", 320), ("assets:cash", -320)])
    book.post(date(2026, 3, 1), "dues", [("assets:cash", 2500), ("income:dues", -2500)])
    book.post(date(2026, 3, 4), "to the bank", [("assets:bank", 1000), ("assets:cash", -1000)])
    return book


def test_entries_stand_by_date_and_then_as_posted():
    assert [entry.text for entry in filled().entries()] == ["dues", "stamps", "to the bank"]


def test_an_entry_keeps_what_was_posted():
    entry = filled().entries()[0]
    assert entry.date == date(2026, 3, 1)
    assert [tuple(line) for line in entry.lines] == [("assets:cash", 2500), ("income:dues", -2500)]


def test_an_unbalanced_entry_is_refused():
    from ledger.book import Unbalanced
    book = new_book()
    with pytest.raises(Unbalanced):
        book.post(date(2026, 3, 1), "oops", [("a", 1), ("b", -2)])
    book.post(date(2026, 3, 1), "better", [("a", 1), ("b", -1)])
    assert [entry.text for entry in book.entries()] == ["better"]


def test_an_entry_of_one_line_is_refused():
    from ledger.book import Unbalanced
    book = new_book()
    with pytest.raises(Unbalanced):
        book.post(date(2026, 3, 1), "nothing", [("a", 0)])
    book.post(date(2026, 3, 1), "nothing twice", [("a", 0), ("b", 0)])
    assert list(book.accounts()) == ["a", "b"]


def test_a_refused_entry_leaves_nothing_behind():
    book = filled()
    with pytest.raises(ValueError):
        book.post(date(2026, 3, 2), "oops", [("assets:safe", 1), ("b", -2)])
    assert [entry.text for entry in book.entries()] == ["dues", "stamps", "to the bank"]
    assert list(book.accounts()) == ["assets:bank", "assets:cash", "expenses:post", "income:dues"]


def test_a_balance_adds_up_one_account():
    assert filled().balance("assets:cash") == 1180


def test_a_balance_covers_the_accounts_below():
    assert filled().balance("assets") == 2180


def test_a_balance_leaves_out_accounts_that_only_begin_alike():
    book = filled()
    book.post(date(2026, 3, 5), "old books", [("assets-old", 700), ("equity", -700)])
    assert book.balance("assets") == 2180


def test_until_includes_that_day():
    assert filled().balance("assets:cash", until=date(2026, 3, 4)) == 1180


def test_until_leaves_out_later_days():
    assert filled().balance("assets:cash", until=date(2026, 3, 3)) == 2500


def test_an_unknown_account_has_nothing():
    assert filled().balance("liabilities") == 0


def test_accounts_are_sorted_and_named_once():
    assert list(filled().accounts()) == ["assets:bank", "assets:cash", "expenses:post", "income:dues"]


def test_the_list_of_entries_is_a_copy():
    book = filled()
    book.entries().clear()
    assert [entry.text for entry in book.entries()] == ["dues", "stamps", "to the bank"]


def test_the_lines_of_an_entry_are_a_copy():
    book, lines = new_book(), [("a", 5), ("b", -5)]
    book.post(date(2026, 3, 1), "gift", lines)
    lines.append(("a", 100))
    assert book.balance("a") == 5
