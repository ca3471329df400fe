package nip89

import "slices"

// kinds has the request kinds of tasks, by the list of kinds of NIP-90 data vending machines.
var kinds = map[string][]int{
	"text-extraction": {5000}, "extract-text": {5000}, "transcription": {5000}, "speech-to-text": {5000},
	"summarization": {5001}, "summarize": {5001}, "summary": {5001},
	"translation": {5002}, "translate": {5002},
	"text-generation": {5050}, "text": {5050}, "generate-text": {5050}, "completion": {5050}, "chat": {5050}, "writing": {5050},
	"image-generation": {5100}, "image": {5100}, "generate-image": {5100},
	"video-conversion": {5200}, "video-translation": {5201}, "video-generation": {5202, 5203},
	"text-to-speech": {5250}, "speech": {5250},
	"content-discovery": {5300}, "people-discovery": {5301}, "content-search": {5302}, "people-search": {5303},
	"event-count": {5400}, "malware-scanning": {5500}, "timestamping": {5900},
}

// KindsOf returns the request kinds of NIP-90 that are about a task, the usual one first, or nil if none is. The caller
// must not change them.
func KindsOf(task string) []int { return kinds[Word(task)] }

// HasTask reports whether a kind is one of KindsOf for any task.
func HasTask(kind int) bool {
	for _, all := range kinds {
		if slices.Contains(all, kind) {
			return true
		}
	}
	return false
}

// KindFor returns the kind in which to ask for a task, of the kinds that an announcement lists. usual is the kind of the
// task's requests elsewhere. A provider that reads bundles is asked in the usual kind, if it lists that; any other in the
// kind of NIP-90 that is about the task. Without either it is the first listed kind of a request, and usual if none is
// listed.
func KindFor(listed []int, task string, usual int, bundles bool) int {
	wanted := KindsOf(task)
	if bundles {
		wanted = append([]int{usual}, wanted...)
	} else {
		wanted = append(slices.Clip(wanted), usual)
	}
	for _, kind := range wanted {
		if slices.Contains(listed, kind) {
			return kind
		}
	}
	if i := slices.IndexFunc(listed, func(kind int) bool { return 5000 <= kind && kind < 6000 }); i >= 0 {
		return listed[i]
	}
	return usual
}

// isIn returns a function that reports whether a list contains a kind.
func isIn(list []int) func(int) bool {
	return func(kind int) bool { return slices.Contains(list, kind) }
}
