package hostclaim

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/clienttest"
	"github.com/macfleet/macfleet/internal/host"
)

const hostName = "zone-1-server"

func ours() infrav1.ClaimReference {
	return infrav1.ClaimReference{Namespace: "fleet", Name: "mac-1", UID: "uid-1", Token: "token-1"}
}

func ref() Ref { return Ref{Host: hostName, Claim: ours()} }

// claimed is a Host with our claim, changed.
func claimed(change func(h *host.Host)) *host.Host {
	h := &host.Host{ObjectMeta: metav1.ObjectMeta{Name: hostName}}
	by := ours()
	h.Spec.ClaimRef = &by
	h.Spec.Record.Bootstrap.TokenID = "abcdef"
	if change != nil {
		change(h)
	}
	return h
}

func released(policy infrav1.ReleasePolicy) func(h *host.Host) {
	return func(h *host.Host) { h.Spec.Release = &infrav1.Release{Token: "token-1", Policy: policy} }
}

// hostsOf is an API server with one Host, or none, whose updates may fail.
func hostsOf(t *testing.T, h *host.Host, update func() error) Hosts {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := clienttest.NewBuilder(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, opts ...client.UpdateOption) error {
			if update != nil {
				if err := update(); err != nil {
					return err
				}
			}
			return c.Update(ctx, object, opts...)
		},
	})
	if h != nil {
		b = b.WithObjects(h)
	}
	c := clienttest.AsServed(b.Build())
	return Hosts{Client: c, Reader: c}
}

func stored(t *testing.T, s Hosts) *host.Host {
	t.Helper()
	h := &host.Host{}
	if err := s.Reader.Get(t.Context(), client.ObjectKey{Name: hostName}, h); err != nil {
		t.Fatal(err)
	}
	return h
}

// What is recorded for one Machine must never land on a Host that is another's.
func TestAmendWritesOnlyWhereTheClaimIs(t *testing.T) {
	for name, c := range map[string]struct {
		host    *host.Host
		refuses bool
		gone    bool
		written bool
	}{
		"ours":                   {host: claimed(nil), written: true},
		"ours, before UIDs":      {host: claimed(func(h *host.Host) { h.Spec.ClaimRef.UID = "" }), written: true},
		"nothing to change":      {host: claimed(nil), refuses: true},
		"free":                   {host: claimed(func(h *host.Host) { h.Spec.ClaimRef = nil }), gone: true},
		"another token":          {host: claimed(func(h *host.Host) { h.Spec.ClaimRef.Token = "token-2" }), gone: true},
		"another namespace":      {host: claimed(func(h *host.Host) { h.Spec.ClaimRef.Namespace = "other" }), gone: true},
		"of an earlier object":   {host: claimed(func(h *host.Host) { h.Spec.ClaimRef.UID = "uid-0" }), gone: true},
		"without a token":        {host: claimed(func(h *host.Host) { h.Spec.ClaimRef.Token = "" }), gone: true},
		"released, ours as well": {host: claimed(released(infrav1.Recycle)), written: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := hostsOf(t, c.host, nil)
			h, err := s.Amend(t.Context(), ref(), func(h *host.Host) bool {
				h.Spec.AcceptSerial = "changed"
				return !c.refuses
			})
			if errors.Is(err, ErrGone) != c.gone || (err != nil) != c.gone || (h != nil) == c.gone {
				t.Errorf("host = %v, error = %v, want gone: %t", h, err, c.gone)
			}
			if written := stored(t, s).Spec.AcceptSerial == "changed"; written != c.written {
				t.Errorf("written = %t, want %t", written, c.written)
			}
		})
	}
}

// conflictOnce are Hosts of which the first write meets a conflict, with what somebody else has
// changed of the Host before.
func conflictOnce(t *testing.T, meanwhile func(*host.Host)) Hosts {
	var s Hosts
	fail := true
	s = hostsOf(t, claimed(nil), func() error {
		if !fail {
			return nil
		}
		fail = false
		h := stored(t, s)
		meanwhile(h)
		if err := s.Client.Update(t.Context(), h); err != nil {
			t.Error(err)
		}
		return apierrors.NewConflict(infrav1.GroupVersion.WithResource("hosts").GroupResource(), hostName, errors.New("stale"))
	})
	return s
}

