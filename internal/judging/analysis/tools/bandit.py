"""Bandit, without a configuration, and deaf to the comments that silence it."""
try:
    import bandit
    from bandit.core import config as bandit_config
    from bandit.core import manager as bandit_manager
except ImportError:
    bandit = None


def read(order):
    """The issues that bandit finds."""
    if bandit is None:
        return {"absent": True}
    manager = bandit_manager.BanditManager(bandit_config.BanditConfig(), "file", quiet=True, ignore_nosec=True)
    manager.discover_files(order["files"], recursive=False)
    manager.run_tests()
    found = []
    for issue in manager.get_issue_list():
        one = issue.as_dict(with_code=False)
        severity = {"HIGH": "high", "MEDIUM": "medium"}.get(one["issue_severity"], "low")
        found.append(finding(one["test_id"], severity, one["filename"], one["line_number"], one["issue_text"]))
    found.sort(key=lambda f: (("high", "medium", "low").index(f["severity"]), f["file"], f["line"]))
    return {"version": bandit.__version__, "count": len(found), "findings": found[:MOST]}
