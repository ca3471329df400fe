package trust

import (
	"fmt"
	"strings"

	"guild"
	"guild/internal/policy"
)

// dec writes a number in micro-units in full, without needless zeros.
func dec[T ~int64](v T) string {
	sign := ""
	if v < 0 {
		sign, v = "−", -v
	}
	whole := fmt.Sprintf("%d.%06d", int64(v)/guild.Micro, int64(v)%guild.Micro)
	return sign + strings.TrimSuffix(strings.TrimRight(whole, "0"), ".")
}

// founding describes the evidence.
func founding(e Evidence) string {
	s := e.Pattern
	if e.Pattern == success || e.Pattern == partial {
		s += fmt.Sprintf(", score %s", dec(e.Score))
	}
	if e.Strength != "" {
		s += ", " + string(e.Strength)
	}
	if e.LatencyMs > 0 && e.BaselineMs > 0 {
		s += fmt.Sprintf(", %d ms, usually %d ms", e.LatencyMs, e.BaselineMs)
	}
	return s
}

// classed describes the effect of a class on a change, if it has one.
func classed(class string, p policy.Trust) string {
	if m := multiplier(class, p); m != guild.Micro {
		return " × " + dec(m) + " for " + class
	}
	return ""
}

// shared describes the effect of a verdict's strength on a change, if it has one.
func shared(e Evidence, p policy.Trust) string {
	if part := share(e, p); part != guild.Micro {
		return " × " + dec(part) + " for " + string(e.Strength)
	}
	return ""
}

func increased(s State, e Evidence, runs int, terms string, damping, raw guild.Trust, p policy.Trust) string {
	return fmt.Sprintf("%s, success %d in a row: %s + (%s)%s × damping %s%s = %s", founding(e), runs, dec(s.Trust), terms,
		classed(e.Class, p), dec(damping), shared(e, p), dec(raw))
}

func decreased(s State, e Evidence, rate, raw guild.Trust, p policy.Trust) string {
	floor := ""
	if raw <= p.Floor {
		floor = ", the floor, which suspends"
	}
	return fmt.Sprintf("%s: %s − %s%s%s = %s%s", founding(e), dec(s.Trust), dec(rate), classed(e.Class, p), shared(e, p), dec(raw), floor)
}

func averaged(s State, raw, alpha, ema guild.Trust) string {
	return fmt.Sprintf("; average %s × %s + %s × %s = %s", dec(alpha), dec(raw), dec(guild.Micro-alpha), dec(s.EMA), dec(ema))
}

// limited describes how the limits reduced a change.
func limited(s State, by, step, slowed, left, to guild.Trust, p policy.Trust) string {
	change := clamp(slowed, -left, left)
	said := "; change " + dec(by)
	if step != by {
		said += fmt.Sprintf(", at most %s in one step", dec(p.Step))
	}
	if slowed != step {
		said += fmt.Sprintf(", × %s for oscillating", dec(p.Oscillating))
	}
	if change != slowed {
		said += fmt.Sprintf(", of %s a day %s left", dec(p.Daily), dec(left))
	}
	if to != s.Trust+change {
		said += fmt.Sprintf(", within %s and %s", dec(p.Floor), dec(p.Ceiling))
	}
	return said + ": " + dec(s.Trust) + " → " + dec(to)
}
