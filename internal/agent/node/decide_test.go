package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/macfleet/macfleet/internal/converge/document"
)

const ours = "scw-applesilicon://fr-par-1/0001"

func TestDecide(t *testing.T) {
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	node := func(providerID string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "mac-1"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
	}
	permit := func(left time.Duration) *document.JoinPermit {
		return &document.JoinPermit{ID: "p1", NotAfter: now.Add(left)}
	}
	for _, c := range []struct {
		name   string
		node   *corev1.Node
		permit *document.JoinPermit
		used   bool
		want   action
	}{
		{"ours", node(ours), nil, false, actionKeep},
		{"ours, with a used permit", node(ours), permit(time.Hour), true, actionKeep},
		{"nobody's", node(""), nil, false, actionClaim},
		{"another Mac's", node("scw-applesilicon://fr-par-1/0002"), permit(time.Hour), false, actionRefuse},
		{"none, permit", nil, permit(time.Minute), false, actionCreate},
		{"none, no permit", nil, nil, false, actionWait},
		{"none, permit without an id", nil, &document.JoinPermit{NotAfter: now.Add(time.Hour)}, false, actionWait},
		{"none, used permit", nil, permit(time.Hour), true, actionWait},
		{"none, permit that ends now", nil, permit(0), false, actionWait},
		{"none, permit that ended", nil, permit(-time.Second), false, actionWait},
	} {
		d := decide(c.node, ours, c.permit, c.used, now)
		if d.Action != c.want {
			t.Errorf("%s: %+v, want %s", c.name, d, c.want)
		}
		if why := d.Action == actionWait || d.Action == actionRefuse; why != (d.Why != "") {
			t.Errorf("%s: %s, why %q", c.name, d.Action, d.Why)
		}
	}
}
