# Reads the output of go test -json: prints a line for each package, what a failed test printed, and at the end
# "N passed, N failed". Exits with 1 if anything failed or nothing ran.

# field returns the value of a string field of the JSON object in the line.
function field(name,    at, rest) {
	at = index($0, "\"" name "\":\"")
	if (!at) return ""
	rest = substr($0, at + length(name) + 4)
	match(rest, /^([^"\\]|\\.)*/)
	return substr(rest, 1, RLENGTH)
}

function plain(text) {
	gsub(/\\n/, "\n", text); gsub(/\\t/, "\t", text); gsub(/\\"/, "\"", text)
	gsub(/\\u003c/, "<", text); gsub(/\\u003e/, ">", text); gsub(/\\u0026/, "\\&", text); gsub(/\\u001b/, "", text)
	gsub(/\\\\/, "\\", text)
	return text
}

# seconds is how long the test or package of the line took.
function seconds(    at) {
	at = index($0, "\"Elapsed\":")
	return at ? substr($0, at + length("\"Elapsed\":")) + 0 : 0
}

# unended prints what a package's tests had said when it ended before them.
function unended(package,    key, at) {
	for (key in said) {
		split(key, at, SUBSEP)
		if (at[1] == package) printf "%s", said[key]
	}
}

!/^\{/ { print; next }

{
	action = field("Action"); package = field("Package"); test = field("Test")
}

action == "build-output" { printf "%s", plain(field("Output")) }
action == "output" { said[package, test] = said[package, test] plain(field("Output")) }
action == "pass" && test != "" { passed++; of[package]++ }
action == "skip" && test != "" { skipped++ }
action == "fail" && test != "" { failed++; here[package]++; printf "%s", said[package, test] }
action == "fail" && test == "" {
	if (!here[package]) { failed++; unended(package) }
	print "FAIL " package; fflush()
}
action == "pass" && test == "" { printf "ok   %s (%d passed, %d s)\n", package, of[package], seconds(); fflush() }
(action == "pass" || action == "fail" || action == "skip") { delete said[package, test] }

END {
	if (skipped) print skipped " skipped"
	printf "%d passed, %d failed\n", passed, failed
	exit failed > 0 || passed == 0
}
