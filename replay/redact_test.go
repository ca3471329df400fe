package replay_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"guild/canon"
	"guild/replay"
)

// What is put together from parts is no secret of anybody's, and no scanner takes it for one.
var (
	nsec    = "nsec1" + strings.Repeat("q0zy8x7v6w", 6)[:58]
	openai  = "sk-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3dEf6hIj9kLm2n"
	claude  = "sk-ant-" + "api03-Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z-AA"
	github  = "ghp" + "_Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4zAb3d"
	pat     = "github" + "_pat_11ABCDEFG0abcdefghijkl_Ab3dEf6hIj9kLm2nOp5q"
	slack   = "xoxb" + "-123456789012-1234567890123-Ab3dEf6hIj9kLm2nOp5qRs8t"
	awsKey  = "AKIA" + "IOSFODNN7EXAMPLE"
	awsSec  = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
	jwt     = "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	age     = "AGE-SECRET-KEY-1" + strings.Repeat("QPZRY9X8GF", 6)[:58]
	cashu   = "cashuA" + "eyJ0b2tlbiI6W3sicHJvb2ZzIjpbeyJpZCI6IjAwOWExZjI5MzI1M2U0MWUi"
	cashuB  = "cashuB" + "o2F0gqJhaUgA_9SLj17PgGFwgaNhYQFhc3hAYWNjMTI0MzVlN2I4NDg0"
	pem     = "-----BEGIN PRIVATE" + " KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7\n-----END PRIVATE" + " KEY-----"
	openssh = "-----BEGIN OPENSSH PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU"
	hex64   = strings.Repeat("0123456789abcdef", 4)
)

