package scaleway

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// Rights are what a secret key may do with servers and SSH keys.
type Rights string

// Which of the first two losses the real vendor shows is not known.
const (
	// FullRights is the default.
	FullRights Rights = ""
	// EmptyLists answers lists with none, and everything else with 403.
	EmptyLists Rights = "empty-lists"
	// NoRights answers everything with 403.
	NoRights Rights = "none"
	// ReadOnly answers writes with 403.
	ReadOnly Rights = "read-only"
)

// SetRights changes the rights of a secret key, as a change of policy does.
func (g *gateway) SetRights(secretKey string, rights Rights) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rights[secretKey] = rights
}

// forbidden is the answer to a call that its key has no right to.
func (g *gateway) forbidden(r *http.Request, c *call) (reply, bool) {
	rights := g.rights[r.Header.Get("X-Auth-Token")]
	servers := slices.ContainsFunc([]string{"/servers", "/connectivity-diagnostics", "/server-private-networks", "/runners"},
		func(part string) bool { return strings.Contains(r.URL.Path, part) })
	if rights == FullRights || !servers && !strings.HasPrefix(r.URL.Path, iamPath) {
		return reply{}, false
	}
	action := map[string]string{http.MethodGet: "read", http.MethodDelete: "delete"}[r.Method]
	action = cmp.Or(action, "write")
	switch {
	case rights == ReadOnly && action == "read",
		rights == EmptyLists && (c.name == "ListServerPrivateNetworks" || c.name == "ListRunners"):
		return reply{}, false
	case rights == EmptyLists && c.name == "ListServers":
		return ok(serverListBody{Servers: []serverBody{}}), true
	case rights == EmptyLists && c.name == "ListSSHKeys":
		return ok(sshKeyListBody{SSHKeys: []sshKeyBody{}}), true
	}
	return permissionsDenied(action), true
}
