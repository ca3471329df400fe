package oa_test

import (
	"fmt"

	"guild/nip90"
	"guild/oa"
)

func ExampleNewEnvelope() {
	e, err := oa.NewEnvelope(oa.SandboxRequest{
		Sandbox:  oa.Sandbox{ImageDigest: "sha256:abc123"},
		Commands: []oa.Command{{Cmd: "echo hello"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	var request nip90.Request
	e.AddTo(&request)
	fmt.Println(request.Kind, request.Get(nip90.ParamJobType))
	fmt.Println(request.Get(nip90.ParamJobHash))
	// Output:
	// 5050 oa.sandbox_run.v1
	// ff54dcb0dc16f4a14337948105e7a74deecfc40f73895657e157a36ba71d9522
}

func ExampleDecode() {
	r, err := oa.Decode[oa.RerankRequest]([]byte(`{"user_task":"fix the parser","candidates":[{"id":"a","content":"…"}]}`))
	fmt.Println(r.K, r.Verification.Redundancy, err)

	_, err = oa.Decode[oa.RerankRequest]([]byte(`{"user_task":"fix the parser","candidates":[{"content":"…"}],"k":"ten"}`))
	fmt.Println(err)
	// Output:
	// 10 2 <nil>
	// inputs.candidates[0].id is missing; inputs.k is a string, want an integer
}

func ExampleRerankResult_Validate() {
	request := oa.RerankRequest{K: 2, Candidates: []oa.Candidate{{ID: "a"}, {ID: "b"}}}
	result := oa.RerankResult{TopK: []oa.Ranked{{Rank: 1, ID: "b"}, {Rank: 3, ID: "c"}}}
	fmt.Println(result.Validate(request))
	// Output: outputs.topk[1].rank is 3, want 1 to 2 without gaps; outputs.topk[1].id is "c", which is not a candidate
}

func ExampleSandboxResult_Differences() {
	ours := oa.SandboxResult{Status: oa.StatusSuccess, Runs: []oa.Run{{Cmd: "go test", ExitCode: 0}}}
	theirs := oa.SandboxResult{Status: oa.StatusFailed, Runs: []oa.Run{{Cmd: "go test", ExitCode: 1}}}
	for _, d := range ours.Differences(theirs, false) {
		fmt.Println(d)
	}
	// Output:
	// outputs.status is success, and failed of the other
	// outputs.runs[0].exit_code is 0, and 1 of the other
}

func ExampleSchema_Lacks() {
	id, err := oa.ParseID("oa.embeddings.v1") // the name that other programs use
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := oa.Known().Schema(id)
	if err != nil {
		fmt.Println(err)
		return
	}
	result := []byte(`{"embeddings":[],"model_id":"m","dimensions":1,"provenance":{"model_id":"m"}}`)
	fmt.Println(s.Check(oa.Outputs, result))
	for _, l := range s.Lacks(result) {
		fmt.Println(l)
	}
	// Output:
	// <nil>
	// provenance.provider_id is missing, and required
	// provenance.token_counts is missing, and recommended
}
