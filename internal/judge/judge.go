// Package judge is the fourth step: it turns what an examination of a delivery found into a verdict, and owns it.
// How criteria are run is exam's; the judge knows what they weigh, what they are compared with, and who decides
// what no program can.
package judge

import (
	"context"
	"encoding/json"
	"fmt"

	"guild"
	"guild/internal/exam"
	"guild/internal/sandbox"
)

// Judge examines deliveries and scores what was found.
type Judge struct {
	Exam *exam.Engine
	Caps sandbox.Caps // of Exam.Runner
}

// Evidence is the judge's full output as JSON, to be kept as a blob: whoever has the bundle, the delivery and
// this can judge again and compare.
type Evidence []byte

// Judge judges the delivery unpacked at deliveryDir by the request bundle unpacked at bundleDir. An error is as
// of exam.Engine.Examine: nothing is known about the delivery.
func (j *Judge) Judge(ctx context.Context, bundleDir, deliveryDir string) (guild.Verdict, Evidence, error) {
	report, err := j.Exam.Examine(ctx, bundleDir, deliveryDir)
	if err != nil {
		return guild.Verdict{}, nil, err
	}
	v := verdict(report.Findings, j.Caps.Tier)
	evidence, err := json.Marshal(struct {
		Format  string        `json:"format"`
		Verdict guild.Verdict `json:"verdict"`
		exam.Report
	}{"guild judge evidence 1", v, report})
	if err != nil {
		return guild.Verdict{}, nil, fmt.Errorf("evidence: %w", err)
	}
	return v, evidence, nil
}
