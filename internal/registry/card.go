package registry

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
)

// What is kept in memory of one announcement; the whole of it is in SEEN. What is beyond these is not found by its
// task or kind.
const (
	maxName  = 100 // bytes
	maxKinds = 64
	maxTasks = 32
	maxTask  = 64 // bytes
	maxNamed = 8  // relays
	maxFrom  = 4  // relays that it was seen on

	maxVersion = 64 // bytes
)

// number is a card's place in the index. It is used again once the card is gone.
type number uint32

// ID is what a service is known by in the maps and in SEEN: the beginning of the hash of its key and its d.
type ID [16]byte

func IDOf(s guild.Service) ID {
	sum := guild.Sum(append(s.PubKey[:], s.D...))
	return ID(sum[:16])
}

// place is the subject that a service's announcement is kept under: one message for each service. It is short
// because the journal's server keeps all subjects in memory.
func (i ID) place() string { return "card." + i.String() }

// String returns the ID as hex.
func (i ID) String() string { return hex.EncodeToString(i[:]) }

// MarshalText makes it a key of JSON objects.
func (i ID) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (i *ID) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(i)) {
		return fmt.Errorf("ID of %d digits", len(b))
	}
	_, err := hex.Decode(i[:], b)
	return err
}

// card is an announcement as it is kept in memory, in as few bytes as will do: there may be a hundred thousand.
type card struct {
	pubkey nostr.PubKey
	id     nostr.ID
	d      string // in its canonical form
	said   string // see pack
	at     nostr.Timestamp
	first  int64           // Unix ms: when the service was first seen
	stored uint32          // bytes that it takes in SEEN, roughly
	from   [maxFrom]uint16 // relays that it came from, as the table of sources numbers them; 0 for none
}

// weight is roughly what a card takes, in bytes, with its share of the maps: somebody may name tasks that nobody else
// does, and each of them is a list of its own.
func (c *card) weight(says said) int {
	w := 400 + len(c.d) + len(c.said) + 8*len(says.kinds)
	for _, task := range says.tasks {
		w += 100 + len(task)
	}
	return w
}

func (c *card) service() guild.Service { return guild.Service{PubKey: c.pubkey, D: c.d} }

// said is what an announcement says, as far as offers need it.
type said struct {
	name, recipient string
	version         string
	price           guild.Msat
	slots           int
	kinds           []int
	confirmed       []int // of kinds
	tasks, relays   []string

	noK, performs, nip44 bool
}

const (
	flagNoK = 1 << iota
	flagPerforms
	flagNip44
)

// sayingOf takes out of an announcement what is kept in memory.
func sayingOf(h nip89.Handler, relays []string) said {
	s := said{
		name: guild.Cut(h.Name, maxName), recipient: h.AgeRecipient, version: guild.Cut(h.Version, maxVersion),
		price: h.Price, slots: h.MaxConcurrent,
		kinds: h.Kinds[:min(len(h.Kinds), maxKinds)], relays: relays[:min(len(relays), maxNamed)],
		noK: h.NoK, performs: h.PublishesPerformance(), nip44: h.Accepts("nip44"),
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
	}
	return s
}

// pack writes s as one string: numbers as varints, strings behind their length.
func (s said) pack() string {
	var flags byte
	for flag, set := range map[byte]bool{flagNoK: s.noK, flagPerforms: s.performs, flagNip44: s.nip44} {
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
	for _, list := range [][]string{{s.name, s.recipient, s.version}, s.tasks, s.relays} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, text := range list {
			b = binary.AppendUvarint(b, uint64(len(text)))
			b = append(b, text...)
		}
	}
	return string(b)
}

// unpack is the inverse of pack. The strings share memory with packed.
func unpack(packed string) said {
	r := reader(packed[1:])
	s := said{
		noK: packed[0]&flagNoK != 0, performs: packed[0]&flagPerforms != 0, nip44: packed[0]&flagNip44 != 0,
		price: guild.Msat(r.number()), slots: r.number(),
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
	head := r.list()
	s.name, s.recipient, s.version = head[0], head[1], head[2]
	s.tasks, s.relays = r.list(), r.list()
	return s
}

// sum returns the hash of what is announced without its relays: where a service is reached does not change what it is.
func (s said) sum() guild.Hash {
	s.relays = nil
	return guild.Sum([]byte(s.pack()))
}

// reader reads what pack wrote, front to back. What it reads never came from anybody else.
type reader string

func (r *reader) number() int {
	n, shift := 0, 0
	for i := range len(*r) {
		c := (*r)[i]
		n |= int(c&0x7f) << shift
		if shift += 7; c < 0x80 {
			*r = (*r)[i+1:]
			break
		}
	}
	return n
}

func (r *reader) list() []string {
	all := make([]string, r.number())
	for i := range all {
		n := r.number()
		all[i] = string((*r)[:n])
		*r = (*r)[n:]
	}
	return all
}

// sources numbers the relays that events came from, so that a card can name them in two bytes.
type sources struct {
	urls    []string // by number, from 1 on
	numbers map[string]uint16
}

// number returns the number of a relay, or 0 once there are too many.
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

// names returns the relays of a card, the first one first.
func (s *sources) names(from [maxFrom]uint16) (urls []string) {
	for _, n := range from {
		if n != 0 {
			urls = append(urls, s.urls[n-1])
		}
	}
	return urls
}

// note adds a relay to those that a card came from. It reports whether it was new.
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