func TestSecretsInTextAreReplaced(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		// by name
		{`password=hunter2`, `password=[redacted:password]`},
		{`Password: hunter2`, `Password: [redacted:password]`},
		{`export DB_PASSWORD='hunter 2' && run`, `export DB_PASSWORD='[redacted:password]' && run`},
		{`PGPASSWORD=hunter2 psql -h db`, `PGPASSWORD=[redacted:password] psql -h db`},
		{`SMTP_PASS=hunter2`, `SMTP_PASS=[redacted:password]`},
		{`MYSQL_PWD=hunter2 mysql`, `MYSQL_PWD=[redacted:password] mysql`},
		{`passwd: hunter2, user: bob`, `passwd: [redacted:password], user: bob`},
		{`passphrase: correct horse battery staple`, `passphrase: [redacted:password]`},
		{`mnemonic = legal winner thank year wave`, `mnemonic = [redacted:mnemonic]`},
		{`seed phrase: legal winner thank year`, `seed phrase: [redacted:mnemonic]`},
		{`client_secret=abc&code=1`, `client_secret=[redacted:secret]&code=1`},
		{`API key: 0123abc`, `API key: [redacted:api-key]`},
		{`my api_key => "x y"`, `my api_key => "[redacted:api-key]"`},
		{`X-Api-Key: abc`, `X-Api-Key: [redacted:api-key]`},
		{`apikey:abc`, `apikey:[redacted:api-key]`},
		{`private key: ` + hex64, `private key: [redacted:private-key]`},
		{`nostr_secret_key=` + hex64, `nostr_secret_key=[redacted:secret]`},
		{`GET /x?access_token=abc&page=2`, `GET /x?access_token=[redacted:token]&page=2`},
		{`refreshToken: "abc"`, `refreshToken: "[redacted:token]"`},
		{`GITHUB_TOKEN=0123456789abcdef make`, `GITHUB_TOKEN=[redacted:token] make`},
		{`preimage: ` + hex64, `preimage: [redacted:preimage]`},
		{`bunker://` + hex64 + `?relay=wss://r.example&secret=abc`, `bunker://` + hex64 + `?relay=wss://r.example&secret=[redacted:secret]`},
		{`nostr+walletconnect://` + hex64 + `?relay=wss%3A%2F%2Fr&secret=` + hex64, `nostr+walletconnect://` + hex64 + `?relay=wss%3A%2F%2Fr&secret=[redacted:secret]`},
		{`aws_secret_access_key = ` + awsSec, `aws_secret_access_key = [redacted:aws]`},
		{`{"password": "hunter2", "user`, `{"password": "[redacted:password]", "user`},
		{`{"password": "hunt`, `{"password": "[redacted:password]`},
		{`sent {"password":"a\"b","n":1} to it`, `sent {"password":"[redacted:password]","n":1} to it`},
		{`sent {\"password\":\"hunter2\",\"n\":1} to it`, `sent {\"password\":\"[redacted:password]\",\"n\":1} to it`},
		{`secret = b"hunter2"`, `secret = b"[redacted:secret]"`},
		{`secret := []byte("hunter2")`, `secret := []byte("[redacted:secret]")`},
		{`//registry.example/:_authToken=0abc`, `//registry.example/:_authToken=[redacted:token]`},
		{`:password => "hunter2"`, `:password => "[redacted:password]"`},
		{`AccountKey=0123456789abcdefghijklmnop==;Endpoint=x`, `AccountKey=[redacted:private-key];Endpoint=x`},
		{`client-key-data: LS0tLS1CRUdJTiBSU0E`, `client-key-data: [redacted:private-key]`},
		{`machine x login bob password hunter2`, `machine x login bob password [redacted:password]`},
		{`<db><password>hunter2</password></db>`, `<db><password>[redacted:secret]</password></db>`},
		{`redis://:hunter2@host:6379/0`, `redis://:[redacted:password]@host:6379/0`},
		// headers
		{`Authorization: Bearer abc`, `Authorization: [redacted:authorization]`},
		{"authorization: Basic dXNlcjpwYXNz\r\nAccept: */*", "authorization: [redacted:authorization]\r\nAccept: */*"},
		{`curl -H "Authorization: Bearer abc" https://x.example`, `curl -H "Authorization: [redacted:authorization]" https://x.example`},
		{`curl -H 'Cookie: sid=abc; theme=dark' https://x.example`, `curl -H 'Cookie: [redacted:cookie]' https://x.example`},
		{"Set-Cookie: sid=abc; HttpOnly", "Set-Cookie: [redacted:cookie]"},
		{`sends bearer 0123abcdef here`, `sends bearer [redacted:token] here`},
		// flags
		{`tool --password hunter2 run`, `tool --password [redacted:password] run`},
		{`tool --password=hunter2 run`, `tool --password=[redacted:password] run`},
		{`tool --api-key 'a b' run`, `tool --api-key '[redacted:api-key]' run`},
		{`curl -u bob:hunter2 https://x.example`, `curl -u bob:[redacted:password] https://x.example`},
		{`sshpass -p hunter2 ssh host`, `sshpass -p [redacted:password] ssh host`},
		{`nak event --sec ` + hex64, `nak event --sec [redacted:nsec]`},
		// by shape
		{`key ` + nsec + `.`, `key [redacted:nsec].`},
		{strings.ToUpper(nsec), `[redacted:nsec]`},
		{`use ` + openai + ` now`, `use [redacted:api-key] now`},
		{`use ` + claude + ` now`, `use [redacted:api-key] now`},
		{github + "\n" + pat, "[redacted:github]\n[redacted:github]"},
		{`https://` + github + `@github.com/a/b`, `https://[redacted:github]@github.com/a/b`},
		{slack, `[redacted:slack]`},
		{awsKey + "," + awsSec, `[redacted:aws],[redacted:aws]`},
		{`AWS: ` + awsSec, `AWS: [redacted:aws]`},
		{`t=` + jwt, `t=[redacted:jwt]`},
		{"a\n" + pem + "\nb", "a\n[redacted:private-key]\nb"},
		{"a\n" + openssh, "a\n[redacted:private-key]"},
		{`"` + strings.ReplaceAll(pem, "\n", `\n`) + `"`, `"[redacted:private-key]"`},
		{"private_key: " + pem, "private_key: [redacted:private-key]"},
		{age, `[redacted:age-key]`},
		{cashu + " " + cashuB, `[redacted:cashu] [redacted:cashu]`},
		{`postgres://bob:hunter2@db:5432/x`, `postgres://bob:[redacted:password]@db:5432/x`},
		{`postgres://bob:p@ss@db:5432/x`, `postgres://bob:[redacted:password]@db:5432/x`},
		{`https://hooks.slack.com/services/T0/B0/abc`, `https://hooks.slack.com/services/[redacted:webhook]`},
		// no place to hide in
		{`password=[redacted:hunter2]`, `password=[redacted:password]`},
		{`password=[hunter2] x`, `password=[redacted:password] x`},
		{`password=[redacted:password]hunter2`, `password=[redacted:password]`},
	} {
		got := replay.RedactText(c.text)
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
		}
		if again := replay.RedactText(got); again != got {
			t.Errorf("%s\nbecomes %s", got, again)
		}
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, text := range []string{
		"tokens_in=12 tokens_out=34 total_tokens: 46 max_tokens=2048 token_count=7 token_limit: 12345678",
		`{"tokens_in":12,"tokens_out":34,"total_tokens":46,"max_tokens":2048,"token_count":"12345678","prompt_tokens":1}`,
		`{"author":"bob","authors":["a"],"keyboard":"qwerty12","monkey":"see123456","key":"value","key_id":"abc12345678","public_key":"0123456789abcdef"}`,
		`{"tokenizer":"cl100k_base","token_type":"Bearer1234","next_page_token":"abcdefgh12345678","cost_per_token":"0.00000012"}`,
		`{"idempotency_key":"abcdefgh12345678","primary_key":"id1234567","cache_key":"abc-123-def","sort_key":"x1234567890"}`,
		`{"pass":true,"passed":12,"first_pass":"abc12345","password_length":12,"has_password":true,"password":null,"secret":""}`,
		`{"name":"password","type":"string","description":"The password of the account"}`,
		`{"properties":{"password":{"type":"string","minLength":8,"description":"the password"}}}`,
		`{"secretKeyRef":{"name":"db","key":"password"},"secret_name":"prod-db-1234","secrets":3}`,
		`{"issue_number":42,"session_id":"0123456789abcdef","authorization":"required","pubkey":"` + hex64 + `"}`,
		"sha256:" + hex64 + " " + hex64 + " " + hex64[:40],
		"npub1" + strings.Repeat("q0zy8x7v6w", 6)[:58] + " note1" + strings.Repeat("q0zy8x7v6w", 6)[:58],
		"5f21c9aa-0b7e-4c6f-9e0d-1c2b3a495867",
		"VGhpcyBpcyBvcmRpbmFyeSB0ZXh0IGluIGJhc2U2NCwgYW5kIG5vdGhpbmcgZWxzZSAxMjM0NTY3ODkw",
		"eyJhIjoxLCJiIjoib3JkaW5hcnkganNvbiBpbiBiYXNlNjQifQ==",
		"task-0123456789abcdef risk-assessment-of-2024-q1-and-more disk-0123456789abcdef",
		"sk-learn-contrib-packages-and-more is a library",
		"password: string; token: string; apiKey?: string",
		"self.password = password\nself.api_key = config.api_key\ntoken = os.environ[\"GITHUB_TOKEN\"]",
		"const key = process.env.OPENAI_API_KEY; password = get_password()",
		"curl -H \"Authorization: Bearer $TOKEN\" -u $USER:$PASS -p 8080",
		"tool --password <password> --token ${TOKEN} --api-key ****",
		"secret := make([]byte, 32); token := strings.TrimSpace(x); use secret::Vault; std::secret::x",
		"PASSWORD: ${{ secrets.DB }} password=$(pass show db) printf(\"password=%s\", x) 'token: \"${{ secrets.T }}\"'",
		`{"token_address":"0x12345678","nextToken":"abcdefgh12345678","passport_number":"12345678","compass":"12345678"}`,
		"the --password flag is required; --password-file /run/x; --max-tokens 12345678; --token-limit 12345678",
		"https://example.org:8080/path@v1.2.3 git@github.com:guild/guild.git http://localhost:3000/@user",
		"func f(password []string, secret [32]byte, token [8]byte)",
		"docker run -u node:node -p 80:80 image; docker run -u 1000:1000 -p 8080:80 image",
		"PWD=/home/bob OLDPWD=/tmp/12345678 SECONDS=12",
		"the author's keyboard: qwerty12345, the monkey: abc123456789",
		"public key: " + hex64 + " pubkey=" + hex64 + " public api key: abc12345",
		"bearer authentication, a bearer token, Authorization: none",
		"-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYI\n-----END PUBLIC KEY-----",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl bob@host",
		"age1qyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqszqgpqyqs3290gq",
		"cashu is a protocol; cashuA tokens begin so; AKIA is a prefix",
		"12:30:45 {a:1} x::y a=b c:d https://example.org/a?b=c&tokens=12345678",
		"", " ", "{", "[", "[1,2", "漢字 : = \xff\xfe",
	} {
		if got := replay.RedactText(text); got != text {
			t.Errorf("%s\nbecame %s", text, got)
		}
	}
}

