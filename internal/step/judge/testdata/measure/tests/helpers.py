def near(found, wanted):
    assert abs(found - wanted) < 1e-6


def begins(found, wanted):
    assert found.startswith(wanted)
