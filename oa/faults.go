package oa

import (
	"fmt"
	"strconv"
	"strings"
)

// Fault is one fault of a document.
type Fault struct {
	Path string `json:"path"` // such as "inputs.candidates[3].id"
	Says string `json:"says"` // such as "is missing"
}

// String returns the path and the fault.
func (f Fault) String() string { return f.Path + " " + f.Says }

// Faults lists the faults of a document, at most MaxFaults. As an error it wraps ErrInvalid.
type Faults []Fault

// Error lists the faults.
func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, one := range f {
		texts[i] = one.String()
	}
	return strings.Join(texts, "; ")
}

// Unwrap returns ErrInvalid.
func (f Faults) Unwrap() error { return ErrInvalid }

// err returns f as an error, or nil if there is no fault.
func (f Faults) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// add appends a fault, up to MaxFaults.
func (f *Faults) add(path, format string, args ...any) {
	if len(*f) < MaxFaults {
		*f = append(*f, Fault{path, fmt.Sprintf(format, args...)})
	}
}

// member returns the path of an object's member. It quotes a name that would make the path ambiguous.
func member(path, name string) string {
	plain := strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if !plain || name == "" || len(name) > 80 {
		name = fmt.Sprintf("%.80q", name)
	}
	return path + "." + name
}

// element returns the path of an array's element.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }
