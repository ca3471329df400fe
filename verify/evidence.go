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

// Formats of the evidence that guild's judge writes, for criteria and for typed jobs. Of evidence in another format
// only the hash is checked.
const (
	evidenceFormat      = "guild judge evidence 1"
	typedEvidenceFormat = "guild typed evidence 1"
)

// evidence has the checked fields of the evidence.
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
	} `json:"request"` // of a typed job, as Report
	Report struct {
		Strength guild.Strength `json:"strength"`
		Tests    few[test]      `json:"tests"`
	} `json:"report"`
}

type finding struct {
	Strength guild.Strength `json:"strength"`
	Fault    string         `json:"fault"`
	Runs     few[struct{}]  `json:"runs"`
	Tests    few[test]      `json:"tests"`
	Breaches few[struct{}]  `json:"violations"`
}

// few is a list of limited length, longer than any list of a judge. The limit is needed because an element of a few
// bytes of JSON can take far more memory.
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

// checkEvidence checks that evidence.json is the one that the verdict names, and has the same tests.
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

// decodeEvidence reads evidence. For an unknown format it returns the zero value.
func decodeEvidence(b []byte) (e evidence, err error) {
	canonical, err := canon.Canonical(b)
	if err != nil {
		return evidence{}, nil // any other format, such as plain text
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

// ruled are the fields of a verdict that a person's ruling replaces.
var ruled = []string{"outcome", "cause", "score_micro", "dimensions", "standing", "ruling"}

// opined are the fields that an opinion replaces. An opinion compares a result with others after the result was judged
// by itself; it adds a test.
var opined = []string{"outcome", "cause", "score_micro", "dimensions", "standing", "strength", "strengths", "tier", "expected", "passed", "tests", "warnings",
	"speed", "annotations", "quality", "opinion"}

// sameVerdict checks that the verdict in the evidence equals verdict.json. It ignores the field that names the
// evidence, and the fields that a later ruling or opinion replaced.
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

// sameTests checks that the verdict has the tests of the findings, and the strength that follows from them.
func (v verdict) sameTests(e evidence) error {
	var tests []test
	breaches := 0
	for _, f := range e.Findings {
		tests = append(tests, f.Tests...)
		breaches += len(f.Breaches)
	}
	strength := weakest(e.Findings)
	if v.Strengths != nil {
		strength = strengthOf(e.Findings)
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

// judged returns the tests of the work by itself, without the one that an opinion adds. asFound reports whether the
// verdict must have the strength of these tests.
func (v verdict) judged() (own []test, asFound bool) {
	if v.Opinion != nil && len(v.Tests) > 0 {
		return v.Tests[:len(v.Tests)-1], false
	}
	return v.Tests, true
}

// sameReport checks that the report on a typed job has the tests and the strength of the verdict and is about the
// request that was sent.
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

// checkPace compares the performance with the baseline. It is 1 up to the baseline, then falls linearly to 0 at 1.5
// times the baseline.
func (v verdict) checkPace(e evidence) error {
	const fewest, noise = 5, 50 // the least runs of a baseline; the shortest baseline that is compared, in ms
	baseline := e.Baseline.Wall.Median
	for _, d := range v.Dimensions {
		if d.Name != "performance" || !d.Known {
			continue
		}
		if e.Baseline.Runs < fewest || baseline < noise {
			return errors.New("the performance is known, and there is no baseline")
		}
		if w := v.Usage.WaitedMs; w < 0 || w > v.Usage.WallMs {
			return fmt.Errorf("it waited %d ms for the machine of a run of %d ms", w, v.Usage.WallMs)
		}
		over := v.Usage.WallMs - v.Usage.WaitedMs - baseline // in ms
		var want guild.Score
		switch {
		case over <= 0:
			want = guild.Micro
		case over < baseline-over:
			want = guild.Score(guild.Micro - 2*over*guild.Micro/baseline)
		}
		if d.Value != want {
			return fmt.Errorf("the performance is %d, and beside the baseline it would be %d", d.Value, want)
		}
	}
	return nil
}
