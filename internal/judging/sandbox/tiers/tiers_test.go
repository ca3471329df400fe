package tiers_test

import (
	"errors"
	"strings"
	"testing"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
)

func TestTierNames(t *testing.T) {
	for i, r := range tiers.All() {
		name := tiers.Names()[i]
		c := r.Probe(t.Context())
		if c.Tier != name {
			t.Errorf("%s calls itself %s", name, c.Tier)
		}
		if !c.Usable && (c.Reason == "" || c.Remedy == "") {
			t.Errorf("%s is not usable and does not say why, or what would help: %+v", name, c)
		}
		if c.Usable && c.Rootfs == "" {
			t.Errorf("%s does not say what a run's programs are", name)
		}
	}
}

func TestBestTier(t *testing.T) {
	_, best, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range tiers.All() {
		if c := r.Probe(t.Context()); c.Usable {
			if c.Tier != best.Tier {
				t.Errorf("the best is %s, but %s comes before it", best.Tier, c.Tier)
			}
			return
		}
	}
}

func TestPickNeverReplaces(t *testing.T) {
	for _, name := range tiers.Names() {
		_, c, err := tiers.Pick(t.Context(), name)
		if unusable, ok := errors.AsType[*sandbox.UnusableError](err); err != nil && (!ok || unusable.Remedy == "") {
			t.Errorf("%s: %v", name, err)
		}
		if c.Tier != name {
			t.Errorf("asked for %s, got %s", name, c.Tier)
		}
	}
	for name, want := range map[string]string{"chroot": "no sandbox is called", "bubblewrap": "is gone"} {
		_, _, err := tiers.Pick(t.Context(), name)
		unusable, ok := errors.AsType[*sandbox.UnusableError](err)
		if !ok || !strings.Contains(unusable.Reason, want) || unusable.Remedy == "" {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
}
