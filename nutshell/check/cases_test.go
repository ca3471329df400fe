package check_test

import "strings"

const (
	ageFile  = "age-encryption.org/v1\n-> X25519 abc\nbody\n-> xyz-grease\nbody\n--- mac\nrest"
	scopes   = `"scopes":[{"name":"staging-db","type":"postgresql"}]`
	vaultAge = `"credentials":{"vault":"v.json","encryption":"age",` + scopes + `}`
)

// cases are trees, and the lines of Tree about them without the usual ones.
var cases = []struct {
	name     string
	manifest string
	files    []string
	want     []string
	fixes    []string
	missing  []string
}{
	{name: "a bundle that lacks nothing", manifest: task(""), want: []string{}},
	{
		name:     "a minimal bundle is ready, and could be better",
		manifest: `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T"}}`,
		want: []string{
			"⚠ task.summary: empty — agent only has the title to go by",
			"⚠ acceptance: no test scripts — agent can't self-verify",
			"⚠ harness.constraints: empty — agent has no guardrails",
		},
		fixes: []string{
			"Add a summary with: nutshell set task.summary 'the task in one or two sentences'",
			"Create tests/scripts/test.sh, and name it with: nutshell set acceptance.test_scripts tests/scripts/test.sh",
			"Add guardrails with: nutshell set harness.constraints 'Do not modify files outside files/'",
		},
	},
	{
		name: "an empty manifest lacks all that is required", manifest: `{"harness":{"constraints":["c"]},"acceptance":{"test_scripts":["t.sh"]}}`,
		want: []string{
			"✗ nutshell_version: missing — no reader takes the bundle", "✗ bundle_type: missing — no reader takes the bundle",
			"✗ id: missing — no reader takes the bundle", "✗ task.title: missing — agent doesn't know what to do",
			"⚠ task.summary: empty — agent only has the title to go by",
		},
		fixes: []string{
			"Set it with: nutshell set nutshell_version 0.2.0", "Set it with: nutshell set bundle_type request",
			"Set it with: nutshell set id nut-e858d1bd-e5e9-8413-adcb-a6495466707e",
			"Give it a title with: nutshell set task.title 'what is to be done'",
			"Add a summary with: nutshell set task.summary 'the task in one or two sentences'",
		},
		missing: []string{"nutshell_version", "bundle_type", "id", "task.title"},
	},
	{
		name: "a version that nobody knows", manifest: strings.Replace(task(""), "0.2.0", "9.0", 1),
		want: []string{`✗ nutshell_version: "9.0" is not known, only 0.x`}, missing: []string{"nutshell_version"},
	},
	{
		name: "a deadline that has passed", manifest: task(`"expires_at":"2026-03-21T10:00:00Z"`),
		want:  []string{"⚠ expires_at: passed on 2026-03-21 — agent would come too late"},
		fixes: []string{"Set a new deadline with: nutshell set expires_at 2026-04-04T12:00:00Z"},
	},
	{name: "a deadline to come", manifest: task(`"expires_at":"2026-03-28T12:00:01Z"`), want: []string{}},
	{
		name: "a deadline that is a day lasts until its end", manifest: task(`"expires_at":"2026-03-28"`),
		want: []string{`⚠ expires_at: "2026-03-28" is not a time in RFC 3339`},
	},
	{
		name: "a deadline that is a day passes with it", manifest: task(`"expires_at":"2026-03-27"`),
		want: []string{"⚠ expires_at: passed on 2026-03-27 — agent would come too late"},
	},
	{
		name: "a deadline that is no date", manifest: task(`"expires_at":"soon"`),
		want: []string{`⚠ expires_at: "soon" is not a date like 2026-03-21T10:00:00Z`},
	},
	{
		name:     "values that the specification does not know",
		manifest: `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"T","summary":"S","priority":"asap"},"acceptance":{"test_scripts":["t.sh"]},"harness":{"constraints":["c"],"agent_type_hint":"robot","context_budget_hint":35}}`,
		want: []string{
			`⚠ task.priority: "asap" is not a value that the specification knows`,
			"⚠ harness.context_budget_hint: 35 is not between 0 and 1",
			`⚠ harness.agent_type_hint: "robot" is not a value that the specification knows`,
		},
	},
	{
		name:     "context that is there, empty, a template, missing, a folder",
		manifest: task(`"context":{"requirements":"context/requirements.md","architecture":"context/architecture.md","references":"./context/references.md","additional":["context/more.md","context/sub/","context/empty.md",""]}`),
		files:    []string{"context/references.md=# References\n\n<!--\nmany\nlines -->\n(Describe)\n- FR-1: ...\n", "context/requirements.md", "context/sub/a.md", "context/empty.md="},
		want: []string{
			"✓ context/requirements.md: exists (18 B)",
			"✗ context/architecture.md: referenced but missing",
			"⚠ context/references.md: only a template — agent has to guess",
			"✗ context/more.md: referenced but missing",
			"✓ context/sub: exists (folder)",
			"⚠ context/empty.md: empty — agent gets nothing from it",
			"✗ context.additional.3: is an empty path",
		},
		fixes: []string{
			"Create context/architecture.md with system architecture", "Write context/references.md",
			"Create context/more.md, or take it out of context.additional", "Write context/empty.md",
			"Take it out of the list, or name a file",
		},
		missing: []string{"context.architecture", "context.additional.0", "context.additional.3"},
	},
	{
		name:     "paths that lead out of the bundle",
		manifest: task(`"context":{"requirements":"../secret.md","architecture":"/etc/passwd","references":"context\\x.md"}`),
		want: []string{
			"✗ ../secret.md: leads out of the bundle", "✗ /etc/passwd: the path is absolute", `✗ context\x.md: the path has a backslash`,
		},
		fixes: []string{
			"Set context.requirements to a path within the bundle", "Set context.architecture to a path within the bundle",
			"Set context.references to a path within the bundle",
		},
		missing: []string{"context.requirements", "context.architecture", "context.references"},
	},
	{
		name: "a path that is a web address", manifest: task(`"context":{"references":"https://example.com/wiki"}`),
		want: []string{"⚠ https://example.com/wiki: is not in the bundle — agent may not reach it"},
	},
	{
		name: "files that are listed", manifest: task(`"files":{"tree":[{"path":"nutshell.json"},{"path":"files/a"},{"path":"files/b","size":99}]}`),
		files: []string{"files/a", "files/b"},
		want:  []string{"✓ files: all 2 exist (36 B)"},
	},
	{
		name:     "a file that is listed and missing is told where it is used",
		manifest: task(`"context":{"requirements":"r.md"},"files":{"tree":[{"path":"files/a"},{"path":"files/b"},{"path":"r.md"}]}`),
		files:    []string{"files/a"},
		want:     []string{"✗ r.md: referenced but missing", "✗ files/b: referenced but missing", "✓ files: 1 of 2 exist (18 B)"},
		fixes:    []string{"Create r.md with detailed requirements", "Create files/b, or take it out of files.tree"},
		missing:  []string{"context.requirements", "files.tree"},
	},
	{
		name:     "interfaces",
		manifest: task(`"apis":{"endpoints_spec":"apis/endpoints.json","base_urls":{"docs":"https://example.com","bad.one":"nonsense"}}`),
		files: []string{
			`apis/endpoints.json={"endpoints":[{"method":"GET","path":"/users","response_schema":"schemas/list.json"},{"method":"POST","path":"/users","body_schema":"schemas/create.json","response_schema":"#/defs/user"},{"method":"PUT","path":"/users","body_schema":"../../out.json"}]}`,
			"apis/schemas/list.json={}",
		},
		want: []string{
			`⚠ apis.base_urls.bad.one: "nonsense" is not a URL`,
			"✓ apis/endpoints.json: exists (252 B)", "✓ apis/schemas/list.json: exists (2 B)",
			"✗ apis/schemas/create.json: named by POST /users but missing",
			"✗ ../out.json: leads out of the bundle",
		},
		fixes:   []string{"Create apis/schemas/create.json with the JSON Schema", "Set apis.endpoints_spec to a path within the bundle"},
		missing: []string{"apis.endpoints_spec"},
	},
	{
		name: "invalid document", manifest: task(`"apis":{"endpoints_spec":"e.json"}`), files: []string{"e.json={]"},
		want:    []string{"✗ e.json: cannot be used: is not JSON at byte 1: invalid character ']' at start of value"},
		fixes:   []string{"Correct e.json"},
		missing: []string{"apis.endpoints_spec"},
	},
	{
		name: "credentials without a vault: a database", manifest: task(`"credentials":{` + scopes + `}`),
		want:    []string{"✗ credentials: no vault configured — agent won't have DB access"},
		fixes:   []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "credentials without a vault: an interface", manifest: task(`"apis":{"auth_method":"bearer_token"}`),
		want:    []string{"✗ credentials: no vault configured — agent won't have API access"},
		fixes:   []string{"Add credentials with: nutshell add-credential --name api --type bearer_token"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "credentials without a vault: data and an interface", manifest: task(`"apis":{"auth_method":"bearer_token"},"tags":{"data_sources":["postgresql://staging-db.internal:5432/users","data.csv"]}`),
		files:   []string{"data.csv"},
		want:    []string{"✗ credentials: no vault configured — agent won't have DB and API access"},
		fixes:   []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql\nand: nutshell add-credential --name api --type bearer_token"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "names that a shell would obey are quoted", manifest: task(`"credentials":{"scopes":[{"name":"a; rm -rf ~","type":"it's"},{"name":"--dir","type":"$(x)"}]}`),
		want: []string{"✗ credentials: no vault configured — agent won't have access"},
		fixes: []string{
			`Add credentials with: nutshell add-credential --name 'a; rm -rf ~' --type 'it'\''s'` + "\n" +
				`and: nutshell add-credential --name=--dir --type '$(x)'`,
		},
		missing: []string{"credentials.vault"},
	},
	{
		name: "data sources of all kinds", manifest: task(`"tags":{"data_sources":["mysql://u:p@10.0.0.1:3306/x","redis://[::1]:6379","s3","https://data.example.com/a b"]}`),
		want: []string{"✗ credentials: no vault configured — agent won't have DB and API access"},
		fixes: []string{
			"Add credentials with: nutshell add-credential --name mysql --type mysql\nand: nutshell add-credential --name redis --type redis\n" +
				"and: nutshell add-credential --name s3 --type s3\nand: nutshell add-credential --name 'https://data.example.com/a b' --type 'https://data.example.com/a b'",
		},
		missing: []string{"credentials.vault"},
	},
	{name: "an interface for everybody needs no credentials", manifest: task(`"apis":{"auth_method":"none"}`), want: []string{}},
	{
		name: "a vault that is not there", manifest: task(vaultAge),
		want:    []string{"✗ v.json: referenced but missing"},
		fixes:   []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "a vault sealed with age", manifest: task(vaultAge), files: []string{"v.json=" + ageFile},
		want: []string{"✓ v.json: exists (72 B), sealed with age for 1 key"},
	},
	{
		name: "a vault sealed with age, in armour", manifest: task(vaultAge),
		files: []string{"v.json=-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBhYmMKYm9keQotPiBYMjU1\nMTkgYWJjCmJvZHkKLS0tIG1hYwpyZXN0\n-----END AGE ENCRYPTED FILE-----\n"},
		want:  []string{"✓ v.json: exists (166 B), sealed with age for 2 keys"},
	},
	{
		name: "a vault sealed for nobody", manifest: task(vaultAge), files: []string{"v.json=age-encryption.org/v1\n--- mac\n"},
		want: []string{"✗ v.json: sealed for nobody — no key opens it"}, missing: []string{"credentials.vault"},
		fixes: []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql"},
	},
	{
		name: "a vault that is no vault", manifest: task(vaultAge), files: []string{"v.json=age-encryption.org/v1 (placeholder)"},
		want: []string{"✗ v.json: not a sealed vault — nobody can open it"}, missing: []string{"credentials.vault"},
		fixes: []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql"},
	},
	{
		name: "a vault that is sealed in another form", manifest: task(vaultAge), files: []string{`v.json={"a":"ENC[]","sops":{}}`},
		want:    []string{"✗ v.json: sealed with sops, but credentials.encryption says age"},
		fixes:   []string{"Set it with: nutshell set credentials.encryption sops"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "a vault that says age and is in clear", manifest: task(vaultAge), files: []string{`v.json={"vault_version":"0.2.0","credentials":[]}`},
		want:    []string{"✗ v.json: NOT ENCRYPTED, although credentials.encryption says age"},
		fixes:   []string{"Say so with: nutshell set credentials.encryption none\nand seal it with: nutshell vault rekey --encryption age --insecure-plaintext"},
		missing: []string{"credentials.vault"},
	},
	{
		name: "a vault in clear, and without what it should have", manifest: task(strings.Replace(vaultAge, `"age"`, `"none"`, 1)),
		files: []string{`v.json={"vault_version":"0.2.0","created_at":"2026-03-14T10:00:00Z","credentials":[{"name":"old","type":"x","value":"y","expires_at":"2026-03-21T10:00:00Z"}]}`},
		want: []string{
			"⚠ v.json: NOT ENCRYPTED — whoever gets the bundle reads every password in it",
			`✗ credentials: "staging-db" is not in the vault — agent won't have DB access`,
			`⚠ credentials: "old" expired — agent won't have access`,
		},
		missing: []string{"credentials.scopes.0"},
	},
	{
		name: "a vault sealed with the transit engine", manifest: task(strings.Replace(vaultAge, `"age"`, `"vault"`, 1)), files: []string{`v.json={"ciphertext":"vault:v12:abc"}`},
		want: []string{"✓ v.json: exists (30 B), sealed with vault"},
	},
	{
		name: "a form that nobody knows is left to those who do", manifest: task(strings.Replace(vaultAge, `"age"`, `"gpg"`, 1)), files: []string{`v.json=x`},
		want: []string{"✓ v.json: exists (1 B), sealed with gpg", `⚠ credentials.encryption: "gpg" is not a value that the specification knows`},
	},
	{
		name: "a vault that travels beside the bundle", manifest: task(`"credentials":{"vault":"v.json","beside":true,` + scopes + `}`),
		want:  []string{"⚠ v.json: travels beside the bundle and is not here — agent won't have DB access without it"},
		fixes: []string{"Add credentials with: nutshell add-credential --name staging-db --type postgresql"},
	},
	{
		name: "scopes that have expired, have no name, or the same", manifest: task(`"credentials":{"vault":"v.json","scopes":[{"name":"db","type":"mysql","expires_at":"2026-03-21T10:00:00Z"},{"name":"db"},{"name":""},{"name":"x","expires_at":"never"}]}`),
		files: []string{"v.json=" + ageFile},
		want: []string{
			"✓ v.json: exists (72 B), sealed with age for 1 key",
			`⚠ credentials: "db" expired on 2026-03-21 — agent won't have DB access`,
			`⚠ credentials: two scopes are called "db"`,
			"⚠ credentials.scopes.2: has no name",
			`⚠ credentials: "x" expires at "never", which is not a date`,
		},
		fixes: []string{"Renew it with: nutshell rotate db --expires 2026-04-04"},
	},
	{
		name: "references to credentials", manifest: task(`"apis":{"endpoints_spec":"e.json","auth_method":"bearer_token","credential_ref":"./v.json"},` + vaultAge),
		files: []string{"v.json=" + ageFile, `e.json={"auth":{"type":"bearer_token","credential_ref":"api-token"},"endpoints":[]}`},
		want: []string{
			"✓ e.json: exists (76 B)",
			`✗ e.json: credential_ref "api-token" is not a credential of the vault`,
			"✓ v.json: exists (72 B), sealed with age for 1 key",
		},
		fixes:   []string{"Add it with: nutshell add-credential --name api-token --type bearer_token"},
		missing: []string{"apis.endpoints_spec"},
	},
	{
		name: "criteria", manifest: task(`"acceptance":{"criteria_file":"tests/criteria.json","test_scripts":["t.sh","u.sh"]}`),
		files: []string{`tests/criteria.json={"criteria":[{"id":"AC-1","script":"t.sh"},{"id":"AC-2","script":"gone.sh"},{"id":"AC-3","query":"SELECT 1"}]}`},
		want: []string{
			"✓ tests/criteria.json: exists (110 B)", "✗ u.sh: referenced but missing", "✗ gone.sh: named by AC-2 but missing",
		},
		fixes:   []string{"Create u.sh with a test that fails until the work is done", "Create gone.sh with the test of AC-2"},
		missing: []string{"acceptance.test_scripts.1", "acceptance.criteria.AC-2"},
	},
	{
		name: "criteria that are missing", manifest: task(`"acceptance":{"criteria_file":"tests/criteria.json"}`),
		want: []string{
			"✗ tests/criteria.json: referenced but missing", "⚠ acceptance: no test scripts — agent can't self-verify",
		},
		missing: []string{"acceptance.criteria_file"},
	},
	{
		name: "criteria that are none, and criteria that cannot be used", manifest: task(`"acceptance":{"criteria_file":"c.json"}`), files: []string{`c.json={"criteria":[{"id":"a"},{"id":"a"}]}`},
		want: []string{
			"✗ c.json: cannot be used: criteria.1.id duplicate id \"a\"", "⚠ acceptance: no test scripts — agent can't self-verify",
		},
		missing: []string{"acceptance.criteria_file"},
	},
	{
		name: "an empty list of criteria", manifest: task(`"acceptance":{"criteria_file":"c.json"}`), files: []string{`c.json={"criteria":[]}`},
		want: []string{
			"✓ c.json: exists (15 B)", "⚠ c.json: has no criteria — agent can't self-verify", "⚠ acceptance: no test scripts — agent can't self-verify",
		},
	},
	{
		name: "a query is a test too", manifest: task(`"acceptance":{"criteria_file":"c.json"}`), files: []string{`c.json={"criteria":[{"id":"a","query":"SELECT 1"}]}`},
		want: []string{"✓ c.json: exists (44 B)"},
	},
	{
		name: "hidden tests", manifest: task(""), files: []string{"tests/hidden/first.sh", "tests/hidden/second.sh", "tests/hidden/.salts.json"},
		want: []string{
			"✓ tests/hidden: 2 hidden tests stay with you",
			"⚠ tests/hidden/first.sh: a hidden test that no criterion names — it is never run",
			"⚠ tests/hidden/second.sh: a hidden test that no criterion names — it is never run",
		},
	},
	{
		name: "hidden tests beside those that run", manifest: task(`"acceptance":{"criteria_file":"tests/criteria.json"}`),
		files: []string{
			`tests/criteria.json={"criteria":[{"id":"a","type":"pytest","script":"tests/hidden/test_named.py::test_x"},{"id":"b","type":"io","cases":[{"stdin_file":"tests/hidden/cases.txt"}]}]}`,
			`tests/hidden/criteria.json={"criteria":[{"id":"c","type":"shell","script":"tests/hidden/all"}]}`,
			"tests/hidden/test_named.py=import helper", "tests/hidden/helper.py=1", "tests/hidden/conftest.py=1", "tests/hidden/cases.txt=1",
			"tests/hidden/all/run.sh=1", "tests/hidden/test_forgotten.py=1",
		},
		want: []string{
			"✓ tests/criteria.json: exists (160 B)", "⚠ tests/hidden/test_named.py: a hidden test, which does not go into the bundle — agent can't see it",
			"✓ tests/hidden: 7 hidden tests stay with you",
			"⚠ tests/hidden/test_forgotten.py: a hidden test that no criterion names — it is never run",
		},
	},
	{
		name: "hidden tests that a script of the bundle finds", manifest: task(`"acceptance":{"test_scripts":["tests/all.sh"]}`),
		files: []string{"tests/all.sh=pytest tests/hidden", "tests/hidden/test_forgotten.py=1"},
		want:  []string{"✓ tests/all.sh: exists (19 B)", "✓ tests/hidden: 1 hidden test stays with you"},
	},
	{
		name: "hidden tests of a criterion that runs all of tests", manifest: task(`"acceptance":{"criteria_file":"c.json"}`),
		files: []string{`c.json={"test_framework":"pytest","criteria":[{"id":"a"}]}`, "tests/hidden/test_forgotten.py=1"},
		want: []string{
			"✓ c.json: exists (51 B)", "⚠ acceptance: no test scripts — agent can't self-verify", "✓ tests/hidden: 1 hidden test stays with you",
		},
	},
	{
		name: "hidden tests that are named", manifest: task(`"acceptance":{"test_scripts":["t.sh","tests/hidden/a.sh","tests/hidden/b.sh","tests/hidden/c.sh"],"hidden_tests":[{"path":"tests/hidden/b.sh","hash":""}]}`),
		files: []string{"tests/hidden/a.sh"},
		want: []string{
			"⚠ tests/hidden/a.sh: a hidden test, which does not go into the bundle — agent can't see it",
			"⚠ tests/hidden/b.sh: a hidden test, which does not go into the bundle — agent can't see it",
			"✗ tests/hidden/c.sh: referenced but missing",
			"✓ tests/hidden: 1 hidden test stays with you",
		},
		missing: []string{"acceptance.test_scripts.3"},
	},
	{
		name: "an image that is missing", manifest: task(`"resources":{"images":[{"path":"files/a.png"}]}`),
		want: []string{"✗ files/a.png: referenced but missing"}, missing: []string{"resources.images.0"},
		fixes: []string{"Put the image at files/a.png, or take it out of resources.images"},
	},
	{
		name: "a delivery", manifest: `{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-2","request_id":"nut-1"}`,
		files: []string{
			`delivery/result.json={"status":"completed","request_id":"nut-9","artifacts":{"files_created":[{"path":"a.go"},{"path":"delivery/artifacts/b.go"}],"files_modified":[{"path":"c.go"}]},"execution_log":{"full_log":"delivery/logs/x.log"}}`,
			"delivery/artifacts/a.go", "delivery/artifacts/b.go",
		},
		want: []string{
			"⚠ task.title: missing",
			"✓ delivery/result.json: exists (212 B)",
			"⚠ request_id: delivery/result.json answers another request (nut-9)",
			"✗ delivery/artifacts/c.go: named by delivery/result.json but missing",
			"✓ delivery/artifacts: 2 of 3 exist",
			"✗ delivery/logs/x.log: named by delivery/result.json but missing",
		},
		missing: []string{"delivery.artifacts", "delivery.full_log"},
	},
	{
		name: "a delivery without its result", manifest: `{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-2","task":{"title":"T"}}`,
		want:    []string{"✗ delivery/result.json: referenced but missing"},
		fixes:   []string{"Create delivery/result.json, or let it be written with: nutshell deliver"},
		missing: []string{"delivery.result"},
	},
}
