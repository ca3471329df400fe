package nook

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"guild/digest"
)

// Rarity is the tier of an achievement or a cosmetic.
type Rarity string

// The tiers of section 7 of the specification.
const (
	Common    Rarity = "common"
	Uncommon  Rarity = "uncommon"
	Rare      Rarity = "rare"
	Epic      Rarity = "epic"
	Legendary Rarity = "legendary"
)

var colors = map[Rarity]string{Common: "#95a5a6", Uncommon: "#2ecc71", Rare: "#3498db", Epic: "#9b59b6", Legendary: "#f39c12"}

// Color returns the colour of the tier, as #rrggbb.
func (r Rarity) Color() string { return colors[r] }

// Achievement is a milestone of a root identity. It is unlocked once.
type Achievement struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Tier        Rarity `json:"tier"`
	SparkReward int    `json:"sparkReward"` // only shown; sparks are computed, never granted
	UnlockedAt  int64  `json:"unlockedAt"`  // Unix ms; 0 if it is locked
}

// The indexes of what a cursor can reach: achievements, then the steps of the work streak.
const (
	firstCommit = iota
	firstPR
	commitStreak7
	commitStreak30
	firstFix
	firstRelease
	tokens1K
	tokens100K
	tokens1M
	stage2
	stage3
	stage4
	firstBounty
	bounties10
	streak7
	streak30
	streak100
	streak365
)

// achievements is in the order of the constants.
var achievements = [...]Achievement{
	{"first_commit", "First Commit", "Made your first git commit", Common, 10, 0},
	{"first_pr", "Pull Request", "Opened your first pull request", Uncommon, 25, 0},
	{"commit_streak_7", "Week Warrior", "7 day commit streak", Rare, 50, 0},
	{"commit_streak_30", "Monthly Master", "30 day commit streak", Epic, 200, 0},
	{"first_bug_fix", "Bug Hunter", "Fixed your first bug", Common, 15, 0},
	{"first_release", "Release Ready", "Published your first release", Rare, 75, 0},
	{"tokens_1k", "Getting Started", "Processed 1,000 tokens", Common, 10, 0},
	{"tokens_100k", "Century", "Processed 100,000 tokens", Rare, 100, 0},
	{"tokens_1m", "Millionaire", "Processed 1,000,000 tokens", Legendary, 500, 0},
	{"evolution_stage_2", "Sprouted", "Evolved to Stage 2", Uncommon, 25, 0},
	{"evolution_stage_3", "Growing", "Evolved to Stage 3", Rare, 75, 0},
	{"evolution_stage_4", "Blooming", "Evolved to Stage 4", Legendary, 200, 0},
	{"first_bounty", "Bounty Hunter", "Completed your first bounty", Uncommon, 30, 0},
	{"bounties_10", "Pro Hunter", "Completed 10 bounties", Rare, 100, 0},
}

// reached is a set of the indexes above.
type reached uint32

func lowest(m reached) int { return bits.TrailingZeros32(uint32(m)) }

// reward is what an event has reached.
type reward struct {
	What  int           `json:"what"` // one of the indexes above
	At    int64         `json:"at"`
	Event string        `json:"event"`
	Entry digest.SHA256 `json:"entry"`
}

// cursor is what follows from all events up to one, in order.
type cursor struct {
	Hour      int64   `json:"hour"` // of the last event, since 1970
	Day       int64   `json:"day"`
	HourSum   Sparks  `json:"hourSum"` // earned in this hour
	DaySum    Sparks  `json:"daySum"`
	Tokens    int64   `json:"tokens"`
	Bounties  int64   `json:"bounties"`
	Done      reached `json:"done"`      // achievements
	WorkDay   int64   `json:"workDay"`   // the last day with completed work
	WorkRun   int64   `json:"workRun"`   // days in a row up to it
	BestRun   int64   `json:"bestRun"`   // the longest run so far
	CommitDay int64   `json:"commitDay"` // the same for commits
	CommitRun int64   `json:"commitRun"`
}

// enter moves to the hour and day of the next event.
func (c *cursor) enter(at int64) {
	if h := at / hour; h != c.Hour {
		c.Hour, c.HourSum = h, 0
	}
	if d := at / day; d != c.Day {
		c.Day, c.DaySum = d, 0
	}
}

// add adds a computed entry in the hour and day of the cursor, and returns what it reaches.
func (c *cursor) add(e *entry) reached {
	if e.kind == 0 {
		return 0
	}
	c.HourSum += e.earned
	c.DaySum += e.earned
	var now reached
	if e.kind&isCompleted != 0 {
		c.Tokens = plus(c.Tokens, e.tokens)
		now |= when(c.Tokens >= 1_000, tokens1K) | when(c.Tokens >= 100_000, tokens100K) | when(c.Tokens >= 1_000_000, tokens1M)
	}
	if e.kind&isBounty != 0 {
		c.Bounties++
		now |= when(c.Bounties >= 1, firstBounty) | when(c.Bounties >= 10, bounties10)
	}
	now |= when(e.kind&isPR != 0, firstPR) | when(e.kind&isFix != 0, firstFix) | when(e.kind&isRelease != 0, firstRelease)
	if e.kind&(isCommit|isFix) != 0 {
		now |= 1 << firstCommit // the fix of a bug is a commit too
		extend(&c.CommitDay, &c.CommitRun, c.Day)
		now |= when(c.CommitRun >= 7, commitStreak7) | when(c.CommitRun >= 30, commitStreak30)
	}
	now &^= c.Done
	c.Done |= now
	if e.kind&isWork != 0 && extend(&c.WorkDay, &c.WorkRun, c.Day) {
		c.BestRun = max(c.BestRun, c.WorkRun)
		now |= when(c.WorkRun == 7, streak7) | when(c.WorkRun == 30, streak30) | when(c.WorkRun == 100, streak100) | when(c.WorkRun == 365, streak365)
	}
	return now
}

