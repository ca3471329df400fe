package faulttest

import (
	"strconv"
	"strings"

	"fiatjaf.com/nostr"
)

// strangers returns events by which others answer a request, copy a result, or delete either. They have the date of the
// event that they are about.
func strangers(e nostr.Event) (all []nostr.Event) {
	to := func(p string) nostr.Tags { return nostr.Tags{{"e", e.ID.Hex()}, {"p", p}} }
	asked := ""
	if tag := e.Tags.Find("p"); tag != nil {
		asked = tag[1]
	}
	switch {
	case 5000 <= e.Kind && e.Kind < 6000:
		customer := e.PubKey.Hex()
		all = append(all,
			nostr.Event{Kind: 7000, Tags: append(to(customer), nostr.Tag{"status", "error", "it cannot be done"})},
			nostr.Event{Kind: 7000, Tags: append(to(customer), nostr.Tag{"status", "payment-required"}, nostr.Tag{"amount", "1000000"})},
			nostr.Event{Kind: e.Kind + 1000, Tags: to(customer), Content: "the answer is 42"},
			nostr.Event{Kind: 5, Tags: append(to(asked), nostr.Tag{"k", strconv.Itoa(int(e.Kind))})},
		)
		if e.Tags.Has("encrypted") {
			all = append(all, nostr.Event{Kind: e.Kind, Tags: e.Tags, Content: e.Content}) // it cannot be decrypted
		}
	case 6000 <= e.Kind && e.Kind < 7000:
		all = append(all,
			nostr.Event{Kind: e.Kind, Tags: e.Tags, Content: e.Content},
			nostr.Event{Kind: 5, Tags: append(to(asked), nostr.Tag{"k", strconv.Itoa(int(e.Kind))})},
		)
	}
	for i := range all {
		all[i].CreatedAt = e.CreatedAt
	}
	return all
}

// garbage returns data that must not harm a client.
func garbage(d dice) []byte {
	things := []string{
		``, `[]`, `{}`, `hello`, `["EVENT"]`, `["EVENT","1",{}]`, `["EVENT","1",null]`, `["OK"]`, `["OK","zz",true,""]`,
		`["OK","` + strings.Repeat("0", 63) + `",true,""]`, `["EOSE"]`, `["EOSE",1]`, `["CLOSED","no such"]`, `["NEVER","1"]`,
		`["NOTICE",` + "\"\x00\"]", `["AUTH",7]`, "[\"EVENT\",\"1\",\xff]", `["EVENT","1",{"id":1,"kind":-1,"tags":[[[]]]}]`,
		`["NOTICE","` + strings.Repeat("x", 600<<10) + `"]`, strings.Repeat("[", 100_000),
		`["EVENT","1",{"content":"` + strings.Repeat("y", 100<<10), `["COUNT","1",{"count":1}]`,
	}
	return []byte(things[d.IntN(len(things))])
}
