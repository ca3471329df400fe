from datetime import date


def statement_of(account, *posts):
    from ledger.book import Book
    from ledger.statement import statement
    book = Book()
    for post in posts:
        book.post(*post)
    return statement(book, account)


DUES = (date(2026, 3, 1), "dues", [("assets:cash", 2500), ("income:dues", -2500)])
STAMPS = (date(2026, 3, 4), "stamps", [("expenses:post", 320), ("assets:cash", -320)])
BANK = (date(2026, 3, 4), "to the bank", [("assets:bank", 1000), ("assets:cash", -1000)])


def test_each_line_carries_the_running_balance():
    assert statement_of("assets:cash", DUES, STAMPS) == (
        "2026-03-01  dues                      25.00      25.00\n"
        "2026-03-04  stamps                    -3.20      21.80\n")


def test_lines_stand_by_date():
    assert statement_of("assets:cash", STAMPS, DUES) == statement_of("assets:cash", DUES, STAMPS)


def test_entries_of_other_accounts_are_left_out():
    assert statement_of("income:dues", DUES, STAMPS) == (
        "2026-03-01  dues                     -25.00     -25.00\n")


def test_an_entry_within_the_account_shows_what_it_changes():
    assert statement_of("assets", DUES, BANK) == (
        "2026-03-01  dues                      25.00      25.00\n"
        "2026-03-04  to the bank                0.00      25.00\n")


def test_a_long_text_is_cut():
    gift = (date(2026, 4, 1), "a gift from a member of the club", [("a", 100), ("b", -100)])
    assert statement_of("a", gift) == "2026-04-01  a gift from a member       1.00       1.00\n"


def test_an_untouched_account_has_an_empty_statement():
    assert statement_of("liabilities", DUES) == ""
