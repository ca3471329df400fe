package gowire

// The generated file foreign.go has these in place of this one.
const (
	testSide   = false
	modulePath = ""
)
