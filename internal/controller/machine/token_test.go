package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/hostclaim"
	"github.com/macfleet/macfleet/internal/machine"
)

// Whose token it is stands on the Host before the token can be used, and no longer
// than it is needed.
func TestATokenIsBoundToItsHostBeforeItExists(t *testing.T) {
	w := claimed(t)
	var bound, made string
	w.once(func(verb string, o client.Object) bool {
		return verb == "create" && o.GetNamespace() == metav1.NamespaceSystem
	}, func() {
		bound = w.host(hostName).Spec.Record.Bootstrap.TokenID
	})
	w.settle("mac-1")
	if ids := w.tokens(); len(ids) == 1 {
		made = ids[0]
	}
	if made == "" || bound != made {
		t.Fatalf("host bound to %q when token %q was made", bound, made)
	}
	w.join("mac-1")
	w.settle("mac-1")
	if bound := w.host(hostName).Spec.Record.Bootstrap.TokenID; bound != "" || len(w.tokens()) != 0 {
		t.Errorf("the host is still bound to %q, tokens %q are valid", bound, w.tokens())
	}
}

// A host that is released meanwhile is bound to no token, and none is made.
func TestAReleasedHostIsBoundToNoToken(t *testing.T) {
	w := claimed(t)
	w.once(func(verb string, o client.Object) bool {
		return verb == "update" && o.GetName() == hostName && o.(*host.Host).Spec.Record.Bootstrap.TokenID != ""
	}, func() {
		h := w.host(hostName)
		h.Spec.Release = &infrav1.Release{Token: h.Spec.ClaimRef.Token, Policy: infrav1.Recycle, PoolPrefix: poolName, RequestedAt: metav1.NowMicro()}
		w.update(h)
	})
	w.settle("mac-1")
	if bound := w.host(hostName).Spec.Record.Bootstrap.TokenID; bound != "" {
		t.Errorf("the host is bound to %q", bound)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, write := range w.writes {
		if strings.HasPrefix(write, "create bootstrap-token-") {
			t.Errorf("a token was made: %s", write)
		}
	}
}

// People of a fleet write <machine>-bootstrap: with it they end no other Mac's token,
// and what is no token at all does not hold up a deletion.
func TestASecretEndsNoTokenOfAnotherMac(t *testing.T) {
	for _, remembered := range []string{"zzzzzz", "no/token"} {
		t.Run(remembered, func(t *testing.T) {
			w := claimed(t)
			w.settle("mac-1")
			other := poolHost(otherID)
			other.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "elsewhere", Name: "mac-2", Token: "t"}
			other.Spec.Record.Bootstrap.TokenID = "zzzzzz"
			w.create(other)
			w.create(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-zzzzzz"},
				Data:       map[string][]byte{"token-id": []byte("zzzzzz")},
			})
			w.poke(host.KeyTokenID, remembered)
			w.delete(w.machine("mac-1"))
			w.settle("mac-1")
			if !w.machineGone("mac-1") {
				t.Error("the Machine is still there")
			}
			if ids := w.tokens(); len(ids) != 1 || ids[0] != "zzzzzz" {
				t.Errorf("tokens %q are valid, want that of the other Mac alone", ids)
			}
		})
	}
}

// Another manager has made a token meanwhile: ending ours leaves its binding alone.
func TestTheEndOfATokenUnbindsNoOther(t *testing.T) {
	w := claimed(t)
	bind := func(id string) {
		h := w.host(hostName)
		h.Spec.Record.Bootstrap.TokenID = id
		w.update(h)
	}
	bind("aaaaaa")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-aaaaaa"}})
	w.intrude = func(verb string, o client.Object) {
		if verb == "delete" && o.GetName() == "bootstrap-token-aaaaaa" {
			w.intrude = nil
			bind("bbbbbb")
		}
	}
	v := &visit{Snapshot: machine.Snapshot{Machine: w.machine("mac-1")}}
	if err := w.r.tokens.End(t.Context(), client.ObjectKeyFromObject(v.Machine), hostclaim.RefOf(v.Machine)); err != nil {
		t.Fatal(err)
	}
	if got := w.host(hostName).Spec.Record.Bootstrap.TokenID; got != "bbbbbb" || len(w.tokens()) != 0 {
		t.Errorf("bound is %q, tokens %v", got, w.tokens())
	}
}
