"""Statements: what happened to one account."""


def statement(book, account):
    raise NotImplementedError
