import importlib
import pickle

from solution import as_module, as_pickle, as_text, total


def test_text():
    assert eval(as_text([1, 2])) == [1, 2]


def test_pickle():
    assert pickle.loads(as_pickle({"a": 1})) == {"a": 1}


def test_module(tmp_path, monkeypatch):
    (tmp_path / "made.py").write_text(as_module({"LIMIT": 3}))
    monkeypatch.syspath_prepend(tmp_path)
    assert importlib.import_module("made").LIMIT == 3


def test_total():
    assert total([1, 2]) == 3
