package config

import (
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"

	"guild"
	"guild/internal/hand/dial"
	"guild/internal/policy"
)

// check rejects values that would fail later with a less clear error.
func (c Config) check() error {
	if err := CheckRelays(c.Relays); err != nil {
		return fmt.Errorf("relays: %w", err)
	}
	for _, u := range c.Blossom {
		if err := checkURL(u, "http", "https"); err != nil {
			return fmt.Errorf("blossom: %w", err)
		}
	}
	host, _, err := net.SplitHostPort(c.Relay.Addr)
	if err != nil {
		return fmt.Errorf("relay.addr: %w", err)
	}
	if !dial.IsLoopback(host) { // other machines could reach it, which would need TLS and a password
		return fmt.Errorf("relay.addr: %q: want a loopback address such as 127.0.0.1:7447", c.Relay.Addr)
	}
	if host, _, err = net.SplitHostPort(c.Wallet.Mint); c.Wallet.Mint != "" && (err != nil || !dial.IsLoopback(host)) {
		return fmt.Errorf("wallet.mint: %q: want a loopback address such as 127.0.0.1:7780", c.Wallet.Mint)
	}
	for task, set := range c.Tasks {
		if err := set.check(); err != nil {
			return fmt.Errorf("tasks.%s: %w", task, err)
		}
	}
	if _, err := policy.Named(c.Trust.Policy); err != nil {
		return fmt.Errorf("trust.policy: %w", err)
	}
	if err := c.Work.check(); err != nil {
		return fmt.Errorf("work.%w", err)
	}
	switch {
	case c.Meeting.Daily < 0 || c.Meeting.Count < 0 || c.Meeting.AtOnce < 1:
		return fmt.Errorf("meeting: daily_msat and count are 0 or more, at_once 1 or more")
	case c.Limits.AtOnce < 1 || c.Limits.PerMinute < 1:
		return fmt.Errorf("limits: at_once and per_minute are 1 or more")
	case c.Budget.Daily < 0 || c.Budget.Monthly < 0:
		return fmt.Errorf("budget: daily_msat and monthly_msat are 0 or more")
	case c.Judge.Jobs < 0:
		return fmt.Errorf("judge.jobs: %d, want 0 or more", c.Judge.Jobs)
	case c.Judge.Opinion.Cap < 0:
		return fmt.Errorf("judge.opinion.max_pay_msat: %d, want 0 or more", c.Judge.Opinion.Cap)
	}
	if err := c.Agents.check(); err != nil {
		return fmt.Errorf("agents.%w", err)
	}
	if err := c.checkServices(); err != nil {
		return err
	}
	return checkDurations(reflect.ValueOf(c), "")
}

// CheckRelays rejects a relay that cannot be used: no ws:// or wss:// URL, or ws:// to another machine, which the relay client
// refuses, too.
func CheckRelays(urls []string) error {
	for _, u := range urls {
		if err := checkURL(u, "ws", "wss"); err != nil {
			return err
		}
		if parsed, err := url.Parse(u); err != nil || parsed.Scheme == "ws" && !dial.IsLoopback(parsed.Hostname()) {
			return fmt.Errorf("%q: ws:// is not encrypted and only for this machine: use wss://", u)
		}
	}
	return nil
}

// check rejects invalid settings of a task.
func (s TaskSet) check() error {
	switch {
	case s.Kind != 0 && (s.Kind < 5000 || s.Kind > 5999):
		return fmt.Errorf("kind %d is not in 5000..5999 (NIP-90)", s.Kind)
	case !slices.Contains(append(guild.Classes(), ""), s.Class):
		return fmt.Errorf("class %q: want one of %q", s.Class, guild.Classes())
	case s.Threshold != 0 && (s.Threshold < 0.1 || s.Threshold > 0.9):
		return fmt.Errorf("threshold %v is not in 0.1..0.9", s.Threshold)
	case s.Daily < 0 || s.Monthly < 0 || s.Bid < 0:
		return fmt.Errorf("bid_msat, daily_msat and monthly_msat are 0 or more")
	}
	return nil
}

// checkURL rejects a URL without a host or with another scheme.
func checkURL(text string, schemes ...string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	if !slices.Contains(schemes, u.Scheme) || u.Host == "" {
		return fmt.Errorf("%q: want %s://host", text, schemes[len(schemes)-1])
	}
	return nil
}

// checkDurations rejects durations without a unit: 300 is 300 ns, which is never intended.
func checkDurations(v reflect.Value, prefix string) error {
	for f, value := range v.Fields() {
		key := prefix + f.Tag.Get("koanf")
		switch x := value.Interface().(type) {
		case time.Duration:
			if x < time.Millisecond {
				return fmt.Errorf("%s: %v, want a positive time with its unit, such as \"30s\"", key, x)
			}
		case []time.Duration:
			for _, d := range x {
				if d < time.Millisecond {
					return fmt.Errorf("%s: %v, want positive times with their unit, such as \"10s\"", key, d)
				}
			}
		case Work, Meeting, Judge, Timeouts, Records:
			if err := checkDurations(value, key+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a Agents) check() error {
	for name, keys := range map[string][]string{"owners": a.Owners, "allow": a.Allow} {
		if _, err := Keys(keys); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if !slices.Contains([]string{"", "trusted", "all", "none"}, a.Asked) {
		return fmt.Errorf("asked: %q, want trusted, all or none", a.Asked)
	}
	if a.Budget < 0 {
		return fmt.Errorf("budget: %d, want 0 or more", a.Budget)
	}
	return nil
}
