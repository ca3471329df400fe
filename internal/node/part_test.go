package node

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fold"
)

// foldOf returns the fold of a type.
func foldOf[F fold.Fold](n *Node) (f F) {
	for _, p := range n.parts {
		for _, one := range p.folds {
			if found, ok := one.(F); ok {
				return found
			}
		}
	}
	return f
}

// The table in docs/ARCHITECTURE.md lists the kinds that each step takes. It must agree with the routes of the parts.
func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	n := startNode(t, startRelay(t), func(*Config) {})
	doc, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		from, to nostr.Kind
		steps    string
	}
	var rows []row
	kinds := regexp.MustCompile(`(\d+)(?:-(\d+))?`)
	for line := range strings.Lines(string(doc)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, m := range kinds.FindAllStringSubmatch(cells[1], -1) {
			from, _ := strconv.Atoi(m[1])
			to, _ := strconv.Atoi(m[2])
			rows = append(rows, row{nostr.Kind(from), nostr.Kind(max(from, to)), cells[3]})
		}
	}
	for i, a := range n.active {
		for _, r := range a.routes {
			documented := false
			for _, row := range rows {
				documented = documented || row.from == r.from && row.to == max(r.from, r.to) && strings.Contains(row.steps, n.parts[i].name)
			}
			if !documented {
				t.Errorf("no row of docs/ARCHITECTURE.md says that %s takes kinds %d to %d", n.parts[i].name, r.from, max(r.from, r.to))
			}
		}
	}
}

func TestMetricsAreDescribed(t *testing.T) {
	for _, m := range newMetrics(&Node{}).registry.All() {
		if m.Unit == "" || !strings.HasSuffix(m.Help, ".") {
			t.Errorf("%s has the unit %q and the help %q, want both", m.Name, m.Unit, m.Help)
		}
	}
}
