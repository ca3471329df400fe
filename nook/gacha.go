package nook

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"guild/digest"
)

// Cosmetic is an item of the catalog or a heritage badge.
type Cosmetic struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Tier  Rarity `json:"tier"`
	Price int    `json:"price"` // bits; 0 for a badge
}

// catalog is what chests contain. The trail "None" of the published catalog, which costs nothing, is not drawn.
var catalog = [...]Cosmetic{
	{"hat_crown", "Tiny Crown", Legendary, 500}, {"hat_beanie", "Cozy Beanie", Common, 50}, {"hat_cap", "Baseball Cap", Common, 50},
	{"hat_wizard", "Wizard Hat", Epic, 300}, {"hat_cowboy", "Cowboy Hat", Rare, 150}, {"hat_helmet", "Safety Helmet", Uncommon, 75},
	{"outfit_tuxedo", "Mini Tuxedo", Epic, 350}, {"outfit_hoodie", "Cozy Hoodie", Common, 50}, {"outfit_suit", "Little Suit", Rare, 150},
	{"outfit_pajama", "Pajama Set", Uncommon, 75}, {"outfit_armor", "Tiny Armor", Legendary, 500},
	{"acc_glasses", "Round Glasses", Common, 50}, {"acc_watch", "Mini Watch", Rare, 150}, {"acc_cape", "Hero Cape", Epic, 300},
	{"acc_bow", "Cute Bow", Uncommon, 75}, {"acc_scarf", "Fancy Scarf", Rare, 150},
	{"bg_forest", "Forest", Common, 50}, {"bg_beach", "Beach", Common, 50}, {"bg_space", "Space", Epic, 300},
	{"bg_sunset", "Sunset", Rare, 150}, {"bg_city", "City Lights", Uncommon, 75},
	{"trail_sparkle", "Sparkles", Uncommon, 75}, {"trail_fire", "Fire Trail", Epic, 300}, {"trail_stars", "Star Trail", Rare, 150},
	{"trail_hearts", "Hearts", Common, 50},
}

// badges are in the order of the heritage tiers.
var badges = [...]Cosmetic{
	{"heritage_seed", "Seedling", Common, 0}, {"heritage_sprout", "Sprouting", Uncommon, 0},
	{"heritage_bloom", "Blooming", Rare, 0}, {"heritage_apex", "Apex", Epic, 0},
}

// Odds are the chances of a rarity, in hundredths of a percent.
type Odds struct {
	Rarity Rarity `json:"rarity"`
	Chance int    `json:"chance"`
}

// ChestOdds returns the odds of a chest of tier 1, 2 or 3. Tier 1 has the published table of section 7 of the specification; 2 and 3
// shift it upward. There is no pity: earlier draws change nothing. It panics for another tier.
func ChestOdds(tier int) []Odds {
	chances := [][5]int{{6000, 2500, 1000, 400, 100}, {4000, 3300, 1700, 800, 200}, {2000, 3500, 2700, 1300, 500}}[tier-1]
	odds := make([]Odds, len(chances))
	for i, r := range []Rarity{Common, Uncommon, Rare, Epic, Legendary} {
		odds[i] = Odds{r, chances[i]}
	}
	return odds
}

// Draw returns what is in a chest of a tier: the number index of those that the event of a journal's entry earned. Everybody who
// has the entry can draw again.
//
// The SHA-256 of the entry's hash, the event's id, a zero byte and the index as a byte gives two big-endian integers of 64
// bits. The first modulo 10,000 decides the rarity, in the order of ChestOdds. The second modulo the number of cosmetics of this
// rarity decides which one, in the order of their ids. Tier 0 is the legendary cosmetic of a streak of 365 days.
func Draw(tier int, entry digest.SHA256, event string, index int) Cosmetic {
	seed := append(append(entry[:], event...), 0, byte(index))
	sum := digest.Sum(seed)
	roll, pick := int(binary.BigEndian.Uint64(sum[:8])%10_000), binary.BigEndian.Uint64(sum[8:16])
	rarity := Legendary
	if tier > 0 {
		for _, o := range ChestOdds(tier) {
			if roll -= o.Chance; roll < 0 {
				rarity = o.Rarity
				break
			}
		}
	}
	var some []Cosmetic
	for _, c := range catalog {
		if c.Tier == rarity {
			some = append(some, c)
		}
	}
	slices.SortFunc(some, func(x, y Cosmetic) int { return strings.Compare(x.ID, y.ID) })
	return some[pick%uint64(len(some))]
}

