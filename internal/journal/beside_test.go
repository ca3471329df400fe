package journal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"guild/internal/journal"
	"guild/internal/journal/journaltest"
)

func seen(t *testing.T, j *journal.Journal, prefix string) (all []string) {
	t.Helper()
	for m, err := range j.Seen(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Subject+"="+string(m.Data))
	}
	return all
}

func TestSeenKeepsLatest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 0)
		j := open(t, options(dir))
		if got := seen(t, j, ""); got != nil {
			t.Errorf("seen at first: %v", got)
		}
		for _, s := range []string{"a.1 old", "a.2 x", "ab.1 y", "a.1 new"} {
			subject, data, _ := strings.Cut(s, " ")
			if err := j.See(t.Context(), subject, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		closeIt(t, j)
		j = open(t, options(dir))
		defer closeIt(t, j)
		if got := fmt.Sprint(seen(t, j, "a")); got != "[a.2=x a.1=new]" {
			t.Errorf("seen under a: %s", got)
		}
		if got := seen(t, j, ""); len(got) != 3 {
			t.Errorf("seen: %v", got)
		}
		if got := seen(t, j, "nothing"); got != nil {
			t.Errorf("seen under nothing: %v", got)
		}
		if err := j.See(t.Context(), "a.*", nil); !errors.Is(err, journal.ErrSubject) {
			t.Errorf("got %v, want ErrSubject", err)
		}
		if err := j.See(t.Context(), "a", make([]byte, 1<<20)); !errors.Is(err, journal.ErrTooLarge) {
			t.Errorf("got %v, want ErrTooLarge", err)
		}
	})
}

func TestUnseenStaysDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filled(t, 0)
		j := open(t, options(dir))
		for _, subject := range []string{"a", "a.1", "b"} {
			if err := j.See(t.Context(), subject, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		for _, subject := range []string{"a", "never.seen"} {
			if err := j.Unsee(t.Context(), subject); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
		}
		if err := j.Unsee(t.Context(), "*"); !errors.Is(err, journal.ErrSubject) {
			t.Errorf("got %v, want ErrSubject", err)
		}
		for range 2 {
			if got := fmt.Sprint(seen(t, j, "")); got != "[a.1=x b=x]" {
				t.Errorf("seen: %s", got)
			}
			closeIt(t, j)
			j = open(t, options(dir))
		}
		closeIt(t, j)
	})
}

func TestRejectedKeepsLastThousand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journaltest.Open(t)
		for i := range 1010 {
			if err := j.Reject(t.Context(), fmt.Sprintf("reason\r\n%d", i), []byte{byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		i := 10
		for m, err := range j.Rejected(t.Context()) {
			if err != nil || m.Reason != fmt.Sprintf("reason  %d", i) || m.Data[0] != byte(i) {
				t.Fatalf("got %+v, %v, want number %d", m, err, i)
			}
			i++
		}
		if i != 1010 {
			t.Errorf("%d rejected", i-10)
		}
	})
}
