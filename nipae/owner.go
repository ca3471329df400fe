package nipae

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
)

// Profile is the kind 0 of an agent. A newer one replaces it.
type Profile struct {
	ID        nostr.ID
	PubKey    nostr.PubKey // the agent
	CreatedAt nostr.Timestamp

	Bot        bool           // it has a bot tag
	Definition Reference      // the definition that the agent executes; zero if none
	Owners     []nostr.PubKey // claimed owners; see Verify
	Members    map[string]json.RawMessage

	Other nostr.Tags
}

// ParseProfile reads a kind 0. The first e tag without a marker names the definition. The content is a JSON object or
// empty.
func ParseProfile(e nostr.Event) (Profile, error) {
	f := read(e, KindProfile)
	p := Profile{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Bot: f.tags.Has("bot")}
	f.all("bot")
	for _, r := range f.references(1, "") {
		p.Definition = r
	}
	for _, tag := range f.all("p") {
		var owner nostr.PubKey
		f.hex(owner[:], "p", tag[1])
		if !slices.Contains(p.Owners, owner) {
			p.Owners = append(p.Owners, owner)
		}
	}
	p.Other = f.rest()
	if f.err == nil && f.content != "" {
		if err := json.Unmarshal([]byte(f.content), &p.Members); err != nil || p.Members == nil {
			f.err = fmt.Errorf("content: %w: not a JSON object", ErrInvalid)
		}
	}
	return finish(f, "profile", e.ID, p)
}

// Event returns the unsigned profile; the signer sets the key and the date. It replaces the agent's earlier kind 0.
func (p Profile) Event() (nostr.Event, error) {
	content := bytes.NewBufferString("{}")
	if len(p.Members) > 0 {
		content.Reset()
		enc := json.NewEncoder(content)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(p.Members); err != nil {
			return nostr.Event{}, fmt.Errorf("profile: %w", err)
		}
	}
	var tags nostr.Tags
	if p.Bot {
		tags = append(tags, nostr.Tag{"bot"})
	}
	if p.Definition.ID != (nostr.ID{}) {
		tags = putReference(tags, p.Definition, "")
	}
	for _, owner := range p.Owners {
		tags = append(tags, nostr.Tag{"p", owner.Hex()})
	}
	return checked(nostr.Event{Kind: KindProfile, Tags: append(tags, p.Other...), Content: strings.TrimSpace(content.String())}, ParseProfile)
}

// Claims is the list in which an owner names its agents (14199). A newer one replaces it.
type Claims struct {
	ID        nostr.ID
	PubKey    nostr.PubKey // the owner
	CreatedAt nostr.Timestamp

	Tags    nostr.Tags // all tags, in their order
	Content string
}

// ParseClaims reads an owner's claims. Tags that name no agent are kept.
func ParseClaims(e nostr.Event) (Claims, error) {
	f := read(e, KindClaims)
	return finish(f, "claims", e.ID, Claims{ID: e.ID, PubKey: e.PubKey, CreatedAt: e.CreatedAt, Tags: f.rest(), Content: f.content})
}

// Event returns the unsigned claims; the signer sets the key and the date. It replaces the owner's earlier claims, so
// merge with those first. Claims over MaxTags or MaxEvent are an error: nothing is left out.
func (c Claims) Event() (nostr.Event, error) {
	return checked(nostr.Event{Kind: KindClaims, Tags: slices.Clone(c.Tags), Content: c.Content}, ParseClaims)
}

// Agents returns the named agents, each once.
func (c Claims) Agents() (agents []nostr.PubKey) {
	seen := map[nostr.PubKey]bool{}
	for _, tag := range c.Tags {
		if agent, ok := agentOf(tag); ok && !seen[agent] {
			seen[agent] = true
			agents = append(agents, agent)
		}
	}
	return agents
}

// Has reports whether the owner names the agent.
func (c Claims) Has(agent nostr.PubKey) bool {
	digits := agent.Hex()
	return slices.ContainsFunc(c.Tags, func(tag nostr.Tag) bool { return len(tag) > 1 && tag[0] == "p" && tag[1] == digits })
}

