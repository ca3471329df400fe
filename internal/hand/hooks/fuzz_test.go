package hooks_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"guild/internal/hand/hooks"
)

// FuzzClaudeSettings checks that settings are only added to, and are as before when the hooks are gone.
func FuzzClaudeSettings(f *testing.F) {
	for _, s := range []string{`{}`, ` { "a" : [ ] } `, `{"hooks":{"Stop":[ {"hooks":[]} , 1 ]}}`, `{"hooks" : {"x":1}}`, `{"hooks":{"Stop":[]}}`, `{`, `{"\u0068ooks":{}}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := hooks.InstallClaudeCode(path, config)
		after, readErr := os.ReadFile(path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		if err != nil {
			if string(after) != before {
				t.Fatalf("%q became %q, with the error %v", before, after, err)
			}
			return
		}
		if !json.Valid(after) || !isSubsequence(before, string(after)) {
			t.Fatalf("%q became %q", before, after)
		}
		if _, err := hooks.UninstallClaudeCode(path); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCodexConfiguration checks that a configuration is as before when the hook is gone.
func FuzzCodexConfiguration(f *testing.F) {
	for _, s := range []string{"", "a = 1\n[b]\nnotify = []", "notify = ['x']", " notify = [ # x\n '''y''',\n]#\n\n", "\"notify\"=[\"\\\"\"]\n", "a = \"\"\"\nnotify = []\"\"\"\nnotify = []"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := hooks.InstallCodex(path, config)
		if err == nil {
			_, err := hooks.UninstallCodex(path)
			if err != nil {
				t.Fatal(err)
			}
		}
		after, readErr := os.ReadFile(path)
		if os.IsNotExist(readErr) {
			after = nil
		}
		if len(after) > 0 && string(after) != before || len(after) == 0 && len(before) > 9 {
			t.Fatalf("%q became %q (%v)", before, after, err)
		}
	})
}
