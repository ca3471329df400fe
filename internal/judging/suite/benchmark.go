package suite

import (
	"fmt"
	"slices"
	"strings"

	"guild"
)

// benchmark is one benchmark before it is written to files.
type benchmark struct {
	form
	variant   string
	modules   []string
	id        string // id of the bundle
	exercises []exercise
	cases     []check
	dice      *dice // for the salts
}

// exercise is one programming exercise, with lines as input and output.
type exercise struct {
	name  string
	text  string                                // the rules for the provider; drawn values are in backquotes
	solve func(lines []string) ([]string, bool) // the reference solution; false if the lines must be refused

	sample  func(d *dice, n int) []string // n valid lines; some of them match every rule
	edges   [][]string                    // inputs at the limits of the rules, valid and invalid
	hostile func(token string) []string   // an input with a token that must not be interpreted
	size    int                           // lines of a performance test
}

// check is one test of an exercise.
type check struct {
	exercise string
	layer    string
	number   int // within the exercise and layer, from 1
	in, out  []string
	refused  bool
}

// family generates exercises of one kind.
type family struct {
	module string
	make   func(d *dice) exercise
}

// families returns all kinds of exercises.
func families() []family {
	return []family{
		{"computation", pairs}, {"computation", stretch}, {"computation", ranges},
		{"memory", cache}, {"memory", words}, {"memory", returns},
		{"io", settings}, {"io", accounts}, {"io", disguise}, {"io", paths},
	}
}

// exercises is the number of exercises in a benchmark.
const exercises = 6

// draw creates the exercises of a benchmark and their tests.
//
// The order of the draws is part of the suite's version: another order changes every benchmark, and then Name must
// change too.
func draw(s Spec, f form, variant string, modules []string) *benchmark {
	d := newDice(s.Seed, fmt.Sprintf("%s\n%s\n%s\n%d", Name(s.Task), variant, strings.Join(modules, ","), s.Run))
	b := &benchmark{form: f, variant: variant, modules: modules, id: fmt.Sprintf("nut-benchmark-%016x", d.roll()), dice: d}
	for _, made := range d.choose(modules) {
		e := made.make(d)
		for e.name = d.name(); slices.ContainsFunc(b.exercises, func(o exercise) bool { return o.name == e.name }); {
			e.name = d.name()
		}
		b.exercises = append(b.exercises, e)
	}
	for _, e := range b.exercises {
		b.cases = append(b.cases, b.checks(d, e)...)
	}
	return b
}

// choose draws the families of a benchmark, the same number from each module. One module alone has too few, so some of
// its families occur twice, with other values.
func (d *dice) choose(modules []string) []family {
	var chosen []family
	for i, m := range modules {
		var own []family
		for _, f := range families() {
			if f.module == m {
				own = append(own, f)
			}
		}
		d.shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
		share := exercises*(i+1)/len(modules) - exercises*i/len(modules)
		for k := range share {
			chosen = append(chosen, own[k%len(own)])
		}
	}
	return chosen
}

// checks draws the tests of one exercise: its share of each layer.
func (b *benchmark) checks(d *dice, e exercise) []check {
	p := plans[b.variant]
	share := func(n int) int { return (n + exercises - 1) / exercises }
	var all []check
	add := func(layer string, inputs ...[]string) { all = append(all, d.tests(e, layer, inputs)...) }
	add(guild.LayerSmoke, d.samples(e, share(p.smoke), 3, 6)...)
	add(guild.LayerCorrectness, d.samples(e, share(p.correctness), 8, 60)...)
	add(guild.LayerEdge, d.edges(e, share(p.edge))...)
	add(guild.LayerSecurity, d.attacks(e, share(p.security))...)
	add(guild.LayerPerformance, b.large(d, e, share(p.performance), e.size*p.percent/100)...)
	return all
}

// tests returns the tests of a layer with these inputs. It adds ordinary ones as long as a lie passes all.
func (d *dice) tests(e exercise, layer string, inputs [][]string) []check {
	var own []check
	for len(own) < len(inputs) || passedByLie(own) {
		var in []string
		if len(own) < len(inputs) {
			in = inputs[len(own)]
		} else {
			in = e.sample(d, d.between(8, 20))
		}
		out, ok := e.solve(in)
		own = append(own, check{exercise: e.name, layer: layer, number: len(own) + 1, in: in, out: out, refused: !ok})
	}
	return own
}

// samples draws valid inputs of least to most lines.
func (d *dice) samples(e exercise, n, least, most int) [][]string {
	inputs := make([][]string, n)
	for i := range inputs {
		inputs[i] = e.sample(d, d.between(least, most))
	}
	return inputs
}

// edges draws from the inputs at the limits, each at most once, and adds short samples if there are too few. The first
// input has no lines.
func (d *dice) edges(e exercise, n int) [][]string {
	rest := slices.Clone(e.edges)
	d.shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	inputs := [][]string{{}}
	for len(inputs) < n && len(rest) > 0 {
		inputs = append(inputs, rest[0])
		rest = rest[1:]
	}
	for len(inputs) < n {
		inputs = append(inputs, e.sample(d, 1))
	}
	return inputs
}

// attacks draws inputs with tokens that a careless program would execute, open or expand, between harmless lines.
//
// The harmless lines show that the program still works after the token, and not only that it survives it.
func (d *dice) attacks(e exercise, n int) [][]string {
	inputs := make([][]string, n)
	for i := range inputs {
		inputs[i] = slices.Concat(e.sample(d, 2), e.hostile(pick(d, attacks)), e.sample(d, 2))
	}
	return inputs
}

// large draws inputs of size lines, or fewer if the file of all performance tests would become too large.
func (b *benchmark) large(d *dice, e exercise, n, size int) [][]string {
	most := b.budget / (n * exercises)
	inputs := make([][]string, n)
	for i := range inputs {
		in := e.sample(d, size)
		out, _ := e.solve(in)
		if bytes := length(in) + length(out); bytes > most {
			in = e.sample(d, size*most/bytes)
		}
		inputs[i] = in
	}
	return inputs
}

// length returns the approximate bytes of lines in a file of tests.
func length(lines []string) int {
	n := 0
	for _, l := range lines {
		n += len(l) + 2
	}
	return n
}

// attacks lists words that a program must treat like any other: as text where text is allowed, and as an error where a
// number is required. None leads out of a directory: the judge takes an answer that does for an attempt to have the tests
// read their own files.
var attacks = []string{
	"$(touch,pwned)", "`id`", "__import__('os').getpid()", "/etc/passwd", ";cat</etc/passwd", "%s%s%n%d",
	"{0.__class__}", "$HOME", "*", "~root", "a[$(id)]", "'||id||'", "2*3", "0x1f", "1e3", "1_000", "$((1+2))", "len('abc')",
	"&&exit", "|wc", "-n", "--help", "\\x41\\n", "http://127.0.0.1:1/", "file:///etc/passwd", "<!--#exec-->", "!!", "{1..9}",
}

// title returns the title of the job.
func (b *benchmark) title() string {
	return fmt.Sprintf("Benchmark: %d exercises in %s (%s)", len(b.exercises), b.task, b.variant)
}
