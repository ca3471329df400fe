package verify

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/nip90"
	"guild/nutshell"
	"guild/oa"
)

// typedRequest is the file with the request of a typed job in its bundle, an envelope (the OpenAgents surface).
const typedRequest = "files/request.json"

// payloadOf returns the payload of a typed job that the event itself carries, in canonical form, or nil if the job has
// a bundle.
func payloadOf(r nip90.Request) (jsontext.Value, error) {
	if _, err := oa.ParseID(r.Get(nip90.ParamJobType)); err != nil || r.Get(nip90.ParamBundleSHA256) != "" {
		return nil, nil
	}
	for _, in := range r.Inputs {
		if in.Type == "text" && in.Marker == "" {
			payload, err := canon.Canonical([]byte(in.Data))
			if err != nil {
				return nil, fmt.Errorf("its payload: %w", err)
			}
			return payload, nil
		}
	}
	return nil, errors.New("a typed job, and no payload")
}

// unpacked checks a bundle that the customer made from data in the event itself. The receipt names the bundle, and
// same compares its content with the event.
func (x *export) unpacked(file, event string, stated guild.Hash, same func(*nutshell.Bundle) error) (string, error) {
	b, there := x.files[file]
	switch {
	case there && stated.IsZero():
		return "", fmt.Errorf("%s is there, and the receipt names none", file)
	case stated.IsZero():
		return "", absence("the receipt names none")
	case !there:
		return "", absence(fmt.Sprintf("%s is not there; what it holds is in the %s", file, event))
	case guild.Sum(b) != stated:
		return "", fmt.Errorf("%s is %s, and the receipt says %s", file, guild.Sum(b), stated)
	}
	bundle, err := nutshell.Open(bytes.NewReader(b), int64(len(b)), nutshell.DefaultLimits())
	if err == nil {
		err = same(bundle)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	return fmt.Sprintf("%s, as the receipt says, with what the %s holds", stated, event), nil
}

// samePayload checks that the bundle of a typed job contains the request that was sent.
func (x *export) samePayload(b *nutshell.Bundle) error {
	text, err := b.ReadFile(typedRequest)
	if err != nil {
		return err
	}
	canonical, err := canon.Canonical(text)
	var e struct {
		JobType string         `json:"job_type"`
		Payload jsontext.Value `json:"payload"`
	}
	if err == nil {
		err = json.Unmarshal(canonical, &e)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", typedRequest, err)
	case e.JobType != x.receipt.Task || !bytes.Equal(e.Payload, x.request.payload):
		return fmt.Errorf("%s is another request than was sent", typedRequest)
	}
	return nil
}

// sameContent checks that the delivery has exactly one artifact, the content of the result.
func (x *export) sameContent(b *nutshell.Bundle) error {
	var artifacts []string
	for _, f := range b.Files() {
		if strings.HasPrefix(f.Path, nutshell.ArtifactsDir+"/") {
			artifacts = append(artifacts, f.Path)
		}
	}
	if len(artifacts) != 1 {
		return fmt.Errorf("%d artifacts, and the result is one", len(artifacts))
	}
	content, err := b.ReadFile(artifacts[0])
	if err == nil && string(content) != x.result.result.Content {
		err = fmt.Errorf("%s is another result than was sent", artifacts[0])
	}
	return err
}
