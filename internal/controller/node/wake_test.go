package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/macfleet/macfleet/internal/host"
)

// Nothing else looks at a Node again once it was left for its claim's sake.
func TestTheEndOfAClaimWakesItsNode(t *testing.T) {
	for name, c := range map[string]struct {
		before, now *host.Host // now is nil where the Host is deleted
		woken       bool
	}{
		"it ends":                  {sash(claim), sash(), true},
		"it is released":           {sash(claim), sash(release), true},
		"its release ends":         {sash(release), sash(claim), true},
		"it goes with its Host":    {sash(claim), nil, true},
		"it goes on":               {sash(claim), sash(claim), false},
		"there was none":           {sash(), sash(claim), false},
		"the Host goes without it": {sash(), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer q.ShutDown()
			if c.now == nil {
				claimEnds().Delete(t.Context(), event.DeleteEvent{Object: c.before}, q)
			} else {
				claimEnds().Update(t.Context(), event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.now}, q)
			}
			if !c.woken {
				if q.Len() != 0 {
					t.Error("its Node is woken")
				}
				return
			}
			if q.Len() != 1 {
				t.Fatal("nobody is woken")
			}
			if request, _ := q.Get(); request.NamespacedName != (client.ObjectKey{Name: "mac-1"}) {
				t.Errorf("woken is %s", request)
			}
		})
	}
}

func TestWhatWakesANode(t *testing.T) {
	update := func(now *corev1.Node) bool {
		return identifies().Update(event.UpdateEvent{ObjectOld: node(), ObjectNew: now})
	}
	for name, now := range map[string]*corev1.Node{
		"another Mac":     node(bare),
		"another label":   node(func(n *corev1.Node) { n.Labels = map[string]string{"kubernetes.io/os": "darwin"} }),
		"another version": node(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.4-macfleet" }),
	} {
		if !update(now) {
			t.Errorf("%s does not wake it", name)
		}
	}
	if update(node(func(n *corev1.Node) { n.Annotations = map[string]string{"beat": "1"} })) {
		t.Error("a heartbeat wakes it")
	}
	if !identifies().Delete(event.DeleteEvent{Object: node()}) {
		t.Error("that it is gone wakes nobody: when it was first seen alone is never forgotten")
	}
	if m := machine(); ends().Create(event.CreateEvent{Object: m}) || ends().Update(event.UpdateEvent{ObjectOld: m, ObjectNew: m}) || !ends().Delete(event.DeleteEvent{Object: m}) {
		t.Error("a Machine wakes its Node when it goes, and only then")
	}
}
