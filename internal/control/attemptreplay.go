package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"guild/internal/record"
)

// recordedAttempt is what is stored of the attempt that the query names by the start of its id; of the last one, when
// it names none.
func recordedAttempt(r *http.Request, all []record.Stored) (stored record.Stored, err error) {
	prefix := strings.ToLower(r.URL.Query().Get("attempt"))
	if prefix == "" {
		if len(all) == 0 {
			return stored, errors.New("no trajectory yet")
		}
		return all[len(all)-1], nil
	}
	var ids []string
	for _, one := range all {
		id := one.Attempt.Hex()
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if !slices.Contains(ids, id) { // a dispute records an attempt again: then the last record counts
			ids = append(ids, id)
		}
		stored = one
	}
	switch len(ids) {
	case 0:
		return stored, fmt.Errorf("no trajectory of an attempt %.64q", prefix)
	case 1:
		return stored, nil
	}
	return stored, fmt.Errorf("%d attempts begin with %q", len(ids), prefix)
}

// AttemptReplay is GET /v1/replays/{id}?attempt=PREFIX: the REPLAY.jsonl of a job up to the end of one attempt, or of the
// last one if attempt is empty. The id may be that of a receipt, too: then it is the one that the receipt names.
func (c *Client) AttemptReplay(ctx context.Context, id, attempt string) ([]byte, error) {
	return c.raw(ctx, "/v1/replays/"+url.PathEscape(id), query("attempt", attempt))
}
