package bubblewrap_test

import (
	"testing"

	"guild/internal/sandbox"
	"guild/internal/sandbox/bubblewrap"
	"guild/internal/sandbox/sandboxtest"
)

func TestBubblewrap(t *testing.T) {
	sandboxtest.Test(t, func(*testing.T) sandbox.Runner { return bubblewrap.Runner{} })
}
