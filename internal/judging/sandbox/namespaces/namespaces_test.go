package namespaces_test

import (
	"testing"

	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces"
	"guild/internal/judging/sandbox/sandboxtest"
)

func TestNamespaces(t *testing.T) {
	sandboxtest.Test(t, func(*testing.T) sandbox.Runner { return &namespaces.Runner{} })
}
