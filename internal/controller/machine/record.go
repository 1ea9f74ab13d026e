package machine

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

// maxPasswordAttempts is the API's limit; the oldest are forgotten first, which
// is safe since they belong to former epochs.
const maxPasswordAttempts = 16

// errClaimGone says that the host does not carry our claim (any more).
var errClaimGone = errors.New("the host does not carry this Machine's claim")

// amendHost changes a host that carries the claim, under its resourceVersion
// and on an uncached read. A change that returns false writes nothing.
func (r *Reconciler) amendHost(ctx context.Context, name string, claim infrav1.ClaimReference, change func(*host.Host) bool) (*host.Host, error) {
	h := &host.Host{}
	var last error
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		last = r.amendOnce(ctx, h, client.ObjectKey{Name: name}, claim, change)
		return last
	})
	if err == nil {
		err = last // a cancelled call is taken for the end of the retries, and forgotten
	}
	if err != nil {
		return nil, fmt.Errorf("recording on host %s: %w", name, err)
	}
	return h, nil
}

func (r *Reconciler) amendOnce(ctx context.Context, h *host.Host, key client.ObjectKey, claim infrav1.ClaimReference, change func(*host.Host) bool) error {
	if err := r.Reader.Get(ctx, key, h); err != nil {
		return err
	}
	if !host.Holds(h, claim) {
		return errClaimGone
	}
	if !change(h) {
		return nil
	}
	return r.Client.Update(ctx, h)
}

// ledger records what a job is about to do, on the host and mirrored into the
// Machine's Secret, before it does it.
type ledger struct {
	r       *Reconciler
	machine client.ObjectKey
	host    string
	claim   infrav1.ClaimReference
	epoch   int64
	// seeds key the digests of passwords: new ones are made with the first.
	seeds [][]byte
}

// pin records the host key that was seen first in this epoch.
func (l ledger) pin(ctx context.Context, key infrav1.HostKey) error {
	key.Epoch = l.epoch
	h, err := l.r.amendHost(ctx, l.host, l.claim, func(h *host.Host) bool {
		known := h.Spec.Record.HostKey
		if known != nil && known.Epoch == l.epoch {
			return false
		}
		h.Spec.Record.HostKey = &key
		return true
	})
	if err != nil {
		return err
	}
	if known := h.Spec.Record.HostKey; known.Algorithm != key.Algorithm || known.SHA256 != key.SHA256 {
		return &Failure{Step: "dial", Class: "human", Reason: infrav1.ReasonHostKeyMismatch, Err: errors.New("another host key was pinned in this install epoch")}
	}
	return l.r.patchStaged(ctx, l.machine, map[string]*string{host.KeyHostKey: ptr.To(formatHostKey(key))})
}

// spend records the one attempt that a password has in an epoch. It returns
// false when that attempt was made already. The mirror comes first: an attempt
// that is on the host counts as made, also if nothing was sent.
func (l ledger) spend(ctx context.Context, password cloud.Password) (bool, error) {
	var digests []string
	for _, seed := range l.seeds {
		digests = append(digests, passwordDigest(seed, password))
	}
	h := &host.Host{}
	if err := l.r.Reader.Get(ctx, client.ObjectKey{Name: l.host}, h); err != nil {
		return false, fmt.Errorf("reading host %s: %w", l.host, err)
	}
	if tried(h.Spec.Record.PasswordAttempts, l.epoch, digests) {
		return false, nil
	}
	attempt := infrav1.PasswordAttempt{Epoch: l.epoch, Digest: digests[0], At: metav1.NewMicroTime(l.r.Clock.Now())}
	mirror, err := json.Marshal(lastAttempts(append(h.Spec.Record.PasswordAttempts, attempt)))
	if err != nil {
		return false, fmt.Errorf("encoding password attempts: %w", err)
	}
	if err := l.r.patchStaged(ctx, l.machine, map[string]*string{host.KeyPasswordAttempts: ptr.To(string(mirror))}); err != nil {
		return false, err
	}
	fresh := false
	_, err = l.r.amendHost(ctx, l.host, l.claim, func(h *host.Host) bool {
		fresh = !tried(h.Spec.Record.PasswordAttempts, l.epoch, digests)
		if fresh {
			h.Spec.Record.PasswordAttempts = lastAttempts(append(h.Spec.Record.PasswordAttempts, attempt))
		}
		return fresh
	})
	return err == nil && fresh, err
}

func tried(attempts []infrav1.PasswordAttempt, epoch int64, digests []string) bool {
	for _, attempt := range attempts {
		if attempt.Epoch == epoch && slices.Contains(digests, attempt.Digest) {
			return true
		}
	}
	return false
}

func lastAttempts(attempts []infrav1.PasswordAttempt) []infrav1.PasswordAttempt {
	return attempts[max(0, len(attempts)-maxPasswordAttempts):]
}

// passwordSeed keys the digests of passwords: hosts can be read by many, and a
// plain hash of a vendor's password could be searched for.
func passwordSeed(privateKey []byte) []byte {
	mac := hmac.New(sha256.New, privateKey)
	mac.Write([]byte("macfleet password attempts"))
	return mac.Sum(nil)
}

func passwordDigest(seed []byte, password cloud.Password) string {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(password.Reveal()))
	return hex.EncodeToString(mac.Sum(nil))
}

func formatHostKey(key infrav1.HostKey) string { return key.Algorithm + " " + key.SHA256 }

// What the API takes of a Host's record. Fleet authors may write the Secret that a
// record is rebuilt from: what the API would refuse is left out, or the claim of the
// Machine, and with it its deletion, would fail for good.
const (
	maxAlgorithm = 64
	maxDigest    = 128
	// maxEpoch is far from both what a Mac lives to see and an overflow.
	maxEpoch = 1 << 40
)

// restore rebuilds the record of a Host that was lost, from the Machine's
// Secret: the epoch, its pinned key, and the passwords that had their attempt.
func restore(record *infrav1.HostRecord, s staged, token string) {
	if s.claimToken != token {
		return
	}
	if s.epoch >= 0 && s.epoch <= maxEpoch {
		record.InstallEpoch = s.epoch
	}
	if algorithm, sum, ok := strings.Cut(s.hostKey, " "); ok && len(algorithm) <= maxAlgorithm && len(sum) <= maxDigest {
		record.HostKey = &infrav1.HostKey{Algorithm: algorithm, SHA256: sum, Epoch: record.InstallEpoch}
	}
	if hardware := parseHardware(s.hardware); record.Hardware == nil && hardware != nil && len(hardware.Serial) <= host.MaxIdentity && len(hardware.PlatformUUID) <= host.MaxIdentity {
		record.Hardware = hardware
	}
	var attempts []infrav1.PasswordAttempt
	if json.Unmarshal([]byte(s.attempts), &attempts) == nil {
		record.PasswordAttempts = lastAttempts(slices.DeleteFunc(attempts, func(a infrav1.PasswordAttempt) bool {
			return a.Digest == "" || len(a.Digest) > maxDigest || a.At.IsZero() || a.Epoch < 0 || a.Epoch > maxEpoch
		}))
	}
	if failures, err := strconv.ParseInt(s.failures, 10, 32); err == nil {
		record.Bootstrap.Attempts = max(0, int32(failures))
	}
}
