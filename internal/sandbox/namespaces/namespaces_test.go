package namespaces_test

import (
	"testing"

	"guild/internal/sandbox"
	"guild/internal/sandbox/namespaces"
	"guild/internal/sandbox/sandboxtest"
)

func TestNamespaces(t *testing.T) {
	sandboxtest.Test(t, func(*testing.T) sandbox.Runner { return &namespaces.Runner{} })
}