func agentOf(tag nostr.Tag) (agent nostr.PubKey, ok bool) {
	return agent, len(tag) > 1 && tag[0] == "p" && decode(agent[:], tag[1])
}

// disowned is the name of the tags of agents that the owner removed. They are guild's own: without them, an older list at
// another relay would bring the agent back.
const disowned = "disowned"

// Add returns the claims with the agent.
func (c Claims) Add(agent nostr.PubKey) Claims {
	if c.Has(agent) {
		return c
	}
	return c.with("p", agent)
}

// Remove returns the claims without the agent, with a tag that says so. Everything else stays.
func (c Claims) Remove(agent nostr.PubKey) Claims { return c.with(disowned, agent) }

// with returns the claims with one tag about the agent.
func (c Claims) with(name string, agent nostr.PubKey) Claims {
	c.Tags = slices.DeleteFunc(slices.Clone(c.Tags), func(tag nostr.Tag) bool { return isAbout(tag, agent.Hex()) })
	c.Tags = append(c.Tags, nostr.Tag{name, agent.Hex()})
	return c
}

// isAbout reports whether a tag claims or disowns an agent.
func isAbout(tag nostr.Tag, digits string) bool {
	return len(tag) > 1 && (tag[0] == "p" || tag[0] == disowned) && tag[1] == digits
}

// merge returns the claims with every tag of older ones that they lack, but for agents that they disown or claim again. So
// what another program left out returns, and an agent leaves only by Remove.
func (c Claims) merge(older Claims) Claims {
	if c.ID == (nostr.ID{}) && len(c.Tags) == 0 {
		return older
	}
	newer := c
	tags := slices.Clone(newer.Tags)
	for _, tag := range older.Tags {
		known := func(t nostr.Tag) bool {
			return slices.Equal(t, tag) || len(tag) > 1 && isAbout(tag, tag[1]) && isAbout(t, tag[1])
		}
		if !slices.ContainsFunc(newer.Tags, known) {
			tags = append(tags, tag)
		}
	}
	newer.Tags = tags
	if newer.Content == "" {
		newer.Content = older.Content
	}
	return newer
}

// Merged merges all claims of an owner, whatever their order: the newest with what it lacks of the next older, and so on.
func Merged(all []Claims) (merged Claims) {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Claims) int { return compare(b.CreatedAt, a.CreatedAt, b.ID, a.ID) })
	for _, c := range all {
		merged = merged.merge(c)
	}
	return merged
}

// Newer reports whether c replaces other, of the same key.
func (c Claims) Newer(other Claims) bool {
	return compare(c.CreatedAt, other.CreatedAt, c.ID, other.ID) > 0
}

// Reasons why a claimed ownership is not verified.
var (
	ErrOwnsItself = errors.New("an agent cannot be its own owner")
	ErrNoClaims   = errors.New("no claims (kind 14199) of this owner are known")
	ErrNotClaimed = errors.New("the owner's newest claims (kind 14199) do not name the agent")
)

// Ownership is the result of the check of one p tag in an agent's kind 0.
type Ownership struct {
	Owner nostr.PubKey
	Err   error // nil if verified, else ErrOwnsItself, ErrNoClaims or ErrNotClaimed
}

// Verify checks each owner that the agent's newest kind 0 names: the newest claims of that owner must name the agent.
// Claims of other keys are ignored.
func Verify(p Profile, claims []Claims) (all []Ownership) {
	for _, owner := range p.Owners {
		o := Ownership{owner, ErrNoClaims}
		var newest Claims
		for _, c := range claims {
			if c.PubKey != owner || o.Err != ErrNoClaims && !c.Newer(newest) {
				continue
			}
			newest, o.Err = c, nil
			if !c.Has(p.PubKey) {
				o.Err = ErrNotClaimed
			}
		}
		if owner == p.PubKey {
			o.Err = ErrOwnsItself
		}
		all = append(all, o)
	}
	return all
}
