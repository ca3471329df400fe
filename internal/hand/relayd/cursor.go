package relayd

import (
	"bytes"
	"container/heap"

	"go.etcd.io/bbolt"
)

// cursor moves through one prefix of an index, from new to old.
type cursor struct {
	bolt   *bbolt.Cursor
	prefix []byte
	at     position
}

// openCursor returns a cursor at the first position from start on, nil if there is none.
func openCursor(tx *bbolt.Tx, r keyRange, start position) *cursor {
	if bytes.Equal(r.bucket, bucketEvents) {
		return idCursor(tx, r.prefix, start)
	}
	c := &cursor{bolt: tx.Bucket(r.bucket).Cursor(), prefix: r.prefix}
	key, _ := c.bolt.Seek(append(bytes.Clone(r.prefix), start[:]...))
	if !c.read(key) {
		return nil
	}
	return c
}

// idCursor returns a cursor at the event with an id.
func idCursor(tx *bbolt.Tx, id []byte, start position) *cursor {
	e, found := eventByID(tx, [32]byte(id))
	if !found {
		return nil
	}
	at := positionOf(e.CreatedAt, e.ID)
	if bytes.Compare(at[:], start[:]) < 0 {
		return nil
	}
	return &cursor{at: at}
}

func (c *cursor) read(key []byte) bool {
	if key == nil || !bytes.HasPrefix(key, c.prefix) || len(key) != len(c.prefix)+len(position{}) {
		return false
	}
	c.at = position(key[len(c.prefix):])
	return true
}

func (c *cursor) next() bool {
	if c.bolt == nil {
		return false
	}
	key, _ := c.bolt.Next()
	return c.read(key)
}

// cursors is a heap. The first cursor is at the newest event.
type cursors []*cursor

// advance moves the first cursor to its next event.
func (c *cursors) advance() {
	if (*c)[0].next() {
		heap.Fix(c, 0)
		return
	}
	heap.Pop(c)
}

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, j int) bool { return bytes.Compare(c[i].at[:], c[j].at[:]) < 0 }
func (c cursors) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *cursors) Push(x any) { *c = append(*c, x.(*cursor)) }

// Pop implements heap.Interface.
func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
