package verify

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"

	"guild"
	"guild/replay"
)

// CheckWorker checks FileWorker: that its canonical hash is the one that the provider's result names, and that its events
// follow each other. The error says what is wrong. Whether the work was really done that way, it cannot tell.
func CheckWorker(file []byte, named guild.Hash) error {
	hash, err := replay.TrajectoryHash(bytes.NewReader(file))
	if err != nil {
		return err
	}
	if hash != named {
		return fmt.Errorf("it is %s, and the result says %s", hash, named)
	}
	var sequence replay.Sequence
	for line, err := range replay.Read(bytes.NewReader(file)) {
		if err != nil {
			return err
		}
		if err := cmp.Or(replay.Check(line.Event), sequence.Add(line.Event)); err != nil {
			return fmt.Errorf("line %d: %w", line.Number, err)
		}
	}
	return nil
}

// checkWorker checks the trajectory of the provider's worker against the result, which names it.
func (x *export) checkWorker() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	noResult := x.receipt.ResultEvent == (nostr.ID{})
	if !noResult && x.result.broken != nil {
		return "", absence("there is no result that holds")
	}
	file, there := x.files[FileWorker]
	named := x.result.result.Trajectory
	switch {
	case there && (noResult || named.IsZero()):
		return "", errors.New(FileWorker + " is there, and no result names it")
	case named.IsZero():
		return "", absence("no result names one")
	case !there:
		return "", absence(FileWorker + " is not there; the result names " + named.String())
	}
	if err := CheckWorker(file, named); err != nil {
		return "", err
	}
	return named.String() + ", as the result says", nil
}
