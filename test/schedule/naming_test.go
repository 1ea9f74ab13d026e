package schedule

import (
	"net/http"
	"strings"

	"github.com/macfleet/macfleet/internal/host"
)

// naming checks that a server which a manager is about to change bears a name that
// lets it: its claim's, or the pool's. One that got another name within the grace
// may still be taken for what it was.
func (s *sim) naming(h *host.Host, method, verb string, asks wish) {
	server, exists := s.vendor.Server(h.Spec.ServerID)
	if at, changed := s.renamed[server.ID]; !exists || changed && s.clock.Since(at) <= grace {
		return
	}
	claim := h.Spec.ClaimRef
	own := claim != nil && server.Name == claim.Name
	switch {
	case verb == "reboot" && (claim == nil || own):
	case verb == "reboot":
		s.violate("reboot of %s, whose server is named %s", h.Name, server.Name)
	case h.Spec.Adopt != nil && asks.Name != "":
	case !own && !host.InPool(server.Name, server.ID, poolPrefix):
		s.violate("%s %s of %s, whose server is named %s", method, verb, h.Name, server.Name)
	}
}

// noteName remembers when a server's name changed.
func (s *sim) noteName(id, was string) {
	if server, exists := s.vendor.Server(id); exists && server.Name != was {
		s.renamed[id] = s.clock.Now()
		delete(s.abandoned, id)
	}
}

// nameOf is a server's name now, where the request is one about a server.
func (s *sim) nameOf(r *http.Request) (id, name string) {
	id, _, _ = strings.Cut(strings.TrimPrefix(lastPart(r.URL.Path), "servers/"), "/")
	server, _ := s.vendor.Server(id)
	return id, server.Name
}
