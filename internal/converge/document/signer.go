package document

import (
	"crypto/ed25519"
	"log/slog"
	"time"
)

// maxAhead is how far above the signer's clock a Mac's counter is followed. What a
// Mac says of it is not to be trusted: whoever answered for one with the highest
// number there is would have the Mac refuse all that comes after.
const maxAhead = 100 * 365 * 24 * time.Hour

// Signer signs what one Mac is told in one install epoch. It never prints its key,
// and may be used by one at a time.
type Signer struct {
	key  ed25519.PrivateKey
	host Host
	now  func() time.Time
	last int64
}

// NewSigner returns a Signer for the Mac that host names. Counters are microseconds
// since 1970 by now, so that they grow from one manager to the next without a record.
func NewSigner(key ed25519.PrivateKey, host Host, now func() time.Time) *Signer {
	return &Signer{key: key, host: host, now: now}
}

// String shows nothing of the key.
func (*Signer) String() string { return "signer of instructions" }

// GoString shows nothing of the key.
func (s *Signer) GoString() string { return s.String() }

// LogValue shows nothing of the key.
func (s *Signer) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Converge signs a desired document.
func (s *Signer) Converge(d Desired) ([]byte, error) {
	d.Schema = DesiredSchema
	return s.sign(Instruction{Verb: VerbConverge, Desired: &d})
}

// Upgrade signs that the Mac takes the staged build of that SHA-256.
func (s *Signer) Upgrade(build string) ([]byte, error) {
	return s.sign(Instruction{Verb: VerbUpgrade, Build: build})
}

// Leave signs that the agent is stopped and its credentials are removed.
func (s *Signer) Leave() ([]byte, error) { return s.sign(Instruction{Verb: VerbLeave}) }

// Uninstall signs that what converge did is taken back.
func (s *Signer) Uninstall() ([]byte, error) { return s.sign(Instruction{Verb: VerbUninstall}) }

// Follow has the next counters be above the Mac's, where a clock went back: one of
// this manager, or of one before it. It reports whether that is of use.
func (s *Signer) Follow(counter int64) bool {
	if counter < s.last || counter > s.now().Add(maxAhead).UnixMicro() {
		return false
	}
	s.last = counter
	return true
}

func (s *Signer) sign(i Instruction) ([]byte, error) {
	s.last = max(s.now().UnixMicro(), s.last+1)
	i.Name, i.ProviderID, i.Epoch, i.Counter = s.host.Name, s.host.ProviderID, s.host.Epoch, s.last
	return encodeSigned(s.key, i)
}
