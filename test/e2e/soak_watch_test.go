package e2e

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/macfleet/macfleet/sandbox/scaleway"
	"github.com/macfleet/macfleet/sandbox/world"
)

// watch looks each second whose the Macs are, as the vendor's names, its counts of installations and the Nodes tell.
type watch struct {
	f     *fleet
	end   context.CancelFunc
	ended chan struct{}
	lives map[string]tenancy
	told  map[string]bool
}

// tenancy is since which installation somebody's name is on a server.
type tenancy struct {
	name     string
	installs int
}

func newWatch(f *fleet) *watch {
	ctx, end := context.WithCancel(f.Context())
	w := &watch{f: f, end: end, ended: make(chan struct{}), lives: map[string]tenancy{}, told: map[string]bool{}}
	f.Cleanup(w.stop)
	go func() {
		defer close(w.ended)
		everySecond(ctx, func() { w.look(ctx) })
	}()
	return w
}

func (w *watch) stop() {
	w.end()
	<-w.ended
}

func (w *watch) look(ctx context.Context) {
	for _, server := range w.f.world.Vendor().Servers() {
		if was, known := w.lives[server.ID]; known && dirty(was, server) {
			w.f.Errorf("server %s went from %s to %s with the disk of installation %d", server.ID, was.name, server.Name, server.Installs)
		}
		if w.lives[server.ID].name != server.Name {
			w.lives[server.ID] = tenancy{server.Name, server.Installs}
		}
	}
	var nodes corev1.NodeList
	if w.f.client.List(ctx, &nodes) != nil {
		return // the next look sees it
	}
	owner := map[string]string{}
	for _, n := range nodes.Items {
		if other, taken := owner[n.Spec.ProviderID]; taken && n.Spec.ProviderID != "" && !w.told[n.Name] {
			w.told[n.Name] = true
			w.f.Errorf("Nodes %s and %s are one Mac: %s", other, n.Name, n.Spec.ProviderID)
		}
		owner[n.Spec.ProviderID] = n.Name
	}
}

// dirty: a server has another name than its Machine's, and the disk that this Machine had.
func dirty(was tenancy, now scaleway.Server) bool {
	ours := !strings.HasPrefix(was.name, world.PoolPrefix) && was.name != theirs
	return ours && now.Name != was.name && now.Name != theirs && now.Installs <= was.installs
}
