package oa

import (
	"maps"
	"math"
	"slices"
)

// SameVector is the least Cosine at which two vectors count as the same embedding by one model.
const SameVector = 0.999

// Cosine returns the cosine of the angle between two vectors, -1 to 1. It returns 0 if the lengths differ or a vector
// is all zeros or not finite.
func Cosine(a, b []float32) float64 {
	if len(a) != len(b) {
		return 0
	}
	var dot, aa, bb float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb = dot+x*y, aa+x*x, bb+y*y
	}
	cosine := dot / (math.Sqrt(aa) * math.Sqrt(bb))
	if math.IsNaN(cosine) || math.IsInf(cosine, 0) {
		return 0
	}
	return max(-1, min(1, cosine))
}

// Differences lists the objective differences between two results of one request: the status, the exit codes and the
// hashes and sizes of the artifacts, and, if outputs is true, the hashes of what the commands wrote. It lists at most
// MaxFaults. Paths and first values are those of r; of hashes only the beginning is given.
//
// If a command may fail without stopping the others, the specification leaves open whether such a run is success or
// failed. So these two statuses with equal exit codes are not a difference.
func (r SandboxResult) Differences(other SandboxResult, outputs bool) Faults {
	var f Faults
	ran := func(s Status) bool { return s == StatusSuccess || s == StatusFailed }
	if r.Status != other.Status && !(ran(r.Status) && ran(other.Status) && slices.Equal(r.exitCodes(), other.exitCodes())) {
		f.add("outputs.status", "is %s, and %s of the other", r.Status, other.Status)
	}
	if len(r.Runs) != len(other.Runs) {
		f.add("outputs.runs", "has %d elements, and %d of the other", len(r.Runs), len(other.Runs))
	}
	for i := range min(len(r.Runs), len(other.Runs)) {
		a, b, at := r.Runs[i], other.Runs[i], element("outputs.runs", i)
		if a.ExitCode != b.ExitCode {
			f.add(at+".exit_code", "is %d, and %d of the other", a.ExitCode, b.ExitCode)
		}
		if outputs && a.StdoutSHA256 != b.StdoutSHA256 {
			f.add(at+".stdout_sha256", "is %.8s…, and %.8s… of the other", a.StdoutSHA256.Hex(), b.StdoutSHA256.Hex())
		}
		if outputs && a.StderrSHA256 != b.StderrSHA256 {
			f.add(at+".stderr_sha256", "is %.8s…, and %.8s… of the other", a.StderrSHA256.Hex(), b.StderrSHA256.Hex())
		}
	}
	ours, theirs := artifacts(r), artifacts(other)
	for _, name := range slices.Sorted(maps.Keys(ours)) {
		b, there := theirs[name]
		switch {
		case !there:
			f.add(member("outputs.artifacts", name), "is only here")
		case b.SHA256 != ours[name].SHA256:
			f.add(member("outputs.artifacts", name), "is %.8s…, and %.8s… of the other", ours[name].SHA256.Hex(), b.SHA256.Hex())
		case b.SizeBytes != ours[name].SizeBytes:
			f.add(member("outputs.artifacts", name), "has %d bytes, and %d of the other", ours[name].SizeBytes, b.SizeBytes)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if _, there := ours[name]; !there {
			f.add(member("outputs.artifacts", name), "is only of the other")
		}
	}
	return f
}

// exitCodes returns the exit codes of all runs, in order.
func (r SandboxResult) exitCodes() (codes []int) {
	for _, run := range r.Runs {
		codes = append(codes, run.ExitCode)
	}
	return codes
}

// artifacts returns a result's artifacts by path.
func artifacts(r SandboxResult) map[string]Artifact {
	all := map[string]Artifact{}
	for _, a := range r.Artifacts {
		all[a.Path] = a
	}
	return all
}