// Chest is a chest that was earned, or the cosmetic of a streak of 365 days.
type Chest struct {
	From  string        `json:"from"` // heritage, or the streak: 7 days
	Tier  int           `json:"tier"` // 1 to 3; 0 for a cosmetic without a chest
	At    int64         `json:"at"`   // Unix ms
	Entry digest.SHA256 `json:"entry"`
	Event string        `json:"event,omitempty"`
	Index int           `json:"index"` // among those of the same event

	// A chest of a streak opens 24 hours after it was earned: until then an earlier event of the day can still arrive.
	Open  bool      `json:"open"`
	Item  *Cosmetic `json:"item,omitempty"`
	Bits  int       `json:"bits,omitempty"`  // instead of an item that the owner has already: a fifth of its price
	Again bool      `json:"again,omitempty"` // the owner has the item already
}

// Inventory is what the chests have brought.
type Inventory struct {
	Chests []Chest    `json:"chests"` // in the order in which they were earned
	Items  []Cosmetic `json:"items"`  // each once
	Bits   int        `json:"bits"`
}

// Inventory returns the chests and what was in those that are open at a time, in Unix ms.
func (a *Account) Inventory(now int64) Inventory {
	a.Settle()
	inv := Inventory{Chests: []Chest{}, Items: []Cosmetic{}}
	if h := a.heritage; h != nil {
		inv.Items = append(inv.Items, h.Badge)
		for i := range h.Chests {
			inv.Chests = append(inv.Chests, Chest{From: "heritage", Tier: h.ChestTier, At: h.At, Entry: h.Entry, Index: i, Open: true})
		}
	}
	horizon := max(now, a.clock) - day
	for _, r := range a.rewards {
		c := Chest{At: r.At, Entry: r.Entry, Event: r.Event, Open: r.At < horizon}
		switch r.What {
		case streak7:
			c.From, c.Tier = "7 days", 1
		case streak30:
			c.From, c.Tier = "30 days", 2
		case streak100:
			c.From, c.Tier = "100 days", 3
		case streak365:
			c.From = "365 days"
		default:
			continue
		}
		inv.Chests = append(inv.Chests, c)
	}
	for i := range inv.Chests {
		inv.open(&inv.Chests[i])
	}
	return inv
}

func (inv *Inventory) open(c *Chest) {
	if !c.Open {
		return
	}
	item := Draw(c.Tier, c.Entry, c.Event, c.Index)
	c.Item = &item
	if slices.Contains(inv.Items, item) {
		c.Again, c.Bits = true, item.Price/5
		inv.Bits += c.Bits
		return
	}
	inv.Items = append(inv.Items, item)
}

// Heritage is the package for a root identity that came with a history.
type Heritage struct {
	Tier      string        `json:"tier"`     // Seed, Sprout, Bloom or Apex
	Imported  Sparks        `json:"imported"` // of the imported history
	Badge     Cosmetic      `json:"badge"`
	Bonus     Sparks        `json:"bonus"` // toward stage 2; kept apart from sparks
	Chests    int           `json:"chests"`
	ChestTier int           `json:"chestTier"`
	At        int64         `json:"at"` // Unix ms
	Entry     digest.SHA256 `json:"entry"`
}

// ErrHistory means that a history cannot be imported: the account has events of its own, or has its heritage already.
var ErrHistory = errors.New("a history can be imported only into an empty account")

// Import adds an event of a history from before the journal. It is folded with its own time as its arrival, under the same rules
// and caps, apart from the account's own events. It decides the heritage and nothing else.
func (a *Account) Import(e Event) error {
	if a.heritage != nil || len(a.agents) > 0 {
		return ErrHistory
	}
	if a.imported == nil {
		a.imported = New(a.root)
	}
	a.imported.Add(Recorded{Event: e, Arrived: e.Timestamp})
	return nil
}

// Imported returns the projection of the imported history as of a time, in Unix ms.
func (a *Account) Imported(now int64) Projection {
	if a.imported == nil {
		return Projection{}
	}
	return a.imported.Totals(now)
}

// Onboard ends an import, and grants the heritage package. The chests are drawn from the hash of the entry that records this.
func (a *Account) Onboard(at int64, entry digest.SHA256) error {
	if a.heritage != nil || a.imported == nil {
		return ErrHistory
	}
	sparks := a.imported.Sparks().Total()
	tier := 0
	for tier+1 < len(stages) && sparks >= stages[tier+1].sparks {
		tier++
	}
	a.heritage = &Heritage{Tier: stages[tier].name, Imported: sparks, Badge: badges[tier], Bonus: []Sparks{0, 100, 250, 500}[tier] * Spark,
		Chests: []int{1, 2, 3, 5}[tier], ChestTier: []int{1, 1, 2, 3}[tier], At: at, Entry: entry}
	return nil
}

// Heritage returns the heritage package, which must not be changed, or nil.
func (a *Account) Heritage() *Heritage { return a.heritage }
