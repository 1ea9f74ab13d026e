package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/host"
)

// A Mac can have made its Node before the Machine says that it is provisioned.
// When its Host is lost, and the server is found again under somebody's name, the
// Machine takes another Mac, which needs the Node's name. Another Mac's Node of
// that name is left alone.
func TestClearedHostRefDeletesTheNode(t *testing.T) {
	for _, c := range []struct {
		name, providerID string
		gone             bool
	}{
		{"its own", host.ProviderID(zone, serverID), true},
		{"another Mac's", host.ProviderID(zone, otherID), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			foreign := poolHost(serverID)
			foreign.Status.Server.Name = "somebody-else"
			w := newWorld(t, append(pair("mac-1"), foreign)...)
			w.visit("mac-1")
			m := w.machine("mac-1")
			m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "before"}
			w.update(m)
			w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: c.providerID}})
			w.settle("mac-1")
			if ref := w.machine("mac-1").Spec.HostRef; ref != nil {
				t.Errorf("the intent stands: %+v", ref)
			}
			if gone := w.gone(client.ObjectKey{Name: "mac-1"}, &corev1.Node{}); gone != c.gone {
				t.Errorf("Node gone = %t, want %t", gone, c.gone)
			}
		})
	}
}

// A Mac that was set up and did not join yet must not do so once its Machine has
// taken another (schedule seed 2112).
func TestClearedHostRefEndsTheToken(t *testing.T) {
	foreign := poolHost(serverID)
	foreign.Status.Server.Name = "somebody-else"
	w := newWorld(t, append(pair("mac-1"), foreign)...)
	w.visit("mac-1")
	m := w.machine("mac-1")
	m.Spec.HostRef = &infrav1.HostReference{Name: hostName, ClaimToken: "before"}
	w.update(m)
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host.BootstrapSecretName("mac-1")},
		Data:       map[string][]byte{host.KeyTokenID: []byte("abcdef")},
	})
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"},
		Type:       corev1.SecretTypeBootstrapToken, Data: map[string][]byte{"token-id": []byte("abcdef")},
	})
	w.settle("mac-1")
	if ref := w.machine("mac-1").Spec.HostRef; ref != nil {
		t.Fatalf("the intent stands: %+v", ref)
	}
	if ids := w.tokens(); len(ids) != 0 {
		t.Errorf("tokens %v are valid", ids)
	}
	if id := w.secret(host.BootstrapSecretName("mac-1"))[host.KeyTokenID]; id != "" {
		t.Errorf("token %s may still be asked with", id)
	}
}
