package accept

import "bytes"

const maxOutput = 256 << 10

// bounded keeps the first bytes and swallows the rest, so that a talkative command is not
// broken off.
type bounded struct{ buf bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	b.buf.Write(p[:min(len(p), max(0, maxOutput-b.buf.Len()))])
	return len(p), nil
}
