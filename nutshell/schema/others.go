package schema

func resultTexts() []text {
	return []text{
		{path: "nutshell_version", says: "Version of the specification that the result follows."},
		{path: "bundle_type", says: "delivery."},
		{path: "request_id", says: "The id of the request that this answers."},
		{path: "id", says: "The id of the delivery bundle."},
		{path: "completed_at", says: "When the work ended."},

		{path: "deliverer", says: "Who did the work, by their own word."},
		{path: "deliverer.name", says: "An agent or a person."},
		{path: "deliverer.model", says: "The model that did it."},
		{path: "deliverer.tool", says: "The tool that ran the model."},
		{path: "deliverer.sessions_used", says: "How many sessions it took."},
		{path: "deliverer.total_tokens", says: "How many tokens it took."},

		{path: "status", says: "What came of the task."},
		{path: "completion_percentage", says: "How much of it is done, from 0 to 100."},
		{path: "summary", says: "What was done, in a few sentences."},

		{path: "artifacts", says: "The files that the work made or changed."},
		{path: "artifacts.files_created", says: "New files."},
		{path: "artifacts.files_created.path", says: "Where it is in the delivery, below delivery/artifacts."},
		{path: "artifacts.files_created.lines", says: "How many lines it has."},
		{path: "artifacts.files_created.diff_lines", says: "How many lines differ."},
		{path: "artifacts.files_modified", says: "Changed files."},
		{path: "artifacts.files_modified.path", says: "Where it is in the delivery, below delivery/artifacts."},
		{path: "artifacts.files_modified.lines", says: "How many lines it has."},
		{path: "artifacts.files_modified.diff_lines", says: "How many lines differ."},
		{path: "artifacts.total_lines", says: "How many lines all of them have."},

		{path: "acceptance_results", says: "How the work stands to the criteria, by the deliverer's own word."},
		{path: "acceptance_results.tests_passed", says: "How many tests passed."},
		{path: "acceptance_results.tests_failed", says: "How many tests failed."},
		{path: "acceptance_results.tests_skipped", says: "How many tests were not run."},
		{path: "acceptance_results.checklist", says: "The lines of the request's checklist."},
		{path: "acceptance_results.checklist.item", says: "The line, as the request has it."},
		{path: "acceptance_results.checklist.status", says: "What came of it."},

		{path: "execution_log", says: "How the work went."},
		{path: "execution_log.strategy_used", says: "The harness.execution_strategy that was followed."},
		{path: "execution_log.checkpoints", says: "Moments of the work."},
		{path: "execution_log.checkpoints.at", says: "When it was."},
		{path: "execution_log.checkpoints.description", says: "What was done by then."},
		{path: "execution_log.decisions", says: "Choices that the work made."},
		{path: "execution_log.decisions.decision", says: "What was chosen."},
		{path: "execution_log.decisions.reason", says: "Why."},
		{path: "execution_log.issues_encountered", says: "What went wrong on the way: texts, or objects with issue and resolution."},
		{path: "execution_log.credentials_used", says: "The audit trail: names of credentials, or objects with name and opened_at."},
		{path: "execution_log.full_log", says: "The file with the whole log, delivery/logs/execution.log."},

		{path: "tags", says: "Labels of the work."},
		{path: "tags.skills_used", says: "What it took to know."},
		{path: "tags.tools_used", says: "The tools that were used."},
		{path: "tags.complexity_actual", says: "How hard it was."},

		{path: "extensions", says: "What other tools add, each under its own name (section 10)."},
	}
}

