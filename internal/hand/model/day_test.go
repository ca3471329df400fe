package model

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func day(t *testing.T, limit int64) *Day {
	return &Day{Path: filepath.Join(t.TempDir(), "tokens.json"), Limit: limit, Now: func() time.Time {
		return time.Date(2026, 11, 26, 23, 59, 59, 0, time.UTC)
	}}
}

func TestDayLimitIsSharedAndSurvivesRestart(t *testing.T) {
	api := endpoint(t, says("application/json", chat))
	api.Day = day(t, 50)
	for range 2 {
		if _, err := ask(t, job(t, api), "/chat/completions", `{"max_tokens":20}`); err != nil {
			t.Fatal(err)
		}
	}
	again := &Day{Path: api.Day.Path, Limit: 50, Now: api.Day.Now}
	api.Day = again
	if tokens, err := again.Tokens(); err != nil || tokens != 36 {
		t.Errorf("%d %v", tokens, err)
	}
	_, err := ask(t, job(t, api), "/chat/completions", `{"max_tokens":20}`)
	if limit, ok := errors.AsType[*LimitError](err); !ok || limit.Per != "day" || limit.Used != 36 {
		t.Errorf("%v", err)
	}
	again.Now = func() time.Time { return time.Date(2026, 11, 27, 0, 0, 1, 0, time.UTC) }
	if _, err := ask(t, job(t, api), "/chat/completions", `{"max_tokens":20}`); err != nil {
		t.Errorf("the next day: %v", err)
	}
	if tokens, err := again.Tokens(); err != nil || tokens != 18 {
		t.Errorf("%d %v", tokens, err)
	}
}

func TestDayCountsWhatACrashLeft(t *testing.T) {
	d := day(t, 100)
	api := API{URL: "http://127.0.0.1:1/v1", Day: d}
	if err := job(t, api).hold(70); err != nil { // and the process ends here
		t.Fatal(err)
	}
	api.Day = &Day{Path: d.Path, Limit: 100, Now: d.Now}
	if err := job(t, api).hold(70); err == nil {
		t.Error("the crash made room")
	}
}

func TestDayCountsAtOnce(t *testing.T) {
	path := day(t, 0).Path
	var adding sync.WaitGroup
	for range 4 { // each as another process
		d := &Day{Path: path, Now: time.Now}
		adding.Go(func() {
			for range 25 {
				if err := d.add(3, true); err != nil {
					t.Error(err)
				}
			}
		})
	}
	adding.Wait()
	if tokens, err := (&Day{Path: path, Now: time.Now}).Tokens(); err != nil || tokens != 300 {
		t.Errorf("%d %v", tokens, err)
	}
}

func TestDamagedCountIsNotZero(t *testing.T) {
	d := day(t, 100)
	for _, text := range []string{"", "{", `{"day":"2026-11-26","tokens":-5}`} {
		if err := os.WriteFile(d.Path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := d.add(1, true)
		if err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}
