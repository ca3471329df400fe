package work

import (
	"bytes"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/cputest"
	"guild/internal/judging/typed"
	"guild/nip90"
	"guild/nutshell/vault"
	"guild/oa"
)

// apiKey is put together, so that scanners do not take it for a key.
var apiKey = "sk-" + "proxy-7Qx/2+Lm9&Zt4<Rb8Vn1"

// withKey returns a command with the key in its environment.
func withKey(x Exec) Exec {
	x.Env = []string{"MODEL=small-model-4", "API_KEY=" + apiKey}
	return x
}

// service returns a service with a command as its worker.
func (x Exec) service() Service {
	return Service{Task: "python", Do: x.Do, Secrets: SecretsIn(x.Env)}
}

func TestSecretVariables(t *testing.T) {
	place := t.TempDir()
	for variable, want := range map[string]bool{
		"ANTHROPIC_API_KEY=" + apiKey:                       true,
		"PASSWORD=production":                               true,
		"DATABASE_URL=postgres://u:p@db/x":                  true,
		"HTTPS_PROXY=http://me:word@proxy:3128":             true,
		"ANTHROPIC_BASE_URL=https://me:word@gateway":        true,
		"WEBHOOK=https://hooks.example.com/T0/B0/aZ9":       true,
		"SIGNER=" + place + "/gone":                         true,
		"NODE_ENV=production":                               false,
		"API_TIMEOUT_MS=300000000":                          false,
		"PIN=1234":                                          false,
		"DEBUG=true":                                        false,
		"EMPTY=":                                            false,
		"ANTHROPIC_BASE_URL=https://api.example.com/v1":     false,
		"ANTHROPIC_SMALL_FAST_MODEL=claude-something-4-5":   false,
		"MODEL=small-model-4":                               false,
		"GOOGLE_APPLICATION_CREDENTIALS=" + place:           false,
		"AGENT_PATH=" + place + ":/usr/bin":                 false,
		"AWS_REGION=eu-central-1":                           false,
		"OPENAI_ORGANIZATION=org-4711-0815":                 false,
		"SECRET_NUMBER=12345678":                            true,
		"STRANGE_VALUE=a=b=c=d=e":                           true,
		"TOKEN=  " + apiKey[:7] + " ":                       false,
		"AWS_SESSION_TOKEN=" + strings.Repeat("a1B2+/", 90): true,
	} {
		got := SecretsIn([]string{variable})
		if (len(got) == 1) != want {
			t.Errorf("%s: %v, want %v", variable, got, want)
		}
		if name, _, _ := strings.Cut(variable, "="); want && len(got) == 1 && (got[0].What != "the value of the variable "+name || !got[0].Owner) {
			t.Errorf("%s: %+v", variable, got[0])
		}
	}
}

// written lists encodings of a text by which a worker may get it past a search for the text itself.
func written(t *testing.T, text string) map[string]string {
	t.Helper()
	escaped, err := json.Marshal(map[string]string{"key": text})
	if err != nil {
		t.Fatal(err)
	}
	backwards := []rune(text)
	slices.Reverse(backwards)
	all := map[string]string{
		"as it is": text, "in a sentence": "The key is " + text + ".", "twice": text + text, "in lines": text[:4] + "\n" + text[4:7] + "\r\n  " + text[7:],
		"with spaces": strings.Join(strings.Split(text, ""), " "), "backwards": string(backwards), "in JSON": string(escaped),
		"in a query": url.Values{"key": {text}}.Encode(), "in a path": "/" + url.PathEscape(text),
		"in UTF-16": strings.Join(strings.Split(text, ""), "\x00"),
		"in hex":    hex.EncodeToString([]byte(text)), "in capital hex": strings.ToUpper(hex.EncodeToString([]byte("x" + text + "x"))),
	}
	for _, before := range []string{"", "k", "ke", "key", "key=", "export API_KEY="} {
		all["in base64 after "+before] = base64.StdEncoding.EncodeToString([]byte(before + text + "\n"))
		all["in base64 of URLs after "+before] = base64.RawURLEncoding.EncodeToString([]byte(before + text))
		all["in base32 after "+before] = base32.StdEncoding.EncodeToString([]byte(before + text + "\n"))
		all["in small base32 after "+before] = strings.ToLower(base32.StdEncoding.EncodeToString([]byte(before + text)))
	}
	return all
}

