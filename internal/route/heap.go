package route

import "guild"

// slot is the place of an entry in its list.
type slot = int32

// rank orders entries, the best first: by score, and where that is the same by a number that follows from who it is.
type rank struct {
	score guild.Trust
	order uint64
}

func (a rank) before(b rank) bool {
	return a.score > b.score || a.score == b.score && a.order < b.order
}

// heap is entries with the best on top: one moves in logarithmic time, and the best few are found without the others.
type heap struct {
	slots []slot
	ranks []rank // of slots
}

const arity = 4

func (h *heap) push(at []slot, s slot, r rank) {
	h.slots, h.ranks = append(h.slots, s), append(h.ranks, r)
	h.up(at, len(h.slots)-1)
}

// move gives the entry at a place another rank.
func (h *heap) move(at []slot, i int, r rank) {
	better := r.before(h.ranks[i])
	if h.ranks[i] = r; better {
		h.up(at, i)
	} else {
		h.down(at, i)
	}
}

func (h *heap) remove(at []slot, i int) {
	last := len(h.slots) - 1
	gone, moved := h.slots[i], h.ranks[last]
	h.set(at, i, h.slots[last], moved)
	h.slots, h.ranks = h.slots[:last], h.ranks[:last]
	at[gone] = -1
	if i < last {
		h.up(at, i)
		h.down(at, int(at[h.slots[i]]))
	}
}

func (h *heap) set(at []slot, i int, s slot, r rank) {
	h.slots[i], h.ranks[i], at[s] = s, r, slot(i)
}

func (h *heap) up(at []slot, i int) {
	s, r := h.slots[i], h.ranks[i]
	for i > 0 {
		parent := (i - 1) / arity
		if !r.before(h.ranks[parent]) {
			break
		}
		h.set(at, i, h.slots[parent], h.ranks[parent])
		i = parent
	}
	h.set(at, i, s, r)
}

func (h *heap) down(at []slot, i int) {
	s, r := h.slots[i], h.ranks[i]
	for {
		best := -1
		for child := i*arity + 1; child <= i*arity+arity && child < len(h.slots); child++ {
			if best < 0 || h.ranks[child].before(h.ranks[best]) {
				best = child
			}
		}
		if best < 0 || !h.ranks[best].before(r) {
			break
		}
		h.set(at, i, h.slots[best], h.ranks[best])
		i = best
	}
	h.set(at, i, s, r)
}

// walk visits the entries best first, until visit says no more. It changes nothing. The frontier is memory to use.
func (h *heap) walk(frontier *[]int32, visit func(slot) bool) {
	f := (*frontier)[:0]
	defer func() { *frontier = f }()
	if len(h.slots) > 0 {
		f = append(f, 0)
	}
	for len(f) > 0 {
		i := f[0]
		last := f[len(f)-1]
		f = f[:len(f)-1]
		if len(f) > 0 {
			f[0] = last
			h.sink(f)
		}
		if !visit(h.slots[i]) {
			return
		}
		for child := int(i)*arity + 1; child <= int(i)*arity+arity && child < len(h.slots); child++ {
			f = append(f, int32(child))
			h.rise(f)
		}
	}
}

// rise and sink keep a frontier a binary heap of places in h.
func (h *heap) rise(f []int32) {
	for i := len(f) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h.ranks[f[i]].before(h.ranks[f[parent]]) {
			return
		}
		f[i], f[parent] = f[parent], f[i]
		i = parent
	}
}

func (h *heap) sink(f []int32) {
	for i := 0; ; {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(f); child++ {
			if h.ranks[f[child]].before(h.ranks[f[best]]) {
				best = child
			}
		}
		if best == i {
			return
		}
		f[i], f[best] = f[best], f[i]
		i = best
	}
}

// lots are tickets of a lottery by slot (a Fenwick tree): one is drawn, or changed, in logarithmic time.
type lots struct {
	sums  []int64 // sums[i] is of the tickets in (i - lowbit(i), i], i counted from 1
	own   []int32
	total int64
}

// set gives a slot so many tickets.
func (l *lots) set(s slot, tickets int) {
	for int(s) >= len(l.own) {
		l.grow()
	}
	by := int64(tickets) - int64(l.own[s])
	if by == 0 {
		return
	}
	l.own[s], l.total = int32(tickets), l.total+by
	for i := int(s) + 1; i < len(l.sums); i += i & -i {
		l.sums[i] += by
	}
}

// grow doubles the room, which is a power of two: of the new sums only the last is one of old tickets.
func (l *lots) grow() {
	n := max(2*len(l.own), 64)
	own, sums := make([]int32, n), make([]int64, n+1)
	copy(own, l.own)
	copy(sums, l.sums)
	sums[n] = l.total
	l.own, l.sums = own, sums
}

// draw finds the slot of a ticket, 0 ≤ ticket < total.
func (l *lots) draw(ticket int64) slot {
	at := 0
	for step := len(l.own); step > 0; step /= 2 {
		if next := at + step; next < len(l.sums) && l.sums[next] <= ticket {
			at, ticket = next, ticket-l.sums[next]
		}
	}
	return slot(at)
}
