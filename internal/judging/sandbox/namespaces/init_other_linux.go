//go:build linux && !amd64 && !arm64

package namespaces

var initProgram []byte
