package config

import (
	"reflect"
	"strings"
)

// nearest returns the known key with the smallest edit distance to key.
func nearest(key string) string {
	known := leaves(reflect.TypeFor[Config](), "")
	if strings.HasPrefix(key, "services.") { // the owner chose the table's name; its keys are fixed
		known = leaves(reflect.TypeFor[Service](), key[:strings.LastIndexByte(key, '.')+1])
	}
	best, fewest := "", -1
	for _, l := range known {
		if n := edits(key, l.key); fewest < 0 || n < fewest {
			best, fewest = l.key, n
		}
	}
	return best
}

// edits returns the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
