package relayd

import (
	"bytes"
	"container/heap"

	"go.etcd.io/bbolt"
)

// cursor walks one prefix of an index, from new to old.
type cursor struct {
	bolt   *bbolt.Cursor
	prefix []byte
	at     position
}

// openCursor puts a cursor on the first position from start on; nil if there is none.
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

// idCursor stands on the one event with an id.
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

// cursors is a heap: the first one stands on the newest event.
type cursors []*cursor

// advance moves the first cursor on.
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

// Push is part of heap.Interface.
func (c *cursors) Push(x any) { *c = append(*c, x.(*cursor)) }

// Pop is part of heap.Interface.
func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
