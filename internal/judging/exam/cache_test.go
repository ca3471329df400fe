package exam

import "testing"

func TestNoGoCache(t *testing.T) {
	for name, e := range map[string]*Engine{"not wanted": {}, "cannot be written": {Cache: "/proc/guild"}} {
		if dir, err := e.goCache(t.Context(), "/usr/local/go", "go1", t.TempDir()); dir != "" || err != nil {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
	}
}