func TestSecretsInJSONAreReplaced(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{"password":"hunter2"}`, `{"password":"[redacted:password]"}`},
		{`{ "a" : 1.0, "Password" : 12345 , "n":1e5}`, `{ "a" : 1.0, "Password" : "[redacted:password]" , "n":1e5}`},
		{`{"auth":{"x-api-key":"abc","user":"bob"}}`, `{"auth":{"x-api-key":"[redacted:api-key]","user":"bob"}}`},
		{`{"headers":{"Authorization":"Bearer abc","Accept":"*/*"}}`, `{"headers":{"Authorization":"[redacted:authorization]","Accept":"*/*"}}`},
		{`{"headers":[["Authorization","Bearer abc"],["Accept","*/*"]]}`, `{"headers":[["Authorization","[redacted:authorization]"],["Accept","*/*"]]}`},
		{`{"headers":[{"name":"X-Api-Key","value":"abc"}]}`, `{"headers":[{"name":"X-Api-Key","value":"[redacted:api-key]"}]}`},
		{`{"secrets":{"db":"a","list":["b",3],"name":"prod"}}`, `{"secrets":{"db":"[redacted:secret]","list":["[redacted:secret]",3],"name":"prod"}}`},
		{`{"args":["--password","hunter2","--user","bob"]}`, `{"args":["--password","[redacted:password]","--user","bob"]}`},
		{`{"args":["curl","-u","bob:hunter2","-u:1"]}`, `{"args":["curl","-u","bob:[redacted:password]","-u:1"]}`},
		{`{"args":["docker","-u","node:node"]}`, `{"args":["docker","-u","node:node"]}`},
		{`{"body":"{\"password\":\"hunter2\",\"n\":1}"}`, `{"body":"{\"password\":\"[redacted:password]\",\"n\":1}"}`},
		{`{"body":"{\"in\":\"{\\\"token\\\":\\\"0123456789\\\"}\"}"}`, `{"body":"{\"in\":\"{\\\"token\\\":\\\"[redacted:token]\\\"}\"}"}`},
		{`{"command":"export API_KEY=abc; run"}`, `{"command":"export API_KEY=[redacted:api-key]; run"}`},
		{`{"` + claude + `":1,"` + openai + `":2,"[redacted:api-key]":3}`, `{"[redacted:api-key]":1,"[redacted:api-key]#2":2,"[redacted:api-key]#3":3}`},
		{`["` + nsec + `",{"x":"` + jwt + `"}]`, `["[redacted:nsec]",{"x":"[redacted:jwt]"}]`},
		{`"` + github + `"`, `"[redacted:github]"`},
		{`{"access_token":"a","refresh_token":"b","token":"hello","tokens":["a1234567890"]}`,
			`{"access_token":"[redacted:token]","refresh_token":"[redacted:token]","token":"hello","tokens":["a1234567890"]}`},
		{`{"preimage":"` + hex64 + `","payment_hash":"` + hex64 + `"}`, `{"preimage":"[redacted:preimage]","payment_hash":"` + hex64 + `"}`},
	} {
		got, err := replay.RedactJSON([]byte(c.json))
		if string(got) != c.want || err != nil {
			t.Errorf("%s\n got %s, %v\nwant %s", c.json, got, err, c.want)
		}
		if again, err := replay.RedactJSON(got); !bytes.Equal(again, got) || err != nil {
			t.Errorf("%s\nbecomes %s, %v", got, again, err)
		}
	}
	for _, text := range []string{"", "{", `{"a":1,"a":2}`, `{} {}`, strings.Repeat("[", 200)} {
		if _, err := replay.RedactJSON([]byte(text)); err == nil {
			t.Errorf("%.40s was read", text)
		}
	}
}

func TestAnEventIsHashedWithoutItsSecrets(t *testing.T) {
	call := replay.ToolCall{ID: "1", Tool: "http", Params: json.RawMessage(`{"password":"hunter2"}`), ParamsHash: digest, T: at}
	got, err := replay.Redact(call)
	if err != nil {
		t.Fatal(err)
	}
	clean := got.(replay.ToolCall)
	want, err := canon.Hash([]byte(`{"password":"[redacted:password]"}`))
	if clean.ParamsHash != want.String() || strings.Contains(string(clean.Params), "hunter2") || err != nil {
		t.Errorf("%s, %s, %v", clean.Params, clean.ParamsHash, err)
	}
	call.Params = json.RawMessage(`{"tokens_in":1}`)
	if got, err := replay.Redact(call); got.(replay.ToolCall).ParamsHash != digest || err != nil {
		t.Errorf("a hash of what did not change: %+v, %v", got, err)
	}
	long := strings.Repeat("x", replay.MaxPreview-10) + " password=" + strings.Repeat("hunter2", 9)
	result, err := replay.Redact(replay.ToolResult{ID: "1", Preview: long})
	if p := result.(replay.ToolResult).Preview; strings.Contains(p, "hunter") || len(p) != replay.MaxPreview || err != nil {
		t.Errorf("…%s, %v", p[len(p)-20:], err)
	}
	commands := []string{"login --password hunter2"}
	check, err := replay.Redact(replay.Verification{Commands: commands, ExitCodes: []int{0}})
	if got := check.(replay.Verification).Commands[0]; got != "login --password [redacted:password]" || commands[0] == got || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	thought, err := replay.Redact(replay.Unknown{Name: "Thought", Raw: json.RawMessage(`{"event":"Thought","text":"it is ` + nsec + `"}`)})
	if got := string(thought.(replay.Unknown).Raw); got != `{"event":"Thought","text":"it is [redacted:nsec]"}` || err != nil {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := replay.Redact(replay.ToolCall{Params: json.RawMessage(`{`)}); err == nil {
		t.Error("params that are not JSON were redacted")
	}
}

// Text that nearly has secrets everywhere takes no longer than other text: a quarter of a megabyte each, well within
// the test's own limit.
func TestRedactionIsLinear(t *testing.T) {
	for _, part := range []string{"authorization: x ", "mycookie: a b ", "token=", "token=é", `token="a `, `token=\"a `, "password=[", "--token ", "eyJaaaaaaa.",
		"a://b:", "-----BEGIN PRIVATE KEY", "AKIA", "aws ", "bearer ", `{"a":`, "[", "::::", "==", `\\\\"`, "secret: ", "x y z: ", "[redacted:", "passphrase: $A "} {
		replay.RedactText(strings.Repeat(part, (1<<18)/len(part)))
	}
}

func BenchmarkRedactText(b *testing.B) {
	text := strings.Repeat("tool_result: {\"path\":\"src/auth.rs\",\"lines\":120} in 45 ms, sha256:"+hex64+"\n", 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		replay.RedactText(text)
	}
}

// FuzzRedact puts a secret of every kind beside any text: it is gone, what is left is JSON, and stays as it is.
func FuzzRedact(f *testing.F) {
	f.Add("", "")
	f.Add(`{"password":"x"}`, "token=0123456789")
	f.Add("password=\"[redacted:password]", `\\\"secret\\\":\\\"`)
	f.Add("-----BEGIN PRIVATE KEY-----", "aws "+awsSec)
	f.Add("--password a:b@c://d:e@", "authorization: bearer bearer 12345678")
	secrets := []string{nsec, openai, claude, github, pat, slack, awsKey, jwt, age, cashu, cashuB, pem, awsKey + " " + awsSec}
	f.Fuzz(func(t *testing.T, a, b string) {
		once := replay.RedactText(a + b)
		if twice := replay.RedactText(once); twice != once {
			t.Fatalf("%q\nbecomes %q\nand     %q", a+b, once, twice)
		}
		for i, secret := range secrets {
			if got := replay.RedactText(a + "\n" + secret + "\n" + b); strings.Contains(got, secret) {
				t.Fatalf("%d is left in %q", i, got)
			}
		}
		params, err := canon.Marshal(map[string]any{"note": strings.ToValidUTF8(a, "?"), "more": []string{strings.ToValidUTF8(b, "?")},
			"password": "Hunter-2-hunter", "deep": map[string]any{"x": pem, "apiKey": "Hunter-3-hunter", "body": `{"access_token":"Hunter-4-hunter"}`}})
		if err != nil {
			t.Fatal(err)
		}
		clean, err := replay.RedactJSON(params)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := canon.Canonical(clean); err != nil {
			t.Fatalf("%s: %v", clean, err)
		}
		if bytes.Count(clean, []byte("-hunter")) > strings.Count(a+b, "-hunter") || bytes.Contains(clean, []byte("MIIEvQIB")) && !strings.Contains(a+b, "MIIEvQIB") {
			t.Fatalf("something is left in %s", clean)
		}
		if again, err := replay.RedactJSON(clean); err != nil || !bytes.Equal(again, clean) {
			t.Fatalf("%s\nbecomes %s, %v", clean, again, err)
		}
	})
}