func TestSecretEncodings(t *testing.T) {
	for _, text := range []string{apiKey, "12345678", "correct horse battery staple", "Schlüssel-für-Ärzte-9", `with "quotes" and \`} {
		w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(text))}})
		for how, content := range written(t, text) {
			if err := w.leak(fstest.MapFS{"f": {Data: []byte(content)}}); !isLeak(err) {
				t.Errorf("%s: not found in %q: %v", how, content, err)
			}
			clean := w.hide("<<" + content + ">>")
			if !strings.HasPrefix(clean, "<<") || !strings.HasSuffix(clean, ">>") || !strings.Contains(clean, "[secret]") || w.find(solid(nil, []byte(clean))) != nil {
				t.Errorf("%s: %q is left of %q", how, clean, content)
			}
		}
	}
}

func TestOrdinaryTextIsKept(t *testing.T) {
	w := newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(apiKey))}, {What: "y", Text: vault.NewSecret([]byte("short"))}})
	for _, text := range []string{"", "short", apiKey[:len(apiKey)-1], apiKey[1:], " a line\n\nand another\t", "sk-proxy-", strings.Repeat("sk-proxy-7Qx ", 1000)} {
		if got := w.hide(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := newWatch(nil).hide("any text"); got != "any text" {
		t.Errorf("without secrets it became %q", got)
	}
}

// answers returns the events that a customer got, as text.
func (w *world) answers(id nostr.ID) string {
	w.Helper()
	var all []string
	for _, kind := range []nostr.Kind{6000, 6050, nip90.KindFeedback} {
		for _, p := range w.sent(kind, id) {
			all = append(all, p.String())
		}
	}
	return strings.Join(all, "\n")
}

// logged makes the step log to the buffer that it returns.
func (w *world) logged() *bytes.Buffer {
	var log bytes.Buffer
	w.Work.c.Log = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// TestDeliveryWithSecretIsStopped runs commands that leak the key as an agent might that a customer's text misleads.
func TestDeliveryWithSecretIsStopped(t *testing.T) {
	for runner, box := range runners(t) {
		for name, c := range map[string]struct{ command, file string }{
			"in a file":        {`echo "the key is $API_KEY" >"$GUILD_DELIVERY/notes.txt"`, "notes.txt"},
			"in all variables": {`mkdir "$GUILD_DELIVERY/a"; env >"$GUILD_DELIVERY/a/env"`, "a/env"},
			"in base64":        {`env | base64 >"$GUILD_DELIVERY/b64"`, "b64"},
			"in hex":           {`printf %s "$API_KEY" | od -An -tx1 >"$GUILD_DELIVERY/hex"`, "hex"},
			"in a name":        {`touch "$GUILD_DELIVERY/$(printf %s "$API_KEY" | tr -d /)-$(printf %s "$API_KEY" | od -An -tx1 | tr -d ' \n')"`, ""},
			"in the result":    {`printf '{"status":"completed","summary":"%s"}' "$API_KEY" >"$GUILD_DELIVERY/result.json"`, "result.json"},
		} {
			t.Run(runner+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, withKey(Exec{Runner: box, Command: c.command}).service())
					log := w.logged()
					id := w.asks(customer, task(t, bundle(t, nil)))
					w.pass(time.Minute)
					w.wantError(id, "the worker left something that is not for others, so that nothing is delivered")
					if told := w.answers(id); strings.Contains(told, "API_KEY") || strings.Contains(told, apiKey) {
						t.Errorf("told %s", told)
					}
					r := w.finishedBy(id)
					if want := "the worker left the value of the variable API_KEY in " + c.file; !strings.HasPrefix(r.Reason, want) || !strings.Contains(log.String(), want) {
						t.Errorf("the owner is told %q, and %s; want %q", r.Reason, log, want)
					}
					if strings.Contains(r.Reason+log.String(), apiKey) || !r.Delivery.IsZero() {
						t.Errorf("%+v, %s", r, log)
					}
				})
			})
		}
	}
}

func TestSecretsInOutputAreHidden(t *testing.T) {
	const says = `echo "using $API_KEY"; echo '{"tool":"login","params":{"with":"'"$API_KEY"'"},"output":"'"$API_KEY"'"}' >&$GUILD_TRACE
		echo '{"note":"it is '"$(printf %s "$API_KEY" | base64 -w 0)"'"}' >&$GUILD_TRACE; echo "no $API_KEY" >&2; `
	for runner, box := range runners(t) {
		for what, command := range map[string]string{"done": says + `echo done >"$GUILD_DELIVERY/out.txt"`, "failed": says + "exit 3"} {
			t.Run(runner+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					x := withKey(Exec{Runner: box, Command: command})
					s := x.service()
					s.Do = func(ctx context.Context, a Assignment) error {
						err := x.Do(ctx, a)
						time.Sleep(time.Second) // the clock stands still while a command runs, and lines are told when time passes
						return err
					}
					w := newWorld(t, s)
					var log bytes.Buffer
					w.Work.c.Log = slog.New(slog.NewTextHandler(&log, nil))
					id := w.asks(customer, task(t, bundle(t, nil)))
					w.pass(time.Minute)
					f := w.finishedBy(id)
					trajectory, err := w.blobs.ReadAll(f.Replay, 1<<20)
					if err != nil {
						t.Fatal(err)
					}
					receipt, err := w.blobs.ReadAll(f.Session, 1<<20)
					if err != nil {
						t.Fatal(err)
					}
					told := w.answers(id)
					if !strings.Contains(told, "using [secret]") || !strings.Contains(string(trajectory), `"with":"[secret]"`) || !strings.Contains(string(trajectory), "it is ") {
						t.Errorf("told %s, recorded %s", told, trajectory)
					}
					all := told + string(trajectory) + string(receipt) + log.String() + f.Reason
					if newWatch(x.service().Secrets).hide(all) != all {
						t.Errorf("it stands in %s", all)
					}
					if failed := what == "failed"; failed != strings.Contains(log.String(), "no [secret]") {
						t.Errorf("logged %s", log.String())
					}
				})
			})
		}
	}
}

func TestLongLineIsHiddenBeforeCut(t *testing.T) {
	a, said := assignment(t)
	a.Hide = newWatch([]Secret{{What: "x", Text: vault.NewSecret([]byte(apiKey))}}).hide
	x := withKey(Exec{Runner: Bare{}, Command: `head -c 1990 /dev/zero | tr '\0' x; echo "$API_KEY"`})
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := said(); len(got) != 1 || strings.Contains(got[0], apiKey[:5]) || !strings.HasSuffix(got[0], "x[secret]") {
		t.Errorf("said %q", got)
	}
}

func TestPlainAnswerWithSecretIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := withKey(Exec{Runner: Bare{}, Command: `echo "$API_KEY" >"$GUILD_DELIVERY/output.txt"`}).service()
		s.Task, s.Kind = "oa.summary.v1", 5050
		w := newWorld(t, s)
		id := w.does(customer, plainEvent())
		w.wantError(id, "the worker left something that is not for others, so that nothing is delivered")
		if told := w.answers(id); strings.Contains(told, apiKey) {
			t.Errorf("told %s", told)
		}
	})
}

func TestTypedAnswerWithSecretIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := withKey(Exec{Runner: Bare{}, Command: `printf '{"topk":[{"rank":1,"id":"a","score":0.5}],"provenance":{"model_id":"%s"}}' \
			"$(printf %s "$API_KEY" | sed s/sk/s\\\\u006b/)" >"$GUILD_DELIVERY/response.json"`})
		id, err := oa.ParseID(oa.RetrievalRerank)
		if err != nil {
			t.Fatal(err)
		}
		one := Typed{Type: id, Author: typed.Author{PubKey: us.key.Hex(), Now: time.Now, Types: oa.Known()}, Do: x.DoTyped}
		w := newWorld(t, Service{Task: oa.RetrievalRerank, Check: one.Check, Do: one.Work, Secrets: SecretsIn(x.Env)})
		asked := w.asks(customer, asTyped(rerank(t)))
		w.pass(time.Minute)
		w.wantError(asked, "the worker left something that is not for others, so that nothing is delivered")
		if r := w.finishedBy(asked); !strings.HasPrefix(r.Reason, "the worker left the value of the variable API_KEY in ") {
			t.Errorf("the owner is told %q", r.Reason)
		}
	})
}

// TestSecretSearchIsLinear wants the time of a search not to grow with the number of secrets.
func TestSecretSearchIsLinear(t *testing.T) {
	var many []Secret
	for i := range 2000 {
		many = append(many, Secret{What: "x", Text: vault.NewSecret([]byte(hex.EncodeToString([]byte{byte(i), byte(i >> 8), 7, 7, 7})))})
	}
	content := fstest.MapFS{"f": {Data: []byte(strings.Repeat("a line of some text, as it is\n", 1<<15))}}
	search := func(w *watch) func() {
		return func() {
			if err := w.leak(content); err != nil {
				t.Error(err)
			}
		}
	}
	one := cputest.Spent(t, search(newWatch(many[:1])))
	if all := cputest.Spent(t, search(newWatch(many))); all > 20*one+time.Second/2 {
		t.Errorf("one secret is looked for in %v, %d in %v", one, len(many), all)
	}
}
