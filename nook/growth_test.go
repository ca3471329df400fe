package nook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"guild/digest"
	"guild/nook"
)

func published(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

type rarity struct {
	DropRate float64
	Color    string
}

func TestAchievementsAsPublished(t *testing.T) {
	var data struct {
		Definitions map[string]nook.Achievement
		Tiers       map[nook.Rarity]rarity
	}
	published(t, "achievements.json", &data)
	all := nook.New("root").Achievements()
	for _, a := range all {
		want := data.Definitions[a.ID]
		want.ID = a.ID
		if a != want {
			t.Errorf("%+v, want %+v", a, want)
		}
	}
	if len(all) != len(data.Definitions) {
		t.Errorf("%d achievements, want %d", len(all), len(data.Definitions))
	}
	for _, o := range nook.ChestOdds(1) {
		if want := data.Tiers[o.Rarity]; o.Rarity.Color() != want.Color || float64(o.Chance) != want.DropRate*10_000 {
			t.Errorf("%+v %s, want %+v", o, o.Rarity.Color(), want)
		}
	}
}

// unlocked returns the ids of the unlocked achievements, with the offset of the time from start.
func unlocked(a *nook.Account) map[string]int64 {
	all := map[string]int64{}
	for _, x := range a.Achievements() {
		if x.UnlockedAt != 0 {
			all[x.ID] = x.UnlockedAt - start
		}
	}
	return all
}

func TestAchievementsUnlockOnceAtTheEarliestEvent(t *testing.T) {
	var bounties []nook.Recorded
	for i := range int64(12) {
		bounties = append(bounties, hook(start+i, nook.TriggerBounty))
	}
	for _, c := range []struct {
		name   string
		events []nook.Recorded
		want   map[string]int64
	}{
		{"a later commit and an earlier one", []nook.Recorded{hook(start+9, nook.TriggerCommit), hook(start+5, nook.TriggerCommit), hook(start+7, nook.TriggerCommit)},
			map[string]int64{"first_commit": 5}},
		{"fix, request, release", []nook.Recorded{hook(start+1, nook.TriggerBugFix), hook(start+2, nook.TriggerPR), hook(start+3, nook.TriggerRelease)},
			map[string]int64{"first_commit": 1, "first_bug_fix": 1, "first_pr": 2, "first_release": 3}},
		{"tokens", []nook.Recorded{work("1", start+1, "u", 999), work("2", start+2, "u", 1), work("3", start+3, "u", 98_999), work("4", start+4, "u", 1), work("5", start+5, "u", 5_000_000)},
			map[string]int64{"tokens_1k": 2, "tokens_100k": 4, "tokens_1m": 5}},
		{"bounties", bounties, map[string]int64{"first_bounty": 0, "bounties_10": 9}},
	} {
		if got := unlocked(fold(c.events...)); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	failed := hook(start, nook.TriggerPR)
	failed.Event.Success = no()
	if got := unlocked(fold(failed)); len(got) > 0 {
		t.Errorf("a failed pull request unlocks %v", got)
	}
}

func TestAchievementsNeverAddSparks(t *testing.T) {
	a := fold(hook(start, nook.TriggerCommit), hook(start+1, nook.TriggerPR), hook(start+2, nook.TriggerRelease))
	if len(unlocked(a)) != 3 || lifetime(a) != 0 {
		t.Errorf("%v, %s sparks", unlocked(a), lifetime(a))
	}
}

func TestCommitStreak(t *testing.T) {
	var days []nook.Recorded
	for d := range int64(30) {
		days = append(days, hook(start+d*oracleDay, nook.TriggerCommit), hook(start+d*oracleDay+5, nook.TriggerCommit))
	}
	got := unlocked(fold(days...))
	if got["commit_streak_7"] != 6*oracleDay || got["commit_streak_30"] != 29*oracleDay {
		t.Error(got)
	}
	if got := unlocked(fold(slices.Delete(days, 12, 14)...)); got["commit_streak_7"] != 13*oracleDay || got["commit_streak_30"] != 0 {
		t.Errorf("with a gap on the seventh day: %v", got)
	}
}

func days(n int64) []nook.Recorded {
	var all []nook.Recorded
	for d := range n {
		r := work(fmt.Sprint("day ", d), start+d*oracleDay+d, "u", 10)
		r.Entry = digest.Sum([]byte(r.Event.ID))
		all = append(all, r)
	}
	return all
}

func TestStreakRewards(t *testing.T) {
	a := fold(days(366)...)
	now := int64(start + 366*oracleDay)
	if got := a.Streak(now); got != (nook.Streak{Days: 366, Best: 366}) {
		t.Errorf("%+v", got)
	}
	if got := a.Streak(now + oracleDay); got != (nook.Streak{Days: 0, Best: 366}) {
		t.Errorf("a day later: %+v", got)
	}
	var got []string
	for _, c := range a.Inventory(now + oracleDay).Chests {
		got = append(got, fmt.Sprint(c.From, c.Tier, (c.At-start)/oracleDay))
		if c.Item == nil || c.Tier == 0 && c.Item.Tier != nook.Legendary {
			t.Errorf("%+v", c)
		}
	}
	if want := []string{"7 days1 6", "30 days2 29", "100 days3 99", "365 days0 364"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestFailedWorkMakesNoStreak(t *testing.T) {
	r := work("1", start, "u", 5)
	r.Event.Success = no()
	unnamed := work("2", start, "", 5)
	if got := fold(r, unnamed, hook(start, nook.TriggerCommit)).Streak(start); got.Days != 0 {
		t.Errorf("%+v", got)
	}
}

func TestChestOpensWhenItIsFinal(t *testing.T) {
	a := fold(days(7)...)
	earned := int64(start + 6*oracleDay + 6)
	if c := a.Inventory(earned + oracleDay).Chests; len(c) != 1 || c[0].Open || c[0].Item != nil {
		t.Errorf("%+v", c)
	}
	early := work("early", start+6*oracleDay, "u", 1)
	early.Arrived, early.Entry = earned+5, digest.Sum([]byte("early"))
	a.Add(early)
	c := a.Inventory(earned + oracleDay + 1).Chests
	if len(c) != 1 || !c[0].Open || c[0].Event != "early" {
		t.Fatalf("%+v", c)
	}
	if want := nook.Draw(1, early.Entry, "early", 0); *c[0].Item != want {
		t.Errorf("%+v, want %+v", c[0].Item, want)
	}
}

func TestEvolutionAsPublished(t *testing.T) {
	var data struct {
		Thresholds map[string]struct {
			Sparks nook.Sparks
			Name   string
		}
		Seed   map[string]any      `json:"seed_variants"`
		Stage2 map[string][]string `json:"stage2_paths"`
		Stage4 map[string][]string `json:"stage4"`
	}
	published(t, "evolution.json", &data)
	a := rich(t, 501)
	for stage := 1; ; stage++ {
		e := a.Evolution()
		if want := data.Thresholds[fmt.Sprint(stage)]; e.Stage != stage || e.Name != want.Name {
			t.Errorf("%+v, want %+v", e, want)
		}
		switch stage {
		case 1:
			if len(e.Options) != len(data.Seed) {
				t.Errorf("%+v", e)
			}
		case 2: // DECISIONS has automator for the published "autonomous"
			if want := data.Stage2[e.Path()]; want[0] != e.Options[0] || len(e.Options) != len(want) {
				t.Errorf("%+v, want %v", e, want)
			}
		case 3:
			if want := data.Stage4[e.Path()]; !slices.Equal(want, e.Options) {
				t.Errorf("%+v, want %v", e, want)
			}
		case 4:
			if e.Options != nil || a.Evolve("legend", start) == nil {
				t.Errorf("%+v", e)
			}
			return
		}
		need := a.Evolution().Missing + a.Sparks().Total()
		if want := data.Thresholds[fmt.Sprint(stage+1)].Sparks; need != want && e.Missing > 0 {
			t.Errorf("stage %d needs %s, want %s", stage+1, need, want)
		}
		for d := int64(0); a.Evolution().Missing > 0; d++ {
			earn(a, 1_000+int64(stage)*1_000+d)
		}
		if err := a.Evolve(e.Options[0], start+int64(stage)); err != nil {
			t.Fatal(err)
		}
		if got := unlocked(a)[fmt.Sprint("evolution_stage_", stage+1)]; got != int64(stage) {
			t.Errorf("stage %d: %v", stage+1, unlocked(a))
		}
	}
}

// earn earns the 300 sparks of a day.
func earn(a *nook.Account, d int64) {
	for h := range int64(24) {
		a.Add(work(fmt.Sprint(d, " ", h), start+d*oracleDay+h*oracleHour, fmt.Sprint(h), nook.MaxTokens))
	}
}

// rich returns an account with at least so many sparks.
func rich(t *testing.T, sparks nook.Sparks) *nook.Account {
	t.Helper()
	a := nook.New("root")
	for d := int64(0); lifetime(a) < sparks*nook.Spark; d++ {
		earn(a, d)
	}
	return a
}

func TestEvolveWaitsForSparksAndAValidChoice(t *testing.T) {
	a := rich(t, 300)
	if err := a.Evolve("worker", start); !errors.Is(err, nook.ErrChoice) || err.Error() != "the sprite cannot evolve so yet: 200 sparks are missing for stage 2" {
		t.Error(err)
	}
	a = rich(t, 500)
	if err := a.Evolve("builder", start); !errors.Is(err, nook.ErrChoice) || err.Error() != `the sprite cannot evolve so: "builder" is none of worker, explorer, scholar` {
		t.Error(err)
	}
	if e := a.Evolution(); e.Stage != 1 || e.Missing != 0 {
		t.Errorf("%+v", e)
	}
	if err := a.Evolve("explorer", start); err != nil {
		t.Error(err)
	}
	if e := a.Evolution(); e.Stage != 2 || e.Path() != "explorer" || !slices.Equal(e.Options, []string{"scout", "investigator"}) {
		t.Errorf("%+v", e)
	}
}

func TestHeritageAsPublished(t *testing.T) {
	var data struct {
		Tiers []struct {
			Name      string
			MinSparks nook.Sparks
		}
		Head map[string]struct {
			CosmeticBadge    string
			ProgressionBonus nook.Sparks
		} `json:"rewards_head"`
		Before map[string]struct{ GachaChests, ChestTier int } `json:"rewards_before_gacha_removal"`
		Badges map[string]nook.Cosmetic                        `json:"cosmetics"`
	}
	published(t, "heritage.json", &data)
	for _, tier := range data.Tiers {
		a := nook.New("root")
		for d := int64(0); d == 0 || a.Imported(0).Lifetime.Total() < tier.MinSparks; d++ {
			for h := range int64(24) {
				if err := a.Import(work(fmt.Sprint(d, " ", h), start+d*oracleDay+h*oracleHour, "u", int64(tier.MinSparks)).Event); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := a.Onboard(start, digest.Sum([]byte(tier.Name))); err != nil {
			t.Fatal(err)
		}
		h, head, before := a.Heritage(), data.Head[tier.Name], data.Before[tier.Name]
		if h.Tier != tier.Name || h.Bonus != head.ProgressionBonus || h.Badge.ID != head.CosmeticBadge || h.Chests != before.GachaChests ||
			h.ChestTier != before.ChestTier || h.Badge != data.Badges[h.Badge.ID] {
			t.Errorf("%+v, want %+v %+v", h, head, before)
		}
		if inv := a.Inventory(start); len(inv.Chests) != h.Chests || inv.Items[0] != h.Badge {
			t.Errorf("%+v", inv)
		}
		if e := a.Evolution(); lifetime(a) != 0 || e.Missing != 500*nook.Spark-h.Bonus {
			t.Errorf("%s: %s sparks, %+v", tier.Name, lifetime(a), e)
		}
	}
}

func TestHistoryIsImportedOnceIntoAnEmptyAccount(t *testing.T) {
	a := fold(work("1", start, "u", 1))
	if err := a.Import(work("2", start, "u", 1).Event); err != nook.ErrHistory {
		t.Error(err)
	}
	if err := a.Onboard(start, digest.SHA256{}); err != nook.ErrHistory {
		t.Error(err)
	}
	b := nook.New("root")
	for range 2 {
		if err := b.Import(work("1", start, "u", 1000).Event); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Onboard(start, digest.SHA256{1}); err != nil {
		t.Fatal(err)
	}
	if err := b.Onboard(start, digest.SHA256{2}); err != nook.ErrHistory {
		t.Error(err)
	}
	if err := b.Import(work("2", start, "u", 1).Event); err != nook.ErrHistory {
		t.Error(err)
	}
	if got := b.Imported(start).Lifetime.Total(); got != nook.Raw(1000, 1) {
		t.Error(got)
	}
}

func TestCatalogAsPublished(t *testing.T) {
	var data struct{ Catalog map[string][]nook.Cosmetic }
	published(t, "cosmetics.json", &data)
	want := map[string]nook.Cosmetic{}
	for _, slot := range data.Catalog {
		for _, c := range slot {
			want[c.ID] = c
		}
	}
	delete(want, "trail_none")
	drawn := map[string]nook.Cosmetic{}
	for i := range 100_000 {
		c := nook.Draw(3, digest.Sum(fmt.Append(nil, i)), "e", 0)
		drawn[c.ID] = c
	}
	if fmt.Sprint(drawn) != fmt.Sprint(want) {
		t.Errorf("drawn %v\nwant %v", drawn, want)
	}
}

func TestDrawsFollowTheOdds(t *testing.T) {
	const draws = 200_000
	for tier := 1; tier <= 3; tier++ {
		count, sum := map[nook.Rarity]int{}, 0
		for i := range draws {
			count[nook.Draw(tier, digest.Sum(fmt.Append(nil, tier, i)), "e", i%5).Tier]++
		}
		for _, o := range nook.ChestOdds(tier) {
			sum += o.Chance
			want := draws * o.Chance / 10_000
			if got := count[o.Rarity]; got < want-want/8 || got > want+want/8 {
				t.Errorf("tier %d: %d %s, want about %d", tier, got, o.Rarity, want)
			}
		}
		if sum != 10_000 {
			t.Errorf("tier %d: the odds add up to %d", tier, sum)
		}
	}
}

func TestDuplicatesBecomeBits(t *testing.T) {
	var all []nook.Recorded
	for run := range int64(20) { // eight days each, with the last one off
		for d := range int64(7) {
			r := work(fmt.Sprint(run, " ", d), start+(run*8+d)*oracleDay, "u", 1)
			r.Entry = digest.Sum([]byte(r.Event.ID))
			all = append(all, r)
		}
	}
	inv := fold(all...).Inventory(start + 200*oracleDay)
	bits, items := 0, map[string]bool{}
	for _, c := range inv.Chests {
		if c.Again != items[c.Item.ID] || c.Again && c.Bits != c.Item.Price/5 || !c.Again && c.Bits != 0 {
			t.Errorf("%+v", c)
		}
		items[c.Item.ID] = true
		bits += c.Bits
	}
	if len(inv.Chests) != 20 || inv.Bits != bits || bits == 0 || len(inv.Items) != len(items) {
		t.Errorf("%d chests, %d items, %d bits, want %d", len(inv.Chests), len(inv.Items), inv.Bits, bits)
	}
}
