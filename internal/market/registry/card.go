package registry

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip13"

	"guild"
	"guild/nip89"
)

// Limits on the part of an announcement that is kept in memory; SEEN has all of it. A service is not found by a task or
// a kind beyond these limits.
const (
	maxName  = 100 // bytes
	maxKinds = 64
	maxTasks = 32
	maxTask  = 64 // bytes
	maxNamed = 8  // relays
	maxFrom  = 4  // relays that the announcement was seen on

	maxVersion = 64 // bytes
)

// number is the index of a card in index.cards. It is reused after the card was removed.
type number uint32

// ID identifies a service in maps and on disk: the first 16 bytes of the hash of its key and its d.
type ID [16]byte

// IDOf returns the ID of a service.
func IDOf(s guild.Service) ID {
	sum := guild.Sum(append(s.PubKey[:], s.D...))
	return ID(sum[:16])
}

// place returns the subject under which SEEN keeps the announcement of a service; each subject has one message. It is
// short because the journal's server keeps all subjects in memory.
func (i ID) place() string { return "card." + i.String() }

// String returns the ID as hex.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// MarshalText lets an ID be a key of a JSON object.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (i *ID) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(i)) {
		return fmt.Errorf("service id of %d digits", len(b))
	}
	_, err := hex.Decode(i[:], b)
	return err
}

// card is the form of an announcement in memory. There may be a hundred thousand of them, so it is small.
type card struct {
	pubkey nostr.PubKey
	id     nostr.ID
	d      string // in its canonical form
	packed string // see summary.pack
	at     nostr.Timestamp
	first  int64           // Unix ms: when the service was first seen
	stored uint32          // approximate bytes in SEEN
	work   uint8           // proof of work in bits (NIP-13)
	from   [maxFrom]uint16 // numbers in sources of the relays that it came from; 0 if there are fewer
}

// weight returns the approximate number of bytes that a card takes, with its share of the maps. It assumes the worst
// case: that no other card names its tasks, so each has its own list.
func (c *card) weight(says summary) int {
	w := 400 + len(c.d) + len(c.packed) + 8*len(says.kinds)
	for _, task := range says.tasks {
		w += 100 + len(task)
	}
	return w
}

// workOf returns the proof of work of an event in bits, which is 0 if its nonce tag commits to no difficulty or to a
// higher one than it has (NIP-13).
func workOf(e nostr.Event) uint8 { return uint8(min(max(nip13.CommittedDifficulty(e), 0), 255)) }

func (c *card) service() guild.Service { return guild.Service{PubKey: c.pubkey, D: c.d} }

// summary holds the fields of an announcement that offers need.
type summary struct {
	name, recipient string
	version         string
	price           guild.Msat
	prices          []guild.Msat // by the index of kinds; nil if no kind has a price of its own
	slots           int
	kinds           []int
	confirmed       []int // of kinds
	tasks, relays   []string
	tool            nip89.Tool

	noK, performs, nip44, bundles bool
}

const (
	flagNoK = 1 << iota
	flagPerforms
	flagNip44
	flagBundles
	flagPrices
)

// summarize returns the fields of an announcement that are kept in memory.
func summarize(h nip89.Handler, relays []string) summary {
	s := summary{
		name: guild.Cut(h.Name, maxName), recipient: h.AgeRecipient, version: guild.Cut(h.Version, maxVersion),
		tool: h.Tool, price: h.Price, slots: h.MaxConcurrent,
		kinds: h.Kinds[:min(len(h.Kinds), maxKinds)], relays: relays[:min(len(relays), maxNamed)],
		noK: h.NoK, performs: h.PublishesPerformance(), nip44: h.Accepts("nip44"), bundles: h.ReadsBundles(),
	}
	for _, task := range h.Tasks {
		if len(task) <= maxTask && len(s.tasks) < maxTasks {
			s.tasks = append(s.tasks, task)
		}
	}
	for _, kind := range s.kinds {
		if h.Confirms(kind) {
			s.confirmed = append(s.confirmed, kind)
		}
		if len(h.Prices) > 0 {
			s.prices = append(s.prices, h.PriceOf(kind))
		}
	}
	return s
}

