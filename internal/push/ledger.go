package push

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/bootstrapsecret"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
)

// pin records the host key that was seen first in this epoch, and, in the same write,
// what the Mac is about to be told of its Node: no Node may bear what is on no record.
func (p push) pin(ctx context.Context, key infrav1.HostKey) error {
	key.Epoch = p.Epoch
	h, err := p.Hosts.Amend(ctx, p.Claim, func(h *host.Host) bool {
		more := host.NoteRegistration(h, p.Registration)
		known := h.Spec.Record.HostKey
		if known != nil && known.Epoch == p.Epoch {
			return more
		}
		h.Spec.Record.HostKey = &key
		return true
	})
	if err != nil {
		return err
	}
	if known := h.Spec.Record.HostKey; known.Algorithm != key.Algorithm || known.SHA256 != key.SHA256 {
		return &Failure{Step: StepDial, Class: document.Human, Reason: infrav1.ReasonHostKeyMismatch, Err: errors.New("another host key was pinned in this install epoch")}
	}
	return p.Secrets.Patch(ctx, p.Machine, map[string]*string{host.KeyHostKey: ptr.To(bootstrapsecret.FormatHostKey(key))})
}

// spend records the one attempt that a password has in an epoch. It returns
// false when that attempt was made already. The mirror comes first: an attempt
// that is on the host counts as made, also if nothing was sent.
func (p push) spend(ctx context.Context, password cloud.Password) (bool, error) {
	var digests []string
	for _, seed := range p.Seeds {
		digests = append(digests, passwordDigest(seed, password))
	}
	h := &host.Host{}
	if err := p.Hosts.Reader.Get(ctx, client.ObjectKey{Name: p.Claim.Host}, h); err != nil {
		return false, fmt.Errorf("reading host %s: %w", p.Claim.Host, err)
	}
	if tried(h.Spec.Record.PasswordAttempts, p.Epoch, digests) {
		return false, nil
	}
	attempt := infrav1.PasswordAttempt{Epoch: p.Epoch, Digest: digests[0], At: metav1.NewMicroTime(p.Clock.Now())}
	mirror, err := json.Marshal(bootstrapsecret.LastAttempts(append(h.Spec.Record.PasswordAttempts, attempt)))
	if err != nil {
		return false, fmt.Errorf("encoding password attempts: %w", err)
	}
	if err := p.Secrets.Patch(ctx, p.Machine, map[string]*string{host.KeyPasswordAttempts: ptr.To(string(mirror))}); err != nil {
		return false, err
	}
	fresh := false
	_, err = p.Hosts.Amend(ctx, p.Claim, func(h *host.Host) bool {
		fresh = !tried(h.Spec.Record.PasswordAttempts, p.Epoch, digests)
		if fresh {
			h.Spec.Record.PasswordAttempts = bootstrapsecret.LastAttempts(append(h.Spec.Record.PasswordAttempts, attempt))
		}
		return fresh
	})
	return err == nil && fresh, err
}

func tried(attempts []infrav1.PasswordAttempt, epoch int64, digests []string) bool {
	return slices.ContainsFunc(attempts, func(a infrav1.PasswordAttempt) bool {
		return a.Epoch == epoch && slices.Contains(digests, a.Digest)
	})
}

func passwordDigest(seed []byte, password cloud.Password) string {
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte(password.Reveal()))
	return hex.EncodeToString(mac.Sum(nil))
}

// recordHardware records which Mac answers, on the host and in its mirror, or refuses
// another than the known one.
func (p push) recordHardware(ctx context.Context, seen infrav1.HostHardware) error {
	var refused error
	h, err := p.Hosts.Amend(ctx, p.Claim, func(h *host.Host) bool {
		var now *infrav1.HostHardware
		if now, refused = host.Recognize(h, seen); refused != nil {
			return false
		}
		known := h.Spec.Record.Hardware
		if now == nil || known != nil && *known == *now && h.Spec.AcceptSerial == "" {
			return false
		}
		h.Spec.Record.Hardware, h.Spec.AcceptSerial = now, remainingAcceptSerial(h.Spec.AcceptSerial, now.Serial)
		return true
	})
	if err = cmp.Or(err, refused); err != nil || h.Spec.Record.Hardware == nil {
		return err
	}
	return p.Secrets.Patch(ctx, p.Machine, map[string]*string{host.KeyHardware: ptr.To(bootstrapsecret.FormatHardware(*h.Spec.Record.Hardware))})
}

// remainingAcceptSerial is what remains of spec.acceptSerial once a Mac has answered.
func remainingAcceptSerial(accept, serial string) string {
	if accept == serial {
		return ""
	}
	return accept
}
