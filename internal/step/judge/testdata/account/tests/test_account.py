import pytest

import solution
from solution import Account, Overdrawn


def test_balance():
    account = Account(10)
    account.deposit(5)
    assert account.balance == 15
    account.withdraw(3)
    assert account.balance == 12


def test_overdrawn():
    account = Account(1)
    with pytest.raises(Overdrawn) as caught:
        account.withdraw(3)
    assert caught.value.missing == 2
    assert isinstance(caught.value, ValueError)
    assert account.balance == 1


def test_movements():
    account = Account(10)
    account.deposit(5)
    account.withdraw(3)
    assert list(account) == [("deposit", 5), ("withdraw", 3)]


def test_callback():
    account = Account(10)
    account.deposit(5)
    account.deposit(6)
    seen = []
    account.each(lambda kind, amount: seen.append((kind, amount)))
    assert seen == [("deposit", 5), ("deposit", 6)]


def test_equality():
    assert Account(3) == Account(3)
    assert Account(3) != Account(4)
    assert not Account(3) == Account(4)


def test_closing():
    with Account(7) as account:
        assert isinstance(account, Account)
        assert not isinstance(account, solution.Overdrawn)
    with pytest.raises(RuntimeError):
        account.deposit(1)
