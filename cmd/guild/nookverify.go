package main

import (
	"fmt"

	"guild/nook"
)

// ledgerFaults compares a sparks.json with what it should hold, but for what changes with time.
func ledgerFaults(have, want nook.Ledger) (faults []string) {
	if have.RootIdentity != want.RootIdentity || have.Totals.Lifetime != want.Totals.Lifetime {
		faults = append(faults, "sparks.json: the root identity or the totals are not those of the journal")
	}
	for i, t := range have.Traces {
		if i >= len(want.Traces) || !sameJSON(t, want.Traces[i]) {
			return append(faults, fmt.Sprintf("sparks.json: trace %d, of %.40s, is not that of the event in this place of the journal", i+1, t.ID))
		}
	}
	if n := len(want.Traces) - len(have.Traces); n > 0 {
		faults = append(faults, fmt.Sprintf("sparks.json: the last %d traces are missing", n))
	}
	return faults
}

// profileFaults compares a profile.json with what it should hold, but for what changes with time: the states of sprites, what was
// earned lately, the days of the present streak, and chests that were still closed.
func profileFaults(have, want nook.Profile) []string {
	shut(&want, have.Inventory.Chests)
	timeless(&want)
	timeless(&have)
	if sameJSON(have, want) {
		return nil
	}
	return []string{"profile.json: it is not what the journal says"}
}

// shut closes the chests that are closed in before, and takes out what was in them.
func shut(p *nook.Profile, before []nook.Chest) {
	inv := nook.Inventory{Chests: []nook.Chest{}, Items: []nook.Cosmetic{}}
	if p.Heritage != nil {
		inv.Items = append(inv.Items, p.Heritage.Badge)
	}
	for i, c := range p.Inventory.Chests {
		if i < len(before) && !before[i].Open {
			c.Open, c.Item, c.Bits, c.Again = false, nil, 0, false
		}
		if c.Item != nil && !c.Again {
			inv.Items = append(inv.Items, *c.Item)
		}
		inv.Bits += c.Bits
		inv.Chests = append(inv.Chests, c)
	}
	p.Inventory = inv
	for _, a := range profiles(p) {
		a.Bits, a.Sprite.Cosmetics = inv.Bits, []string{}
		for _, item := range inv.Items {
			a.Sprite.Cosmetics = append(a.Sprite.Cosmetics, item.ID)
		}
	}
}

// timeless clears what changes with time.
func timeless(p *nook.Profile) {
	p.Totals, p.Imported = nook.Projection{Lifetime: p.Totals.Lifetime}, nook.Projection{Lifetime: p.Imported.Lifetime}
	p.Streak.Days = 0
	for _, a := range profiles(p) {
		a.Sprite.State = ""
	}
}

// profiles returns the profile of the owner's agent and those of all agents.
func profiles(p *nook.Profile) []*nook.AgentProfile {
	all := []*nook.AgentProfile{&p.AgentProfile}
	for i := range p.Agents {
		all = append(all, &p.Agents[i])
	}
	return all
}
