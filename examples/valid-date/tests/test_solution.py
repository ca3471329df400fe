def candidate(*args):
    import solution
    return solution.valid_date(*args)


def test_01():
    assert candidate('03-11-2000') == True


def test_02():
    assert candidate('15-01-2012') == False


def test_03():
    assert candidate('04-0-2040') == False


def test_04():
    assert candidate('06-04-2020') == True


def test_05():
    assert candidate('01-01-2007') == True


def test_06():
    assert candidate('03-32-2011') == False


def test_07():
    assert candidate('') == False


def test_08():
    assert candidate('04-31-3000') == False


def test_09():
    assert candidate('06-06-2005') == True


def test_10():
    assert candidate('21-31-2000') == False


def test_11():
    assert candidate('04-12-2003') == True


def test_12():
    assert candidate('04122003') == False


def test_13():
    assert candidate('20030412') == False


def test_14():
    assert candidate('2003-04') == False


def test_15():
    assert candidate('2003-04-12') == False


def test_16():
    assert candidate('04-2003') == False
