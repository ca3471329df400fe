package relay

import (
	"maps"
	"slices"

	"fiatjaf.com/nostr"
)

// span counts the stored events that a filter brought. Relays send the newest first and stop at some number, so there may be
// more events before the oldest.
type span struct {
	count  int
	oldest nostr.Timestamp
}

// fullPage is the number of events from which we ask for older ones. Relays stop at 500 or so.
const fullPage = 100

// count notes a stored event.
func (st *stream) count(e nostr.Event) {
	if st.spans == nil {
		st.spans = make([]span, len(st.filters))
	}
	for i, f := range st.filters {
		if !f.Matches(e) {
			continue
		}
		sp := &st.spans[i]
		if sp.count == 0 || e.CreatedAt < sp.oldest {
			sp.oldest = e.CreatedAt
		}
		sp.count++
	}
}

// Limits on the questions about one second. More events than a page may have the same created_at. No filter of NIP-01 can ask
// for the rest of a second, so we ask for that second alone, and if the answer seems cut, for parts of it.
const (
	maxSecond = 10_000 // events of one second that we read
	maxParts  = 16     // filters of one request
)

// older returns a stream that asks for older events than the filters brought, or nil if there are none. A filter with a
// limit gets no more events than that. If all events of a page are of one second, it asks for that whole second, and then
// for older events. The filters in unread have more events than the relay returns.
func (st *stream) older() (next *stream, unread []nostr.Filter) {
	next = &stream{feed: st.feed}
	var divided stream // to be appended at the end, because short looks at the filter behind
	for i, sp := range st.spans {
		f := st.filters[i]
		switch {
		case st.page(i) > 0:
			if !st.short(i) {
				continue
			}
			parts := halves(f)
			if sp.count < st.page(i) || len(parts) == 0 || len(divided.filters)+len(parts) > maxParts {
				unread = append(unread, f)
				continue
			}
			for _, part := range parts {
				divided.ask(part, st.page(i))
			}
		case sp.count < fullPage || f.Limit > 0 && sp.count >= f.Limit:
		case f.Until != 0 && sp.oldest >= f.Until:
			next.askBySecond(f, sp.count)
		default:
			f.Until = sp.oldest
			f.Limit = max(0, f.Limit-sp.count)
			next.ask(f, 0)
		}
	}
	next.filters, next.pages = append(next.filters, divided.filters...), append(next.pages, divided.pages...)
	if len(next.filters) == 0 {
		return nil, unread
	}
	return next, unread
}

// ask adds a filter and its page, see stream.pages.
func (st *stream) ask(f nostr.Filter, page int) {
	st.filters = append(st.filters, f)
	st.pages = append(st.pages, page)
}

// askBySecond asks for the whole second at which a filter ends, of which a page has brought some events, and for older
// events.
func (st *stream) askBySecond(f nostr.Filter, page int) {
	second, rest := f, f
	second.Since = f.Until
	st.ask(second, page)
	rest.Until--
	rest.Limit = max(0, f.Limit-page)
	if rest.Until > 0 && rest.Until >= rest.Since {
		st.ask(rest, 0)
	}
}

func (st *stream) page(i int) int {
	if i < len(st.pages) {
		return st.pages[i]
	}
	return 0
}

// short reports whether a filter that asked for a whole second got only a part of it. There is no sure sign. We take it for
// cut if the answer is no longer than the page before, and that page was cut: there are older events, or its length is a
// round number, as limits are. Some relays return nothing for a single second.
func (st *stream) short(i int) bool {
	n, page := st.spans[i].count, st.page(i)
	if limit := st.filters[i].Limit; limit > 0 && n >= limit {
		return false
	}
	if n >= maxSecond {
		return true
	}
	behind := i+1 < len(st.filters) && st.page(i+1) == 0 && st.spans[i+1].count > 0
	return n <= page && (behind || n >= fullPage && n%50 == 0)
}

// halves divides a filter into two: by kinds, by authors or by the values of a tag. It returns nil for a filter that cannot
// be divided, or that has a limit.
func halves(f nostr.Filter) []nostr.Filter {
	a, b := f, f
	switch {
	case f.Limit > 0:
		return nil
	case len(f.Kinds) > 1:
		a.Kinds, b.Kinds = inTwo(f.Kinds)
		return []nostr.Filter{a, b}
	case len(f.Authors) > 1:
		a.Authors, b.Authors = inTwo(f.Authors)
		return []nostr.Filter{a, b}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Tags)) {
		if values := f.Tags[name]; len(values) > 1 {
			a.Tags, b.Tags = maps.Clone(f.Tags), maps.Clone(f.Tags)
			a.Tags[name], b.Tags[name] = inTwo(values)
			return []nostr.Filter{a, b}
		}
	}
	return nil
}

func inTwo[T any](list []T) (a, b []T) { return list[:len(list)/2], list[len(list)/2:] }
