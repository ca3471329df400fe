package nip90

import (
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// Rates is a price by usage, in a quote that asks to lock the most that the work may cost. All amounts are in thousandths of the
// unit of the quote, which are millisatoshis for sat and msat.
type Rates struct {
	Price       guild.Msat `json:"price_msat"`                   // the fixed part
	Per1kTokens guild.Msat `json:"per_1k_tokens_msat,omitempty"` // for 1,000 tokens
	PerMinute   guild.Msat `json:"per_minute_msat,omitempty"`    // of work
}

// Usage counts the tokens and the time that a provider claims for its work. Nobody else can check that.
type Usage struct {
	Tokens int64 `json:"tokens"`    // of models; 0 if the worker reports none
	WorkMs int64 `json:"worked_ms"` // by the worker
}

const (
	ratesTag = "metered" // price, rate per 1,000 tokens, rate per minute
	usageTag = "usage"   // tokens, milliseconds
)

// MaxMetered is the largest number in Rates and Usage that is read or written. All numbers up to it are exact in any JSON.
const MaxMetered = 1<<53 - 1

// metered reads a whole number in its only form.
func metered(text string) (n int64, ok bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n >= 0 && n <= MaxMetered && strconv.FormatInt(n, 10) == text
}

// parseRates reads a tag of rates. What cannot be read is refused, because without its rates a quote asks for the whole lock.
func parseRates(tag nostr.Tag) (*Rates, error) {
	var all [3]int64
	good := len(tag) == 1+len(all)
	for i := range all {
		var ok bool
		all[i], ok = metered(value(tag, i+1))
		good = good && ok
	}
	if !good || all[1]+all[2] == 0 {
		return nil, fmt.Errorf("the rates %.100q: %w", tag, ErrMalformed)
	}
	return &Rates{Price: guild.Msat(all[0]), Per1kTokens: guild.Msat(all[1]), PerMinute: guild.Msat(all[2])}, nil
}

func (r *Rates) tag() nostr.Tags {
	if r == nil {
		return nil
	}
	return nostr.Tags{numbers(ratesTag, int64(r.Price), int64(r.Per1kTokens), int64(r.PerMinute))}
}

// takeUsage reads the first valid tag of a claim, and reports whether tag was it.
func takeUsage(tag nostr.Tag, u **Usage) bool {
	tokens, ok := metered(value(tag, 1))
	ms, good := metered(value(tag, 2))
	if tag[0] != usageTag || len(tag) != 3 || !ok || !good || *u != nil {
		return false
	}
	*u = &Usage{Tokens: tokens, WorkMs: ms}
	return true
}

func (u *Usage) tag() nostr.Tags {
	if u == nil {
		return nil
	}
	return nostr.Tags{numbers(usageTag, u.Tokens, u.WorkMs)}
}

// numbers returns a tag of numbers, each of which is put into the range that is read.
func numbers(name string, all ...int64) nostr.Tag {
	tag := nostr.Tag{name}
	for _, n := range all {
		tag = append(tag, strconv.FormatInt(min(max(n, 0), MaxMetered), 10))
	}
	return tag
}
