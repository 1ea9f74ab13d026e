package bootstrapsecret

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// mirror of a host's record, as text.
type mirror struct{ hostKey, hardware, attempts, failures string }

// What the API takes of a Host's record. Fleet authors may write the Secret that a
// record is rebuilt from: what the API would refuse is left out, or the claim of the
// Machine, and with it its deletion, would fail for good.
const (
	maxAlgorithm = 64
	maxDigest    = 128
	// maxEpoch is far from both what a Mac lives to see and an overflow.
	maxEpoch = 1 << 40
	// maxPasswordAttempts is the API's limit; the oldest are forgotten first, which
	// is safe since they belong to former epochs.
	maxPasswordAttempts = 16
)

// Restore rebuilds the record of a Host that was lost, if the Secret is of the claim
// with this token: the epoch, its pinned key, and the passwords that had their attempt.
func (c Content) Restore(record *infrav1.HostRecord, token string) {
	if c.ClaimToken != token {
		return
	}
	if c.Epoch >= 0 && c.Epoch <= maxEpoch {
		record.InstallEpoch = c.Epoch
	}
	if algorithm, sum, ok := strings.Cut(c.mirror.hostKey, " "); ok && len(algorithm) <= maxAlgorithm && len(sum) <= maxDigest {
		record.HostKey = &infrav1.HostKey{Algorithm: algorithm, SHA256: sum, Epoch: record.InstallEpoch}
	}
	if hardware := parseHardware(c.mirror.hardware); record.Hardware == nil && hardware != nil && len(hardware.Serial) <= host.MaxIdentity && len(hardware.PlatformUUID) <= host.MaxIdentity {
		record.Hardware = hardware
	}
	var attempts []infrav1.PasswordAttempt
	if json.Unmarshal([]byte(c.mirror.attempts), &attempts) == nil {
		record.PasswordAttempts = LastAttempts(slices.DeleteFunc(attempts, func(a infrav1.PasswordAttempt) bool {
			return a.Digest == "" || len(a.Digest) > maxDigest || a.At.IsZero() || a.Epoch < 0 || a.Epoch > maxEpoch
		}))
	}
	if failures, err := strconv.ParseInt(c.mirror.failures, 10, 32); err == nil {
		record.Bootstrap.Attempts = max(0, int32(failures))
	}
}

// LastAttempts are those that the API has room for.
func LastAttempts(attempts []infrav1.PasswordAttempt) []infrav1.PasswordAttempt {
	return attempts[max(0, len(attempts)-maxPasswordAttempts):]
}

// FormatHostKey is the value of the key host-key.
func FormatHostKey(key infrav1.HostKey) string { return key.Algorithm + " " + key.SHA256 }

// FormatHardware is the value of the key hardware.
func FormatHardware(h infrav1.HostHardware) string { return h.Serial + " " + h.PlatformUUID }

func parseHardware(text string) *infrav1.HostHardware {
	serial, platformUUID, ok := strings.Cut(text, " ")
	if !ok || serial == "" && platformUUID == "" {
		return nil
	}
	return &infrav1.HostHardware{Serial: serial, PlatformUUID: platformUUID}
}
