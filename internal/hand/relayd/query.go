package relayd

import (
	"bytes"
	"container/heap"
	"context"
	"iter"
	"slices"

	"fiatjaf.com/nostr"
	"go.etcd.io/bbolt"
)

const (
	maxResults  = 500       // events that one filter gets, also if it has no limit
	maxSecond   = 10_000    // the same for a filter of a single second
	maxPrefixes = 1000      // values in one filter, and so cursors
	pageEvents  = 100       // read in one transaction; a slow client must not keep it open
	pageBytes   = 1 << 20   // the same in bytes
	maxCounted  = 1_000_000 // events that are read for one COUNT
)

// match is a stored event with its bytes, which are valid only in the transaction.
type match struct {
	event   nostr.Event
	encoded []byte
	at      position
}

// stored is an event as it is served.
type stored struct {
	id      nostr.ID
	encoded []byte
}

// query yields the stored events that match a filter, the newest first, up to its limit. No transaction is open during a
// yield.
func (s *store) query(ctx context.Context, filter nostr.Filter) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		left, after := resultLimit(filter), position{}
		for left > 0 && ctx.Err() == nil {
			page, last, err := s.page(ctx, filter, after, min(left, pageEvents))
			if err != nil {
				yield(stored{}, err)
				return
			}
			for _, found := range page {
				if !yield(found, nil) {
					return
				}
			}
			if last == (position{}) {
				return
			}
			left, after = left-len(page), last
		}
	}
}

// resultLimit returns the number of events that a filter gets. A client gets more by asking for older ones. That does not
// work within one second, so a filter of a single second gets more.
func resultLimit(f nostr.Filter) int {
	most := maxResults
	if f.Since != 0 && f.Since == f.Until {
		most = maxSecond
	}
	switch {
	case f.LimitZero:
		return 0
	case f.Limit <= 0:
		return most
	default:
		return min(f.Limit, most)
	}
}

// page reads up to limit events after a position. last is zero if there are no more.
func (s *store) page(ctx context.Context, filter nostr.Filter, after position, limit int) (page []stored, last position, err error) {
	now, size := s.stamp(), 0
	err = s.db.View(func(tx *bbolt.Tx) error {
		for found := range scan(ctx, tx, filter, after) {
			if expired(found.event, now) {
				continue
			}
			page = append(page, stored{found.event.ID, bytes.Clone(found.encoded)})
			size += len(found.encoded)
			if len(page) == limit || size >= pageBytes {
				last = found.at
				return nil
			}
		}
		return context.Cause(ctx)
	})
	return page, last, err
}

// count returns the number of events that match at least one of the filters, without their limits (NIP-45).
func (s *store) count(ctx context.Context, filters []nostr.Filter) (n int, err error) {
	now, seen := s.stamp(), 0
	err = s.db.View(func(tx *bbolt.Tx) error {
		for i, filter := range filters {
			for found := range scan(ctx, tx, filter, position{}) {
				if !expired(found.event, now) && !matchesAny(filters[:i], found.event) {
					n++
				}
				seen++
				if seen == maxCounted {
					return nil
				}
			}
		}
		return context.Cause(ctx)
	})
	return n, err
}

func matchesAny(filters []nostr.Filter, e nostr.Event) bool {
	return slices.ContainsFunc(filters, func(f nostr.Filter) bool { return f.Matches(e) })
}

// scan yields all events that match, the newest first, from a position on (zero is before all). It merges one cursor for each
// prefix of the index with the fewest candidates. It stops when ctx ends, because there may be many candidates and no match.
func scan(ctx context.Context, tx *bbolt.Tx, filter nostr.Filter, after position) iter.Seq[match] {
	return func(yield func(match) bool) {
		start := startOf(filter, after)
		var merged cursors
		for _, r := range ranges(filter) {
			if c := openCursor(tx, r, start); c != nil {
				merged = append(merged, c)
			}
		}
		heap.Init(&merged)
		previous := after
		for len(merged) > 0 && ctx.Err() == nil {
			at := merged[0].at
			merged.advance()
			if at == previous {
				continue // the same event under another prefix
			}
			previous = at
			encoded := tx.Bucket(bucketEvents).Get(at[8:])
			event, ok := decode(encoded)
			if !ok || !filter.Matches(event) {
				if filter.Since != 0 && ok && event.CreatedAt < filter.Since {
					return
				}
				continue
			}
			if !yield(match{event, encoded, at}) {
				return
			}
		}
	}
}

// startOf returns the first position for a page: where the last page ended, or the filter's until.
func startOf(filter nostr.Filter, after position) position {
	if filter.Until == 0 {
		return after
	}
	until := positionOf(filter.Until, nostr.ID{})
	if bytes.Compare(until[:], after[:]) > 0 {
		return until
	}
	return after
}

// keyRange is one prefix of one index.
type keyRange struct{ bucket, prefix []byte }

// ranges picks the index with the fewest candidates for a filter.
func ranges(f nostr.Filter) []keyRange {
	if f.IDs != nil {
		return idRanges(f.IDs)
	}
	if tag := tagRanges(f); tag != nil {
		return tag
	}
	switch {
	case f.Authors != nil && f.Kinds != nil && len(f.Authors)*len(f.Kinds) <= maxPrefixes:
		return makerRanges(f)
	case f.Authors != nil:
		out := make([]keyRange, len(f.Authors))
		for i, author := range f.Authors {
			out[i] = keyRange{bucketAuthor, author[:]}
		}
		return out
	case f.Kinds != nil:
		out := make([]keyRange, len(f.Kinds))
		for i, kind := range f.Kinds {
			out[i] = keyRange{bucketKind, kindPrefix(kind)}
		}
		return out
	default:
		return []keyRange{{bucketTime, nil}}
	}
}

func idRanges(ids []nostr.ID) []keyRange {
	out := make([]keyRange, len(ids))
	for i := range ids {
		out[i] = keyRange{bucketEvents, ids[i][:]}
	}
	return out
}

// tagRanges returns the ranges of the tag with the fewest values, nil if the filter has no indexed tag.
func tagRanges(f nostr.Filter) []keyRange {
	var letter string
	for key, values := range f.Tags {
		if len(key) == 1 && (letter == "" || len(values) < len(f.Tags[letter])) {
			letter = key
		}
	}
	if letter == "" {
		return nil
	}
	out := make([]keyRange, len(f.Tags[letter]))
	for i, value := range f.Tags[letter] {
		out[i] = keyRange{bucketTag, tagPrefix(letter, value)}
	}
	return out
}

func makerRanges(f nostr.Filter) []keyRange {
	out := make([]keyRange, 0, len(f.Authors)*len(f.Kinds))
	for _, author := range f.Authors {
		for _, kind := range f.Kinds {
			out = append(out, keyRange{bucketMaker, makerPrefix(author, kind)})
		}
	}
	return out
}