func when(is bool, what int) reached {
	if is {
		return 1 << what
	}
	return 0
}

// extend extends a run of days by today, and reports whether today is new in it.
func extend(last, run *int64, today int64) bool {
	switch {
	case *run > 0 && today == *last:
		return false
	case *run > 0 && today == *last+1:
		*run++
	default:
		*run = 1
	}
	*last = today
	return true
}

// plus adds two counts, and stops at the largest.
func plus(x, y int64) int64 {
	if x > 1<<62-y {
		return 1 << 62
	}
	return x + y
}

// Streak is a run of days with at least one completed work unit.
type Streak struct {
	Days int64 `json:"days"` // up to today or yesterday; 0 if yesterday had none
	Best int64 `json:"best"`
}

// Streak returns the streak as of a time, in Unix ms.
func (a *Account) Streak(now int64) Streak {
	a.Settle()
	if now/day > a.tip.WorkDay+1 {
		return Streak{Best: a.tip.BestRun}
	}
	return Streak{Days: a.tip.WorkRun, Best: a.tip.BestRun}
}

// Achievements returns all achievements; UnlockedAt is 0 if one is locked.
func (a *Account) Achievements() []Achievement {
	a.Settle()
	all := slices.Clone(achievements[:])
	for _, r := range a.rewards {
		if r.What < len(all) {
			all[r.What].UnlockedAt = r.At
		}
	}
	for i, c := range a.choices {
		all[stage2+i].UnlockedAt = c.At
	}
	return all
}

// Choice is what the owner chose when the sprite evolved.
type Choice struct {
	Name string `json:"name"`
	At   int64  `json:"at"` // Unix ms
}

// stages are the stages, from stage 1 on, and the sparks that open them.
var stages = [...]struct {
	name   string
	sparks Sparks
}{{"Seed", 0}, {"Sprout", 500 * Spark}, {"Bloom", 2_500 * Spark}, {"Apex", 10_000 * Spark}}

// Evolution is the growth of a root identity's sprite.
type Evolution struct {
	Stage   int      `json:"stage"` // 1 to 4
	Name    string   `json:"name"`  // Seed, Sprout, Bloom or Apex
	Choices []Choice `json:"choices"`

	// The next stage, if there is one. It waits for the owner's choice as soon as Missing is 0.
	Options []string `json:"options,omitempty"`
	Missing Sparks   `json:"missing"`
}

// Path returns worker, explorer or scholar, or "" before stage 2.
func (e Evolution) Path() string {
	if len(e.Choices) == 0 {
		return ""
	}
	return e.Choices[0].Name
}

// Evolution returns the present stage and what the next one needs. Heritage's bonus counts toward stage 2 only, the first milestone.
func (a *Account) Evolution() Evolution {
	stage := len(a.choices) + 1
	e := Evolution{Stage: stage, Name: stages[stage-1].name, Choices: append([]Choice{}, a.choices...)}
	if stage == len(stages) {
		return e
	}
	e.Options = options(e)
	have := a.Sparks().Total()
	if stage == 1 && a.heritage != nil {
		have += a.heritage.Bonus
	}
	e.Missing = max(0, stages[stage].sparks-have)
	return e
}

func options(e Evolution) []string {
	switch e.Stage {
	case 1:
		return []string{"worker", "explorer", "scholar"}
	case 2:
		return map[string][]string{"worker": {"builder", "automator"}, "explorer": {"scout", "investigator"}, "scholar": {"analyst", "planner"}}[e.Path()]
	}
	return []string{"champion", "legend"}
}

// ErrChoice means that the sprite cannot evolve so.
var ErrChoice = errors.New("the sprite cannot evolve so")

// MayEvolve returns the error that Evolve would return, which matches ErrChoice.
func (a *Account) MayEvolve(choice string) error {
	e := a.Evolution()
	switch {
	case e.Options == nil:
		return fmt.Errorf("%w: stage %d is the last", ErrChoice, e.Stage)
	case e.Missing > 0:
		return fmt.Errorf("%w yet: %s sparks are missing for stage %d", ErrChoice, e.Missing, e.Stage+1)
	case !slices.Contains(e.Options, choice):
		return fmt.Errorf("%w: %.40q is none of %s", ErrChoice, choice, strings.Join(e.Options, ", "))
	}
	return nil
}

// Evolve records the owner's choice at a time, in Unix ms. It is an error if the sparks do not suffice or there is no such choice.
func (a *Account) Evolve(choice string, at int64) error {
	if err := a.MayEvolve(choice); err != nil {
		return err
	}
	a.choices = append(a.choices, Choice{Name: choice, At: at})
	return nil
}
