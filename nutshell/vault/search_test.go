package vault_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild/nutshell/vault"
)

var someTime = time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)

func TestSearchForValues(t *testing.T) {
	const password = `s3cr"et/value`
	v := vault.New(someTime)
	for _, c := range []vault.Credential{
		{Name: "db", Value: vault.NewSecret([]byte(`{"host":"db.internal.example","port":5432,"password":"s3cr\"et/value","url":"postgres://bob:pass-word@h"}`))},
		{Name: "short", Value: vault.NewSecret([]byte(`"1234567"`))},
	} {
		if err := v.Put(c); err != nil {
			t.Fatal(err)
		}
	}
	filler := strings.Repeat("x", 64<<10-5)
	for content, want := range map[string]string{
		"password = " + password:             "db",
		`{"p":"s3cr\"et/value"}`:             "db",
		"?p=s3cr%22et%2Fvalue":               "db",
		hex.EncodeToString([]byte(password)): "db",
		base64.StdEncoding.EncodeToString([]byte("bob:" + password + " more")): "db",
		base64.URLEncoding.EncodeToString([]byte("b:" + password)):             "db",
		filler + password: "db",
		strings.Repeat(filler, 3) + password + filler: "db",
		"postgres://bob:pass-word@h/users":            "db",
		"connects to db.internal.example at 5432":     "",
		"1234567": "",
		filler:    "",
	} {
		file, credential, err := v.Search(fstest.MapFS{"a": {Data: []byte("a")}, "b/c": {Data: []byte(content)}})
		if err != nil || credential != want || (want != "") != (file == "b/c") {
			t.Errorf("%.60q: %q in %q, %v", content, credential, file, err)
		}
	}
	if file, _, _ := v.Search(fstest.MapFS{"files/" + hex.EncodeToString([]byte(password)): {}}); file == "" {
		t.Error("a value in the name of a file was not found")
	}
}

func TestUsedLines(t *testing.T) {
	used := vault.Used{Name: "db", At: someTime}
	raw := append(used.Line(), `{"name":"cut","opened`...)
	if got := vault.ParseUsed(raw); len(got) != 1 || got[0].Name != "db" || !got[0].At.Equal(someTime) {
		t.Errorf("%v of %q", got, raw)
	}
	if got := vault.ParseUsed(bytes.Repeat([]byte("\n"), 3)); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
