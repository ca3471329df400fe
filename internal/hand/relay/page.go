package relay

import (
	"maps"
	"slices"

	"fiatjaf.com/nostr"
)

// span is what a filter brought of the stored events. Relays send the newest first and stop at a number of
// their own, so a long span may have more behind its oldest event.
type span struct {
	count  int
	oldest nostr.Timestamp
}

// fullPage is how many events make it worth asking for older ones. Relays stop at 500 or so.
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

// Bounds of what is asked about one second. Relays order the events of a second, but no filter of NIP-01 says "after
// this one", so those beyond a page are had only by asking for the second alone, and then for parts of it.
const (
	maxSecond = 10_000 // events of one second that an answer of any relay has at most
	maxParts  = 16     // filters of one request
)

// older returns a stream that asks for what the filters may have more behind what they brought, nil if that is
// nothing. A filter with a limit of its own wants no more than that. Where a page has not got beyond its second, the
// whole of that second is asked for, and then what is older than that. The filters in unread have more than can be
// had.
func (st *stream) older() (next *stream, unread []nostr.Filter) {
	next = &stream{feed: st.feed}
	var divided stream // behind the others, see short
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

// ask adds a filter. The page is that of stream.pages.
func (st *stream) ask(f nostr.Filter, page int) {
	st.filters = append(st.filters, f)
	st.pages = append(st.pages, page)
}

// askBySecond asks for all of the second where a filter ends, of which a page has brought so many events, and then
// for what is older.
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

// short reports whether a filter that asked for a whole second has got a part of it. The answer is no longer than the
// page before, then; and that page was cut off if there are older events, or if its length is one at which people cut.
// Some relays even have nothing to say about a single second.
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

// halves divides what a filter asks for into two: by kinds, by authors or by the values of a tag. There is nothing to
// divide in one with a limit, which the relay has answered as well as it can.
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