// A conflict is tried again on a new read, in which the claim may have ended.
func TestAmendReadsAgainAfterAConflict(t *testing.T) {
	for name, lost := range map[string]bool{"still ours": false, "lost meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			s := conflictOnce(t, func(h *host.Host) {
				if lost {
					h.Spec.ClaimRef.Token = "token-2"
				}
			})
			_, err := s.Amend(t.Context(), ref(), func(h *host.Host) bool {
				h.Spec.AcceptSerial = "changed"
				return true
			})
			if errors.Is(err, ErrGone) != lost || (err != nil) != lost || (stored(t, s).Spec.AcceptSerial == "changed") == lost {
				t.Errorf("error = %v, serial = %q; lost: %t", err, stored(t, s).Spec.AcceptSerial, lost)
			}
		})
	}
}

// Of a write that failed nothing is left for the next try: a release that was never written would
// count as recorded, and a claim that has ended would be written anew.
func TestAmendForgetsAWriteThatFailed(t *testing.T) {
	for name, lost := range map[string]bool{"still ours": false, "freed meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			s := conflictOnce(t, func(h *host.Host) {
				if lost {
					h.Spec.ClaimRef = nil
				}
			})
			_, err := s.Amend(t.Context(), ref(), func(h *host.Host) bool {
				if h.Spec.Release != nil {
					return false
				}
				released(infrav1.Recycle)(h)
				return true
			})
			if errors.Is(err, ErrGone) != lost || (err != nil) != lost {
				t.Errorf("error = %v; freed: %t", err, lost)
			}
			if spec := stored(t, s).Spec; (spec.Release != nil) == lost || (spec.ClaimRef == nil) != lost {
				t.Errorf("spec = %+v; freed: %t", spec, lost)
			}
		})
	}
}

// A release is the host controller's: a claim that is taken off under it would leave a
// disk that nobody wipes.
func TestEndTakesOffOnlyOurClaim(t *testing.T) {
	for name, c := range map[string]struct {
		host  *host.Host
		ended bool
	}{
		"ours":                  {claimed(nil), true},
		"of an earlier object":  {claimed(func(h *host.Host) { h.Spec.ClaimRef.UID = "uid-0" }), true},
		"reinstalled for us":    {claimed(released(infrav1.Reinstall)), true},
		"released to the pool":  {claimed(released(infrav1.Recycle)), false},
		"released, to be given": {claimed(released(infrav1.Terminate)), false},
		"another's":             {claimed(func(h *host.Host) { h.Spec.ClaimRef.Token = "token-2" }), false},
		"free":                  {claimed(func(h *host.Host) { h.Spec.ClaimRef = nil }), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := hostsOf(t, c.host, nil)
			before := stored(t, s)
			if err := s.End(t.Context(), ref(), time.Unix(1000, 0)); err != nil {
				t.Fatal(err)
			}
			after := stored(t, s)
			if ended := before.Spec.ClaimRef != nil && after.Spec.ClaimRef == nil; ended != c.ended || (after.Spec.Record.DetachedAt != nil) != c.ended {
				t.Errorf("ended = %t, spec = %+v, want %t", ended, after.Spec, c.ended)
			}
			if !c.ended && after.ResourceVersion != before.ResourceVersion {
				t.Error("the Host was written")
			}
		})
	}
	if err := hostsOf(t, nil, nil).End(t.Context(), ref(), time.Unix(1000, 0)); err != nil {
		t.Errorf("a Host that is gone: %v", err)
	}
}

func TestTokenIDIsThatOfTheClaim(t *testing.T) {
	for name, c := range map[string]struct {
		host *host.Host
		ref  Ref
		want string
	}{
		"ours":      {claimed(nil), ref(), "abcdef"},
		"another's": {claimed(func(h *host.Host) { h.Spec.ClaimRef.Token = "token-2" }), ref(), ""},
		"no claim":  {claimed(nil), Ref{}, ""},
		"no Host":   {nil, ref(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if id, err := hostsOf(t, c.host, nil).TokenID(t.Context(), c.ref); err != nil || id != c.want {
				t.Errorf("token = %q, error = %v, want %q", id, err, c.want)
			}
		})
	}
}

func TestRefOf(t *testing.T) {
	m := &infrav1.ScalewayAppleSiliconMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "mac-1", UID: "uid-1"}}
	if got := RefOf(m); got != (Ref{}) {
		t.Errorf("without spec.hostRef: %+v", got)
	}
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "token-1"}
	if got := RefOf(m); got != ref() {
		t.Errorf("ref = %+v, want %+v", got, ref())
	}
}
