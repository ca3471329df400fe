from typing import List

def candidate(*args):
    import solution
    return solution.has_close_elements(*args)


def test_01():
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.3) == True


def test_02():
    assert candidate([1.0, 2.0, 3.9, 4.0, 5.0, 2.2], 0.05) == False


def test_03():
    assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.95) == True


def test_04():
    assert candidate([1.0, 2.0, 5.9, 4.0, 5.0], 0.8) == False


def test_05():
    assert candidate([1.0, 2.0, 3.0, 4.0, 5.0, 2.0], 0.1) == True


def test_06():
    assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 1.0) == True


def test_07():
    assert candidate([1.1, 2.2, 3.1, 4.1, 5.1], 0.5) == False