// pack encodes s as one string: numbers as varints, strings after their length.
func (s summary) pack() string {
	var flags byte
	for flag, set := range map[byte]bool{flagNoK: s.noK, flagPerforms: s.performs, flagNip44: s.nip44, flagBundles: s.bundles, flagPrices: s.prices != nil} {
		if set {
			flags |= flag
		}
	}
	b := make([]byte, 1, 256)
	b[0] = flags
	b = binary.AppendUvarint(b, uint64(s.price))
	b = binary.AppendUvarint(b, uint64(s.slots))
	b = binary.AppendUvarint(b, uint64(len(s.kinds)))
	for _, kind := range s.kinds {
		twice := uint64(kind) << 1
		if slices.Contains(s.confirmed, kind) {
			twice |= 1
		}
		b = binary.AppendUvarint(b, twice)
	}
	for _, price := range s.prices {
		b = binary.AppendUvarint(b, uint64(price))
	}
	head := []string{s.name, s.recipient, s.version}
	if s.tool != (nip89.Tool{}) {
		head = append(head, s.tool.Name, s.tool.Text)
	}
	for _, list := range [][]string{head, s.tasks, s.relays} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, text := range list {
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	return string(b)
}

// unpack decodes what pack encoded. The strings share memory with packed.
func unpack(packed string) summary {
	r := reader(packed[1:])
	s := summary{
		noK: packed[0]&flagNoK != 0, performs: packed[0]&flagPerforms != 0, nip44: packed[0]&flagNip44 != 0,
		bundles: packed[0]&flagBundles != 0,
		price:   guild.Msat(r.number()), slots: r.number(),
	}
	kinds := r.number()
	s.kinds = make([]int, 0, kinds)
	for range kinds {
		twice := r.number()
		s.kinds = append(s.kinds, twice>>1)
		if twice&1 == 1 {
			s.confirmed = append(s.confirmed, twice>>1)
		}
	}
	for i := 0; i < kinds && packed[0]&flagPrices != 0; i++ {
		s.prices = append(s.prices, guild.Msat(r.number()))
	}
	head := r.list()
	s.name, s.recipient, s.version = head[0], head[1], head[2]
	if len(head) == 5 {
		s.tool = nip89.Tool{Name: head[3], Text: head[4]}
	}
	s.tasks, s.relays = r.list(), r.list()
	return s
}

// priceOf returns the price of one job of a kind, or 0 if it is unknown.
func (s summary) priceOf(kind int) guild.Msat {
	if i := slices.Index(s.kinds, kind); i >= 0 && s.prices != nil {
		return s.prices[i]
	}
	return s.price
}

// sum returns a hash of the summary without its relays, because a service remains the same when it moves to other
// relays. It also leaves out whether the service reads bundles, which journals of earlier versions do not have in theirs.
func (s summary) sum() guild.Hash {
	s.relays, s.bundles = nil, false
	return guild.Sum([]byte(s.pack()))
}

// reader decodes what pack encoded. It checks nothing, because the bytes never come from outside.
type reader string

// number reads a varint.
func (r *reader) number() int {
	n, shift := 0, 0
	for i := range len(*r) {
		c := (*r)[i]
		n |= int(c&0x7f) << shift
		shift += 7
		if c < 0x80 {
			*r = (*r)[i+1:]
			break
		}
	}
	return n
}

// list reads a list of strings.
func (r *reader) list() []string {
	all := make([]string, r.number())
	for i := range all {
		n := r.number()
		all[i] = string((*r)[:n])
		*r = (*r)[n:]
	}
	return all
}

// sources numbers the relays that events came from, so that a card can name one in two bytes.
type sources struct {
	urls    []string // number n is at index n-1
	numbers map[string]uint16
}

// number returns the number of a relay, or 0 if there are too many relays.
func (s *sources) number(url string) uint16 {
	if n, ok := s.numbers[url]; ok || url == "" {
		return n
	}
	const most = 10_000
	if len(s.urls) == most {
		return 0
	}
	url = strings.Clone(url)
	s.urls = append(s.urls, url)
	s.numbers[url] = uint16(len(s.urls))
	return s.numbers[url]
}

// names returns the relays of a card, in the order in which they sent it.
func (s *sources) names(from [maxFrom]uint16) (urls []string) {
	for _, n := range from {
		if n != 0 {
			urls = append(urls, s.urls[n-1])
		}
	}
	return urls
}

// note adds a relay to those of a card. It reports whether it was added: it was new and there was room.
func (c *card) note(n uint16) bool {
	for i, known := range c.from {
		if known == n {
			return false
		}
		if known == 0 {
			c.from[i] = n
			return n != 0
		}
	}
	return false
}
