package schema

// finishEndpoints adds members that are described and not read.
func finishEndpoints(root *node) {
	root.at("endpoints").Items.describe([][2]string{
		{"example_request", "An example of the request's body."},
		{"example_response", "An example of the answer."},
	})
}

// finishCriteria adds the members of guild's own judge (docs/CRITERIA.md). They are not held to a type: to another
// judge the same name may mean something else.
func finishCriteria(root *node) {
	root.describe([][2]string{
		{"time_limit_seconds", "Judge: processor time of each run, from 1 to 3600; 10 if absent."},
		{"human_review_required", "Judge: true if a person looks at it in any case."},
		{"python_mode", "Judge: split or inproc, for criteria of type pytest, node-test and jest."},
		{"service", "Judge: command or script, and port, for api_test criteria that have none."},
	})
	root.at("criteria").Items.describe([][2]string{
		{"layer", "Judge: smoke, correctness, edge, performance or security."},
		{"human_review_required", "Judge: true if a person looks at it in any case."},
		{"mode", "Judge: split or inproc, instead of python_mode."},
		{"build", "Judge, node-test: a command, run with the delivery before the tests."},
		{"command", "Judge: a program with its arguments, as a list, started in the workspace."},
		{"port", "Judge, api_test: where the service listens; 8080 if absent."},
		{"args", "Judge, io: more arguments of the command."},
		{"stdin", "Judge, io: standard input."},
		{"files", "Judge, io: files that are laid over the workspace, name to content."},
		{"method", "Judge, api_test: GET, or POST if there is a body."},
		{"endpoint", "Judge, api_test: the path, with or without a method before it."},
		{"headers", "Judge, api_test: headers of the request."},
		{"body", "Judge, api_test: a text is sent as it is, anything else as JSON."},
		{"database", "Judge, sql_check: the file below the workspace; database.sqlite if absent."},
		{"engine", "Judge, sql_check: sqlite if absent, or postgresql."},
		{"report", "Judge, shell and custom: tap if each test has a line."},
		{"tests", "Judge, tap, jest and node-test: how many tests there must be."},
		{"cases", "Judge, io, api_test and sql_check: several tests in one criterion."},
	})
}

// describe adds members of any type, by their names and descriptions.
func (n *node) describe(members [][2]string) {
	for _, m := range members {
		n.Properties = append(n.Properties, property{m[0], &node{Description: m[1]}})
	}
}
