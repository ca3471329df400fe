package node

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"guild"
	"guild/internal/bunker"
	"guild/internal/relay"
)

// Bounds of the post.
const (
	maxPost      = 256 // private messages that wait to be read
	maxStrangers = 60  // that are read in a minute of those with whom we have no dealings
	shortWait    = time.Second
	longestWait  = time.Minute // between tries while the signer does not answer
)

// post is the private messages that wait to be read. To read one the signer is asked twice, and that may be elsewhere and
// take its time: so nothing else waits for it. What waits while a process ends comes again from the relays, which are read
// two days back for it.
type post struct {
	read   func(context.Context, guild.Verified) error
	judged func(ctx context.Context, from string, v guild.Verified, err error)
	log    *slog.Logger
	posted chan struct{} // has room for one

	mu        sync.Mutex
	waiting   []mailed // the oldest first
	minute    int64    // Unix time in minutes
	strangers int      // read in it
}

// mailed is a message and the relay that it came from.
type mailed struct {
	from string
	v    guild.Verified
}

// put has a message wait. Where too many do, the oldest is dropped: who a message is from is not known before it is read.
func (p *post) put(ctx context.Context, from string, v guild.Verified) error {
	p.mu.Lock()
	p.waiting = append(p.waiting, mailed{from, v})
	var oldest *mailed
	if len(p.waiting) > maxPost {
		first := p.waiting[0]
		oldest, p.waiting = &first, p.waiting[1:]
	}
	p.mu.Unlock()
	select {
	case p.posted <- struct{}{}:
	default:
	}
	if oldest != nil {
		p.judged(ctx, oldest.from, oldest.v, guild.Drop(guild.Flood, "more than %d private messages wait to be read", maxPost))
	}
	return nil
}

// run reads one message after the other until ctx ends. What cannot be read now is tried again after all others.
func (p *post) run(ctx context.Context) error {
	for wait := shortWait; ctx.Err() == nil; {
		next, ok := p.take()
		if !ok {
			select {
			case <-p.posted:
			case <-ctx.Done():
			}
			continue
		}
		err := p.read(ctx, next.v)
		if !unreadable(err) {
			p.judged(ctx, next.from, next.v, err)
			wait = shortWait
			continue
		}
		if wait == shortWait {
			p.log.Warn("private messages wait until they can be read", "err", err)
		}
		_ = p.put(ctx, next.from, next.v) // it has no error
		select {
		case <-time.After(wait):
			wait = min(2*wait, longestWait)
		case <-ctx.Done():
		}
	}
	return nil
}

func (p *post) take() (next mailed, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return mailed{}, false
	}
	next = p.waiting[0]
	p.waiting = p.waiting[1:]
	return next, true
}

// admits counts the message of a stranger, and reports whether it is read.
func (p *post) admits(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if minute := now.Unix() / 60; minute != p.minute {
		p.minute, p.strangers = minute, 0
	}
	p.strangers++
	return p.strangers <= maxStrangers
}

// unreadable reports whether a message could not be read for a reason that passes: nobody signs for us, or nothing can be
// recorded.
func unreadable(err error) bool {
	return errors.Is(err, bunker.ErrNoAnswer) || errors.Is(err, relay.ErrNoRelay) || unrecordable(err)
}
