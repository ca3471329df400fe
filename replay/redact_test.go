package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/canon"
	"guild/internal/cputest"
	"guild/replay"
)

// These are assembled from parts, so that no secret scanner reports them.
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
	wifs    = []string{ // of the bytes 1 to 32: main and test network, uncompressed and compressed
		"5HpjKrb7dH5kKQQzmbjB87" + "Mxova7mek5bXUTWfndcX6tBoqUwzm", "KwFfpDsaF7yxCELuyrH9gP" + "5XL7TAt5b9HPWC1xCQbmrxvhJgMQHb",
		"91bMubQfDW9tHTvHPwd5zhu" + "vTavpvpHGwULQbJ98xFqvxsUsWbZ", "cMcfH8sRgBgDMfpBNG6H3ha" + "axLkaYXgqMRef8Nev6tWyBSNr6c3n",
	}
	hex64 = strings.Repeat("0123456789abcdef", 4)
)

func TestRedactText(t *testing.T) {
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
		{`https://0a1b2c3d4e5f60718293a4b5@github.example/a/b`, `https://[redacted:token]@github.example/a/b`},
		{`https://0a1b2c3d4e5f60718293a4b5:x-oauth-basic@git.example`, `https://[redacted:token]:[redacted:password]@git.example`},
		{`https://0a1b2c3d4e5f60718293a4b5:@git.example`, `https://[redacted:token]:@git.example`},
		{`https://` + github + `:hunter2@git.example`, `https://[redacted:github]:[redacted:password]@git.example`},
		{`postgres://bob:hun/ter#2@db:5432/x`, `postgres://bob:[redacted:password]@db:5432/x`},
		{`amqp://bob:hun?ter/2@db and more@x`, `amqp://bob:[redacted:password]@db and more@x`},
		{"hf_" + strings.Repeat("AbCdEfGhIjKlMnOpQ", 2), `[redacted:api-key]`},
		{"glpat" + "-aB-cd_EF-gh1-jK-lm-Np", `[redacted:api-key]`},
		// by name, in a context that gives the name its meaning
		{`Server=db;Uid=sa;Pwd=hunter2;Database=x`, `Server=db;Uid=sa;Pwd=[redacted:password];Database=x`},
		{`Uid = sa; pwd = hunter2`, `Uid = sa; pwd = [redacted:password]`},
		{`Authorization: Digest username="bob", nonce="1", response="0a1b2c3d4e5f60718293a4b5c6d7e8f9", qop=auth`,
			`Authorization: [redacted:authorization]"bob", nonce="1", response="[redacted:authorization]", qop=auth`},
		{"- name: DB_PASSWORD\n  value: hunter2\n- name: DB_HOST\n  value: hunter3", "- name: DB_PASSWORD\n  value: [redacted:password]\n- name: DB_HOST\n  value: hunter3"},
		{"FROM a\nENV DB_PASSWORD hunter 2\nENV PATH /bin\nRUN x", "FROM a\nENV DB_PASSWORD [redacted:password]\nENV PATH /bin\nRUN x"},
		{"ENV SECRET y", "ENV SECRET [redacted:secret]"},
		{`/app;jsessionid=0A1B2C3D4E5F?x=1`, `/app;jsessionid=[redacted:cookie]`},
		{`sid: JSESSIONID=0A1B2C3D4E5F; PHPSESSID=1a2b3c4d5e6f;`, `sid: JSESSIONID=[redacted:cookie]; PHPSESSID=[redacted:cookie];`},
		{`if (password == "hunter2")`, `if (password == "[redacted:password]")`},
		{`password == hunter2`, `password == [redacted:password]`},
		// flags with their values in one word
		{`curl -ubob:hunter2 https://x.example`, `curl -ubob:[redacted:password] https://x.example`},
		{`curl --user=bob:hunter2 x`, `curl --user=bob:[redacted:password] x`},
		{`curl --user="bob:hunter 2" x`, `curl --user="bob:[redacted:password]" x`},
		{`curl -x p --proxy-user=bob:hunter2 x`, `curl -x p --proxy-user=bob:[redacted:password] x`},
		{`mysql -uroot -phunter2 db`, `mysql -uroot -p[redacted:password] db`},
		{`x && /usr/bin/mysqldump -h db -p'hunter 2' db | gzip`, `x && /usr/bin/mysqldump -h db -p'[redacted:password]' db | gzip`},
		{`sshpass -v -p hunter2 ssh -p 2222 host`, `sshpass -v -p [redacted:password] ssh -p 2222 host`},
		{`sshpass -phunter2 ssh host`, `sshpass -p[redacted:password] ssh host`},
		// keys without a form of their own
		{"import " + wifs[0] + ", then " + wifs[1] + ".", "import [redacted:private-key], then [redacted:private-key]."},
		{"on the test network " + wifs[2] + " and " + wifs[3], "on the test network [redacted:private-key] and [redacted:private-key]"},
		{"my private key is 0x" + hex64 + ".", "my private key is [redacted:private-key]."},
		{"root private key " + hex64, "root private key [redacted:private-key]"},
		{"the event secret key 0x" + hex64, "the event secret key [redacted:private-key]"},
		{"Done. The private key is " + hex64, "Done. The private key is [redacted:private-key]"},
		{"ok\nmy private key is " + hex64, "ok\nmy private key is [redacted:private-key]"},
		{"the private key (" + hex64 + ") of the wallet", "the private key ([redacted:private-key]) of the wallet"},
		{"he gave me the key 0x" + strings.ToUpper(hex64), "he gave me the key [redacted:private-key]"},
		{`new ethers.Wallet("0x` + hex64 + `")`, `new ethers.Wallet("[redacted:private-key]")`},
		{"Account.from_key('" + hex64 + "')", "Account.from_key('[redacted:private-key]')"},
		{"privateKeyToAccount('0x" + hex64 + "')", "privateKeyToAccount('[redacted:private-key]')"},
		{"a secret sk, " + hex64, "a secret sk, [redacted:private-key]"},
		{"SG." + "Ab3dEf6hIj9kLm2nOp5q.Ab3dEf6hIj9kLm2nOp5q", "[redacted:api-key]"}, // SendGrid
		{"dop_" + "v1_" + hex64, "[redacted:api-key]"},                              // DigitalOcean
		{"doo_" + "v1_" + hex64 + " dor_" + "v1_" + hex64, "[redacted:api-key] [redacted:api-key]"},
		{"secret_answer: fluffy", "secret_answer: [redacted:secret]"},
		{"secret_sauce: " + openai + " secret_santa=abc12345", "secret_sauce: [redacted:api-key] secret_santa=[redacted:secret]"},
		// text that only looks like a mark
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

func TestPublicTextUnredacted(t *testing.T) {
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
		"--- PASS: TestPassword (0.00s)\nTestPassword: PASS\nTestToken: FAIL",
		"password == expected; if token == other { password === confirmation }",
		"jobs:\n  x:\n    secrets: inherit\n    permissions:\n      id_token: write\n      id-token: read",
		"mnemonic: mov", `{"mnemonic":"mov","operands":["eax","ebx"]}`,
		"https://git@github.com/a/b ssh://deploy@host https://bob123@host https://some-long-user-name@host",
		"http://example.org:8080/a@b http://localhost:port/@user http://localhost:3000?a=b@c oci://registry:5000/img@sha256:" + hex64,
		"hf_hub_download hf_model_for_sequence_classification glpat-is-how-a-token-begins",
		"cd x; PWD=/home/bob; ls; pwd: /home/bob; pwd=~/x",
		`{"session_id":"0123456789abcdef"} session_id=0123456789abcdef sessionid: x`,
		`response="0a1b2c3d4e5f60718293a4b5c6d7e8f9" response=12345678`,
		"- name: DB_HOST\n  value: hunter2\nvalue: 12345678",
		"ENV PATH /bin\nENV TOKEN_COUNT 12345678\nENV PASSWORD is required\nENV PASSWORD $PASSWORD",
		"docker run --name mysql -p3306:3306 x; mysql -u root -p db; service mysql start; mkdir -parents x; mkdir -pv /x",
		"docker run -unode:node x; tar -pxf x.tar; sshpass -e ssh -p 2222 -phost x",
		"secret_sauce: tomato, secret_santa: bob, secretGarden=open, the secret ingredient: love",
		"0x" + hex64 + " is the hash of the transaction, and event " + hex64 + " by " + hex64,
		"the public key 0x" + hex64 + " and the key " + hex64 + " of the author",
		"the private key tree has the root " + hex64 + ", and the root public key 0x" + hex64,
		"the private key of event " + hex64 + " is lost. It had the id " + hex64,
		"My private key is safe.\n" + hex64 + "  a.tar.gz",
		"secret hash " + hex64 + ", secret " + hex64[:40] + ", private key " + hex64 + "0",
		"K" + wifs[0][1:] + " " + wifs[1][:51] + "x " + wifs[1] + "1 5" + strings.Repeat("1", 50),
		"", " ", "{", "[", "[1,2", "漢字 : = \xff\xfe",
	} {
		if got := replay.RedactText(text); got != text {
			t.Errorf("%s\nbecame %s", text, got)
		}
	}
}

