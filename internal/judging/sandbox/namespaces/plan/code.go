package plan

import "errors"

// Bounds for decoding: bytes of a whole plan, and entries of one list.
const (
	maxBytes = 16 << 20
	maxList  = 1 << 16
)

// version changes with the encoding, so that a first process built from other source reports an error.
const version = 2

var (
	errShort   = errors.New("plan: it ends early")
	errLong    = errors.New("plan: it is too long")
	errVersion = errors.New("plan: another version")
	errValue   = errors.New("plan: a value out of range")
)

// Encode returns the encoded plan.
func (p *Plan) Encode() []byte {
	c := &coder{writing: true}
	p.code(c)
	return c.b
}

// Decode decodes a plan.
func Decode(b []byte) (*Plan, error) {
	if len(b) > maxBytes {
		return nil, errLong
	}
	c, p := &coder{b: b}, &Plan{}
	p.code(c)
	if c.err == nil && len(c.b) > 0 {
		c.err = errLong
	}
	return p, c.err
}

// Encode returns the encoded message. A long text is cut.
func (m *Message) Encode() []byte {
	cut := *m
	cut.Text = cut.Text[:min(len(cut.Text), MaxMessage/2)]
	c := &coder{writing: true}
	cut.code(c)
	return c.b
}

// DecodeMessage decodes a message.
func DecodeMessage(b []byte) (*Message, error) {
	if len(b) > MaxMessage {
		return nil, errLong
	}
	c, m := &coder{b: b}, &Message{}
	m.code(c)
	return m, c.err
}

// code encodes or decodes the fields. One function does both, so that they cannot differ.
func (p *Plan) code(c *coder) {
	c.version()
	list(c, &p.Binds, func(b *Bind) {
		c.text(&b.From)
		number(c, &b.Tree)
		c.text(&b.Inside)
		c.flags(&b.Writable, &b.Optional, &b.Device)
	})
	list(c, &p.Links, func(l *Link) { c.text(&l.To); c.text(&l.Inside) })
	list(c, &p.Files, func(f *File) { c.text(&f.Inside); c.text(&f.Content) })
	list(c, &p.Dirs, c.text)
	list(c, &p.Hidden, c.text)
	number(c, &p.Proc)
	number(c, &p.Scratch.Bytes)
	number(c, &p.Scratch.Inodes)
	list(c, &p.Scratch.Parts, func(s *Part) {
		c.text(&s.Inside)
		number(c, &s.Mode)
		c.flags(&s.Mine)
		list(c, &s.Dirs, c.text)
	})
	number(c, &p.Trees)
	c.text(&p.Hostname)
	number(c, &p.Port)
	c.flags(&p.Terminal, &p.Loopback, &p.Guard, &p.Change, &p.Trusted, &p.Asking, &p.Copies)
	p.codeCommand(c)
}

func (p *Plan) codeCommand(c *coder) {
	list(c, &p.Argv, c.text)
	list(c, &p.Env, c.text)
	c.text(&p.Dir)
	number(c, &p.Passed)
	number(c, &p.User)
	c.bytes(&p.Filter)
	number(c, &p.Rules.ABI)
	list(c, &p.Rules.Writable, c.text)
	list(c, &p.Rlimits, func(r *Rlimit) { number(c, &r.Resource); number(c, &r.Value) })
	list(c, &p.Places, c.text)
	list(c, &p.ReadOnly, c.text)
	list(c, &p.Collect, c.text)
	c.text(&p.Workdir)
	number(c, &p.Bytes)
	number(c, &p.Entries)
}

func (m *Message) code(c *coder) {
	number(c, &m.Kind)
	number(c, &m.Errno)
	c.text(&m.Text)
	number(c, &m.Status)
	number(c, &m.CPU)
	number(c, &m.Memory)
	number(c, &m.Disk)
	c.flags(&m.Full)
}

// coder writes to b or reads from it. After an error it does nothing.
type coder struct {
	b       []byte
	writing bool
	err     error
}

func (c *coder) fail(err error) {
	if c.err == nil {
		c.err, c.b = err, nil
	}
}

func (c *coder) version() {
	v := version
	number(c, &v)
	if v != version {
		c.fail(errVersion)
	}
}

// unsigned codes seven bits in each byte, the lowest bits first.
func (c *coder) unsigned(n uint64) uint64 {
	if c.writing {
		for ; n >= 0x80; n >>= 7 {
			c.b = append(c.b, byte(n)|0x80)
		}
		c.b = append(c.b, byte(n))
		return 0
	}
	n = 0
	for i := range 10 {
		if len(c.b) == 0 {
			c.fail(errShort)
			return 0
		}
		low := c.b[0]
		c.b = c.b[1:]
		n |= uint64(low&0x7f) << (7 * i)
		if low < 0x80 {
			return n
		}
	}
	c.fail(errValue)
	return 0
}

// number codes a number that must not be negative.
func number[T ~int | ~int64 | ~uint32 | ~uint64 | ~byte](c *coder, n *T) {
	if c.writing {
		c.unsigned(uint64(*n))
		return
	}
	u := c.unsigned(0)
	if *n = T(u); uint64(*n) != u || *n < 0 {
		*n = 0
		c.fail(errValue)
	}
}

func (c *coder) flags(flags ...*bool) {
	var set byte
	for i, f := range flags {
		if *f {
			set |= 1 << i
		}
	}
	number(c, &set)
	for i, f := range flags {
		*f = set&(1<<i) != 0
	}
	if set>>len(flags) != 0 {
		c.fail(errValue)
	}
}

func (c *coder) bytes(b *[]byte) {
	s := string(*b)
	c.text(&s)
	*b = []byte(s)
}

func (c *coder) text(s *string) {
	n := len(*s)
	number(c, &n)
	switch {
	case c.writing:
		c.b = append(c.b, *s...)
	case n > len(c.b):
		c.fail(errShort)
	default:
		*s, c.b = string(c.b[:n]), c.b[n:]
	}
}

// list codes the number of entries and then each of them. An entry takes at least one byte.
func list[T any](c *coder, all *[]T, each func(*T)) {
	n := len(*all)
	number(c, &n)
	if !c.writing {
		if n > min(maxList, len(c.b)) {
			c.fail(errShort)
			return
		}
		*all = make([]T, n)
	}
	for i := range *all {
		each(&(*all)[i])
	}
}
