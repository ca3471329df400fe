package judge

import (
	"context"

	"guild"
)

func (j *judgement) goTest(ctx context.Context, c Criterion, f *finding) error {
	_ = guild.Weak
	return undecided("not built")
}
