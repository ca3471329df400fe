package verify

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
)

// What marks the evidence that the judge of guild writes: on criteria, and on typed jobs. Another judge's is covered by
// its hash alone.
const (
	evidenceFormat      = "guild judge evidence 1"
	typedEvidenceFormat = "guild typed evidence 1"
)

// evidence is what is read of it.
type evidence struct {
	Format   string         `json:"format"`
	Verdict  jsontext.Value `json:"verdict"`
	Baseline struct {
		Runs int64 `json:"runs"`
		Wall struct {
			Median int64 `json:"median_ms"`
		} `json:"wall"`
	} `json:"baseline"`
	Findings few[finding] `json:"findings"`

	Request struct {
		Payload jsontext.Value `json:"payload"`
	} `json:"request"` // of a typed job, as is the next
	Report struct {
		Strength guild.Strength `json:"strength"`
		Tests    few[test]      `json:"tests"`
	} `json:"report"`
}

type finding struct {
	Strength guild.Strength `json:"strength"`
	Tests    few[test]      `json:"tests"`
	Breaches few[struct{}]  `json:"violations"`
}

// few is a list that is read up to a length that no judge's has: small elements would take far more room than their text.
type few[T any] []T

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *few[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	const most = 100_000
	*l = nil
	if d.PeekKind() == jsontext.KindNull {
		return d.SkipValue()
	}
	if d.PeekKind() != jsontext.KindBeginArray {
		return errors.New("no list")
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != jsontext.KindEndArray {
		if len(*l) == most {
			return fmt.Errorf("a list of more than %d", most)
		}
		var one T
		if err := json.UnmarshalDecode(d, &one); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	_, err := d.ReadToken()
	return err
}

// checkEvidence wants the output of the judge that the verdict names, and the same tests in both.
func (x *export) checkEvidence() (string, error) {
	b, there := x.files[FileEvidence]
	switch {
	case !x.known:
		return "", noReceipt
	case there && x.receipt.VerdictHash.IsZero():
		return "", fmt.Errorf("%s is there, and the receipt names no verdict", FileEvidence)
	case !there:
		return "", missing(FileEvidence)
	case !x.hasVerdict:
		return "", absence("there is no verdict that holds")
	}
	named, err := guild.ParseHash(x.verdict.Evidence)
	if err != nil || guild.Sum(b) != named {
		return "", fmt.Errorf("it is %s, and the verdict says %.80q", guild.Sum(b), x.verdict.Evidence)
	}
	e, err := decodeEvidence(b)
	if err != nil {
		return "", err
	}
	var rules []func(evidence) error
	switch e.Format {
	case evidenceFormat:
		rules = []func(evidence) error{x.sameVerdict, x.verdict.sameTests, x.verdict.checkPace}
	case typedEvidenceFormat:
		rules = []func(evidence) error{x.sameVerdict, x.sameReport}
	default:
		return named.String() + ", in a form of its own", nil
	}
	for _, rule := range rules {
		if err := rule(e); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s, with the same %d tests", named, len(x.verdict.Tests)), nil
}

// decodeEvidence reads evidence, and nothing of one whose form is not known.
func decodeEvidence(b []byte) (e evidence, err error) {
	canonical, err := canon.Canonical(b)
	if err != nil {
		return evidence{}, nil // a text, say
	}
	var head struct {
		Format jsontext.Value `json:"format"`
	}
	if json.Unmarshal(canonical, &head) != nil {
		return evidence{}, nil
	}
	switch string(head.Format) {
	case `"` + evidenceFormat + `"`, `"` + typedEvidenceFormat + `"`:
		return e, json.Unmarshal(canonical, &e)
	}
	return evidence{}, nil
}

// ruled are the fields of a verdict that a person's ruling sets anew.
var ruled = []string{"outcome", "cause", "score_micro", "dimensions", "standing", "ruling"}

// opined are the fields that an opinion sets anew, which compares a result with others once it is judged by itself: it
// adds a test.
var opined = []string{"outcome", "cause", "score_micro", "dimensions", "standing", "strength", "tier", "expected", "passed", "tests", "warnings",
	"speed", "annotations", "quality", "opinion"}

// sameVerdict wants the verdict in the evidence to be the verdict, but for what names the evidence, and what a person
// ruled or an opinion said afterwards.
func (x *export) sameVerdict(e evidence) error {
	var is, was map[string]jsontext.Value
	canonical, err := canon.Canonical(x.files[FileVerdict])
	if err == nil {
		err = json.Unmarshal(canonical, &is)
	}
	if err == nil {
		err = json.Unmarshal(e.Verdict, &was)
	}
	if err != nil {
		return err
	}
	apart := []string{"evidence"}
	if x.verdict.Ruling != nil {
		apart = append(apart, ruled...)
	}
	if x.verdict.Opinion != nil {
		apart = append(apart, opined...)
	}
	for _, name := range apart {
		delete(is, name)
		delete(was, name)
	}
	for name := range is {
		if !bytes.Equal(is[name], was[name]) {
			return fmt.Errorf("its %.40s is not that of the verdict", name)
		}
	}
	if len(is) != len(was) {
		return errors.New("its verdict has more fields")
	}
	return nil
}

// sameTests wants the verdict's tests to be those of the findings, and as strong as the weakest.
func (v verdict) sameTests(e evidence) error {
	var tests []test
	breaches, strength := 0, guild.Strong
	for _, f := range e.Findings {
		tests = append(tests, f.Tests...)
		breaches += len(f.Breaches)
		if f.Strength != guild.Strong {
			strength = guild.Weak
		}
	}
	if len(e.Findings) == 0 {
		strength = guild.Weak
	}
	own, asFound := v.judged()
	switch {
	case !slices.Equal(tests, own):
		return errors.New("its tests are not those of the verdict")
	case breaches != len(v.Breaches):
		return fmt.Errorf("it has %d violations, and the verdict %d", breaches, len(v.Breaches))
	case asFound && strength != v.Strength:
		return fmt.Errorf("its findings are %s, and the verdict is %.40s", strength, v.Strength)
	}
	return nil
}

// judged are the tests of the work by itself, without the one that an opinion adds, and whether the verdict is as strong
// as they are.
func (v verdict) judged() (own []test, asFound bool) {
	if v.Opinion != nil && len(v.Tests) > 0 {
		return v.Tests[:len(v.Tests)-1], false
	}
	return v.Tests, true
}

// sameReport wants what was found of a typed job to be the verdict's, and to be about the request that was sent.
func (x *export) sameReport(e evidence) error {
	v := x.verdict
	own, asFound := v.judged()
	switch {
	case !slices.Equal(e.Report.Tests, own):
		return errors.New("its tests are not those of the verdict")
	case asFound && e.Report.Strength != v.Strength:
		return fmt.Errorf("its report is %.40s, and the verdict is %.40s", e.Report.Strength, v.Strength)
	case x.request.payload != nil && !bytes.Equal(e.Request.Payload, x.request.payload):
		return errors.New("it is about another request than was sent")
	}
	return nil
}

// checkPace holds the performance against the baseline: 1 up to it, from there straight down to 0 at half as much
// again.
func (v verdict) checkPace(e evidence) error {
	const fewest, noise = 5, 50 // runs that make a baseline; milliseconds that are worth comparing
	baseline := e.Baseline.Wall.Median
	for _, d := range v.Dimensions {
		if d.Name != "performance" || !d.Known {
			continue
		}
		if e.Baseline.Runs < fewest || baseline < noise {
			return errors.New("the performance is known, and there is no baseline")
		}
		if want := pace(v.Usage.WallMs, baseline); d.Value != want {
			return fmt.Errorf("the performance is %d, and beside the baseline it would be %d", d.Value, want)
		}
	}
	return nil
}

// pace is how well a time stands beside a baseline, both in milliseconds.
func pace(wallMs, baseline int64) guild.Score {
	over := wallMs - baseline
	switch {
	case over <= 0:
		return guild.Micro
	case over >= baseline-over:
		return 0
	default:
		return guild.Score(guild.Micro - 2*over*guild.Micro/baseline)
	}
}