func TestRedactJSON(t *testing.T) {
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
		{`{"args":["sudo","curl","-ubob:hunter2","--user=bob:hunter2","-s"]}`, `{"args":["sudo","curl","-ubob:[redacted:password]","--user=bob:[redacted:password]","-s"]}`},
		{`{"args":["mysql","-phunter 2","-p"]}`, `{"args":["mysql","-p[redacted:password]","-p"]}`},
		{`{"args":["sshpass","-p","hunter2","ssh","-p","2222"]}`, `{"args":["sshpass","-p","[redacted:password]","ssh","-p","2222"]}`},
		{`{"https://u:p@h/":1,"password=x":1,"sk-0123456789abcdef":"x"}`,
			`{"https://u:[redacted:password]@h/":1,"password=[redacted:password]":"[redacted:password]","[redacted:api-key]":"x"}`},
		{`{"password=x":1,"password=y":2,"password=z":null}`,
			`{"password=[redacted:password]":"[redacted:password]","password=[redacted:password]#2":"[redacted:password]","password=[redacted:password]#3":null}`},
		{`{"mnemonic":["legal","winner","thank","year"]}`, `{"mnemonic":["[redacted:mnemonic]","[redacted:mnemonic]","[redacted:mnemonic]","[redacted:mnemonic]"]}`},
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

func TestRedactedEventHash(t *testing.T) {
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
	for _, c := range []struct{ preview, output, hashed string }{
		{"password=hunter2", "password=hunter2", "password=[redacted:password]"},
		{long, long, replay.RedactText(long)},
		{"password=hunter2", "password=hunter2 and more", "password=hunter2 and more"},
		{"tokens_in=2", "tokens_in=2", "tokens_in=2"},
	} {
		result, err := replay.Redact(replay.ToolResult{ID: "1", Preview: c.preview, OutputHash: guild.Sum([]byte(c.output)).String()})
		if h := result.(replay.ToolResult).OutputHash; h != guild.Sum([]byte(c.hashed)).String() || err != nil {
			t.Errorf("the output %.40q is not hashed as %.40q: %v", c.output, c.hashed, err)
		}
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

// hard returns texts that look like secrets everywhere and are the most expensive to redact.
func hard(size int) map[string]string {
	all := map[string]string{}
	for _, part := range []string{"authorization: x ", "mycookie: a b ", "token=", "token=é", `token="a `, `token=\"a `, "password=[", "password=[]", "--token ",
		"eyJaaaaaaa.", "a://b:", "a://b:c/", "a://b:c@", "a://b:/@", "-----BEGIN PRIVATE KEY", "-----BEGIN PRIVATE KEY-----", "AKIA", "aws ", "bearer ", `{"a":`,
		"[", "::::", "==", `\\\\"`, "secret: ", "x y z: ", "[redacted:", "passphrase: $A ", " -u a:b", " -ua:b", " -p x", " -px", " --user=a:b",
		"sshpass -p ", "mysql -p", "response=", `response="0123456789ab" `, ";pwd=", ";pwd = /", "\nvalue: ", "name: password ", "ENV A ", "\nENV PASSWORD is ",
		"hf_", "glpat-", "login a password ", "<password>", "mnemonic: a ", "password == a", "[redacted:password]", "$(", "password: []"} {
		all[part] = strings.Repeat(part, size/len(part))
	}
	size *= 2 // these cases were slow before
	curl, names, args := "curl", strings.Builder{}, strings.Builder{}
	for i := 0; names.Len() < size; i++ {
		fmt.Fprintf(&names, `,"password=%d":1`, i)
		args.WriteString(`,"-p"`)
	}
	all["curl -u a:b"] = curl + strings.Repeat(" -u a:b", size/7)
	all["curl -ua:b"] = curl + all[" -ua:b"]
	all["digest response="] = "digest " + all["response="]
	all["mysql -p x"] = "mysql" + all[" -p x"]
	all["names"] = `{"a":1` + names.String() + `}`
	all["arguments"] = `["sshpass"` + args.String() + `]`
	return all
}

// Redacting 128 or 256 KiB may take about as long as redacting sixteen texts of 8 KiB. A quadratic pattern takes
// sixteen times as long, which is many seconds.
func TestRedactionIsLinear(t *testing.T) {
	pieces := hard(1 << 13)
	for part, text := range hard(1 << 17) {
		whole := cputest.Spent(t, func() { replay.RedactText(text) })
		apart := cputest.Spent(t, func() {
			for range 16 {
				replay.RedactText(pieces[part])
			}
		})
		if whole > 4*apart+time.Second/2 {
			t.Errorf("%q took %v, and %v in sixteen pieces", part, whole, apart)
		}
	}
}

func BenchmarkRedactHardText(b *testing.B) {
	for part, text := range hard(1 << 20) {
		b.Run(part, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				replay.RedactText(text)
			}
		})
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

// FuzzRedact puts a secret of every kind beside any text. It checks that the secret is gone, that JSON stays JSON, and
// that redacting again changes nothing.
func FuzzRedact(f *testing.F) {
	f.Add("", "")
	f.Add(`{"password":"x"}`, "token=0123456789")
	f.Add("password=\"[redacted:password]", `\\\"secret\\\":\\\"`)
	f.Add("-----BEGIN PRIVATE KEY-----", "aws "+awsSec)
	f.Add("https://u:p/q@h/ https://u:p@h/", "password=x")
	f.Add("curl -ua:b --user=c:d; mysql -px; sshpass -py", "name: password\n value: x\nENV SECRET y\n;Pwd=z")
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
			"names":    map[string]any{strings.ToValidUTF8(a, "?"): 1, strings.ToValidUTF8(b, "?"): "Ab3d"},
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
