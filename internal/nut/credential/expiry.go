package credential

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"guild/internal/cli"
	"guild/nutshell"
)

// usualLife is the life of a credential if neither a flag nor the bundle's deadline says how long it is good.
const usualLife = 30 * 24 * time.Hour

// parseExpiry parses the value of --expires: a time in RFC 3339, a date (its end, in UTC), a duration such as 36h, 7d or
// 2w, or "never", for which it returns "".
func parseExpiry(text string, now time.Time) (nutshell.Timestamp, error) {
	if text == "never" {
		return "", nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		if at, err = time.Parse(time.DateOnly, text); err == nil {
			at = at.AddDate(0, 0, 1).Add(-time.Second)
		}
	}
	if err != nil {
		var d time.Duration
		d, err = duration(text)
		at = now.Add(d)
	}
	if err != nil {
		err = fmt.Errorf("--expires: %.40q is not a time", text)
	} else if !at.After(now) {
		err = errors.New("--expires: is in the past")
	}
	if err != nil {
		return "", cli.WithHint(cli.Usage(err), "as in 2026-03-21, 2026-03-21T10:00:00Z, 36h, 7d, 2w or never")
	}
	return nutshell.Timestamp(at.UTC().Format(time.RFC3339)), nil
}

// duration is time.ParseDuration with days and weeks.
func duration(text string) (time.Duration, error) {
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		if n, ok := strings.CutSuffix(text, unit); ok {
			count, err := strconv.Atoi(n)
			if err != nil || count < 1 || count > 36500 {
				return 0, errors.New("is not a duration")
			}
			return time.Duration(count*hours) * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("is not a duration")
	}
	return d, err
}

// usualExpiry returns when a credential expires by default: at the bundle's deadline, or usualLife from now.
func usualExpiry(m *nutshell.Manifest, now time.Time) nutshell.Timestamp {
	if deadline, err := m.ExpiresAt().Time(); err == nil && deadline.After(now) {
		return m.ExpiresAt()
	}
	return nutshell.Timestamp(now.Add(usualLife).UTC().Format(time.RFC3339))
}

// Until returns when something expires, in words for a person.
func Until(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case !now.Before(at):
		return "expired " + at.UTC().Format("2006-01-02 15:04")
	}
	return at.UTC().Format("2006-01-02 15:04")
}
