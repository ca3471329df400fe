package sandbox

// Head is a writer that keeps the first Most bytes and discards the rest. It never fails.
type Head struct {
	Most int
	kept []byte
}

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	h.kept = append(h.kept, p[:min(len(p), max(0, h.Most-len(h.kept)))]...)
	return len(p), nil
}

// Bytes returns the bytes that were kept.
func (h *Head) Bytes() []byte { return h.kept }

// String returns the text that was kept.
func (h *Head) String() string { return string(h.kept) }
