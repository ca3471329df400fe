def candidate(*args):
    import solution
    return solution.correct_bracketing(*args)


def test_01():
    assert candidate("<>")


def test_02():
    assert candidate("<<><>>")


def test_03():
    assert candidate("<><><<><>><>")


def test_04():
    assert candidate("<><><<<><><>><>><<><><<>>>")


def test_05():
    assert not candidate("<<<><>>>>")


def test_06():
    assert not candidate("><<>")


def test_07():
    assert not candidate("<")


def test_08():
    assert not candidate("<<<<")


def test_09():
    assert not candidate(">")


def test_10():
    assert not candidate("<<>")


def test_11():
    assert not candidate("<><><<><>><>><<>")


def test_12():
    assert not candidate("<><><<><>><>>><>")
