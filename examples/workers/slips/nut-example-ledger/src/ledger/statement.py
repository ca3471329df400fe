"""Statements: what happened to one account."""
from ledger.amount import show
from ledger.book import covers


def statement(book, account):
    text, balance = "", 0
    for entry in book.entries():
        touched = [cents for name, cents in entry.lines if covers(account, name)]
        if not touched:
            continue
        balance += sum(touched)
        text += f"{entry.date}  {entry.text[:20]:20} {show(sum(touched)):>10} {show(balance):>10}\n"
    return text
