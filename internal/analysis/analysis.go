// Package analysis reads delivered code without running it, and measures how much of it the tests reach: pylint,
// mypy, bandit, patterns of its own, and coverage. Every tool runs in a sandbox, for a linter's plugins and
// configuration are code, too. What it finds lowers a score; it never decides one alone.
package analysis