func endpointsTexts() []text {
	return []text{
		{path: "api_version", says: "Version of the specification that the document follows."},
		{path: "base_url", says: "The address that the paths are appended to."},
		{path: "auth", says: "How calls are authorised."},
		{path: "auth.type", says: "The method."},
		{path: "auth.credential_ref", says: "The name of the credential in the vault."},
		{path: "endpoints", says: "The calls."},
		{path: "endpoints.method", says: "The HTTP method."},
		{path: "endpoints.path", says: "The path of the URL."},
		{path: "endpoints.description", says: "What the call does."},
		{path: "endpoints.params", says: "Parameters by name."},
		{path: "endpoints.params.type", says: "The JSON type of the parameter."},
		{path: "endpoints.params.description", says: "What the parameter means."},
		{path: "endpoints.params.required", says: "The call needs it."},
		{path: "endpoints.params.default", says: "What it is if it is left out."},
		{path: "endpoints.params.min", says: "The least that it may be."},
		{path: "endpoints.params.max", says: "The most that it may be."},
		{path: "endpoints.body_schema", says: "The file with the schema of the request's body, relative to this document."},
		{path: "endpoints.response_schema", says: "The file with the schema of the answer, relative to this document."},
		{path: "endpoints.example_request", says: "An example of the request's body.", only: true},
		{path: "endpoints.example_response", says: "An example of the answer.", only: true},
	}
}

// criteriaTexts describe the specification's members, and those of guild's own judge (docs/CRITERIA.md). The latter
// are not held to a type: to another judge the same name may mean something else.
func criteriaTexts() []text {
	return []text{
		{path: "criteria_version", says: "Version of the specification that the document follows."},
		{path: "test_framework", says: "What judges a criterion that has no type of its own."},
		{path: "auto_verifiable", says: "A program can decide. If false, a person does."},
		{path: "criteria", says: "The criteria."},
		{path: "criteria.id", says: "The name of the criterion, once in the file; AC-1 and so on if absent."},
		{path: "criteria.description", says: "What must be true, in words."},
		{path: "criteria.type", says: "What kind of test it is. Another word is your own, and test_framework judges it."},
		{path: "criteria.script", says: "A file or directory below tests/."},
		{path: "criteria.query", says: "Of a sql_check: the query."},
		{path: "criteria.expected", says: "What must come of it: status_code, body_contains, result and others, by type."},

		{path: "time_limit_seconds", says: "Judge: processor time of each run, from 1 to 3600; 10 if absent.", only: true},
		{path: "human_review_required", says: "Judge: true if a person looks at it in any case.", only: true},
		{path: "python_mode", says: "Judge: split or inproc, for criteria of type pytest.", only: true},
		{path: "service", says: "Judge: command or script, and port, for api_test criteria that have none.", only: true},
		{path: "criteria.layer", says: "Judge: smoke, correctness, edge, performance or security.", only: true},
		{path: "criteria.human_review_required", says: "Judge: true if a person looks at it in any case.", only: true},
		{path: "criteria.mode", says: "Judge: split or inproc, instead of python_mode.", only: true},
		{path: "criteria.command", says: "Judge: a program with its arguments, as a list, started in the workspace.", only: true},
		{path: "criteria.port", says: "Judge, api_test: where the service listens; 8080 if absent.", only: true},
		{path: "criteria.args", says: "Judge, io: more arguments of the command.", only: true},
		{path: "criteria.stdin", says: "Judge, io: standard input.", only: true},
		{path: "criteria.files", says: "Judge, io: files that are laid over the workspace, name to content.", only: true},
		{path: "criteria.method", says: "Judge, api_test: GET, or POST if there is a body.", only: true},
		{path: "criteria.endpoint", says: "Judge, api_test: the path, with or without a method before it.", only: true},
		{path: "criteria.headers", says: "Judge, api_test: headers of the request.", only: true},
		{path: "criteria.body", says: "Judge, api_test: a text is sent as it is, anything else as JSON.", only: true},
		{path: "criteria.database", says: "Judge, sql_check: the file below the workspace; database.sqlite if absent.", only: true},
		{path: "criteria.engine", says: "Judge, sql_check: sqlite if absent, or postgresql.", only: true},
		{path: "criteria.report", says: "Judge, shell and custom: tap if each test has a line.", only: true},
		{path: "criteria.tests", says: "Judge, tap, jest and node-test: how many tests there must be.", only: true},
		{path: "criteria.cases", says: "Judge, io, api_test and sql_check: several tests in one criterion.", only: true},
	}
}
