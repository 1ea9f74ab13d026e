// Package cloudtest is an in-memory vendor for tests of controllers: it keeps
// servers, remembers calls, and fails where it is told to. It models no times and
// no paging; what Scaleway does is left to the tests against the simulated vendor.
package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/macfleet/macfleet/internal/cloud"
)

// Call is one call of the vendor, in order from 0.
type Call struct {
	Index  int
	Name   string // the method's
	Server string // the server's id, or empty
	Arg    string // the new name or the image
}

// Mutating reports a call that changes a server.
func (c Call) Mutating() bool {
	switch c.Name {
	case "RenameServer", "ReinstallServer", "DeleteServer", "RebootServer", "CreateServer":
		return true
	}
	return false
}

// String is the call's name with its argument.
func (c Call) String() string { return strings.TrimSpace(c.Name + " " + c.Arg) }

// Fault decides how a call fails: before its effect, or after it. Nil is not at all.
type Fault func(Call) (before, after error)

// Cloud is the vendor. Its zero value has no servers and no faults.
type Cloud struct {
	// Fault is asked at each call.
	Fault Fault
	// OnCall runs within each call after its effect, for what others do meanwhile:
	// a reading was taken before it and is answered after it, as a slow one is.
	// It may use the Set methods.
	OnCall func(Call)
	// Images that FindOS knows, by family.
	Images map[string]cloud.OS
	// Types that can be ordered.
	Types []cloud.ServerType
	// Unlisted are servers, by id, that lists miss though they are there.
	Unlisted map[string]bool
	// Floor makes deletions schedule: before it no server can go.
	Floor bool
	// Diagnostic is what the vendor finds out about any server.
	Diagnostic cloud.Diagnostic

	mu        sync.Mutex
	servers   map[string]cloud.Server
	passwords map[string]string
	calls     []Call
	keys      []cloud.SSHKey
	stale     map[string]cloud.Server
	created   int
}

var _ cloud.Cloud = (*Cloud)(nil)

// Set puts a server there, or changes it.
func (c *Cloud) Set(server cloud.Server, password string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.servers == nil {
		c.servers, c.passwords = map[string]cloud.Server{}, map[string]string{}
	}
	c.servers[server.ID], c.passwords[server.ID] = server, password
}

// Change edits a server that is there.
func (c *Cloud) Change(id string, change func(*cloud.Server)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server := c.servers[id]
	change(&server)
	c.servers[id] = server
}

// Freeze makes all readings show the server as it is now, until Thaw: a vendor's
// readings may lag behind its writes.
func (c *Cloud) Freeze(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stale == nil {
		c.stale = map[string]cloud.Server{}
	}
	c.stale[id] = c.servers[id]
}

// Thaw makes readings show the server as it is again.
func (c *Cloud) Thaw(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.stale, id)
}

// shown is what a reading says of a server.
func (c *Cloud) shown(server cloud.Server) cloud.Server {
	if stale, ok := c.stale[server.ID]; ok {
		return stale
	}
	return server
}

// Remove takes a server away, as a person does in the vendor's console.
func (c *Cloud) Remove(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.servers, id)
}

// Server returns a server as it is now.
func (c *Cloud) Server(id string) (cloud.Server, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	server, ok := c.servers[id]
	return server, ok
}

// Calls returns the calls so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Forget drops the calls so far.
func (c *Cloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

// Err is a vendor error of a kind.
func Err(kind cloud.Kind) error { return &cloud.Error{Kind: kind, Doing: "test"} }

// do records a call and runs its effect between its faults.
func (c *Cloud) do(ctx context.Context, name, server, arg string, effect func() error) error {
	c.mu.Lock()
	call := Call{Index: len(c.calls), Name: name, Server: server, Arg: arg}
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	// All takes no time here: only a busy machine lets a deadline pass.
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return &cloud.Error{Kind: cloud.KindUnavailable, Doing: name, Err: err}
	}
	var before, after error
	if c.Fault != nil {
		before, after = c.Fault(call)
	}
	if before != nil {
		return before
	}
	c.mu.Lock()
	err := effect()
	c.mu.Unlock()
	if c.OnCall != nil {
		c.OnCall(call)
	}
	if after != nil {
		return after
	}
	return err
}

// on runs an effect on a server; one that is not there is forbidden, as in life.
func (c *Cloud) on(id string, effect func(*cloud.Server) error) func() error {
	return func() error {
		server, ok := c.servers[id]
		if !ok {
			return Err(cloud.KindForbidden)
		}
		err := effect(&server)
		c.servers[id] = server
		return err
	}
}

// CheckAccess always works, but for faults.
func (c *Cloud) CheckAccess(ctx context.Context, zone string) error {
	return c.do(ctx, "CheckAccess", "", zone, func() error { return nil })
}

// ListServers returns the zone's servers by id.
func (c *Cloud) ListServers(ctx context.Context, zone string) ([]cloud.Server, error) {
	var out []cloud.Server
	err := c.do(ctx, "ListServers", "", zone, func() error {
		for _, server := range c.servers {
			if server.Zone == zone && !c.Unlisted[server.ID] {
				out = append(out, c.shown(server))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b cloud.Server) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// GetServer returns a server and its password.
func (c *Cloud) GetServer(ctx context.Context, _, id string) (cloud.Server, cloud.Credentials, error) {
	var server cloud.Server
	var credentials cloud.Credentials
	err := c.do(ctx, "GetServer", id, "", c.on(id, func(s *cloud.Server) error {
		server, credentials.SSHUser = c.shown(*s), s.SSHUser
		credentials.Password, _ = cloud.NewPassword(c.passwords[id])
		return nil
	}))
	if err != nil {
		return cloud.Server{}, cloud.Credentials{}, err
	}
	return server, credentials, nil
}

// RenameServer names a server.
func (c *Cloud) RenameServer(ctx context.Context, _, id, name string) error {
	return c.do(ctx, "RenameServer", id, name, c.on(id, func(s *cloud.Server) error {
		s.Name = name
		return nil
	}))
}

// ReinstallServer starts a reinstall with a new password; Finish ends it.
func (c *Cloud) ReinstallServer(ctx context.Context, _, id, osID string) error {
	return c.do(ctx, "ReinstallServer", id, osID, c.on(id, func(s *cloud.Server) error {
		if s.Status != cloud.StatusReady {
			return Err(cloud.KindTransient)
		}
		s.Status = cloud.StatusReinstalling
		c.passwords[id] = fmt.Sprintf("reinstalled%d", len(c.calls))
		return nil
	}))
}

// Finish ends a server's reinstall or reboot.
func (c *Cloud) Finish(id string) {
	c.Change(id, func(s *cloud.Server) { s.Status = cloud.StatusReady })
}

// DeleteServer takes a server away, or schedules that while there is a Floor; also where its
// answer is lost.
func (c *Cloud) DeleteServer(ctx context.Context, _, id string) (bool, error) {
	scheduled, deleted := false, false
	err := c.do(ctx, "DeleteServer", id, "", c.on(id, func(s *cloud.Server) error {
		s.DeletionScheduled, scheduled, deleted = c.Floor, c.Floor, !c.Floor
		return nil
	}))
	c.mu.Lock()
	defer c.mu.Unlock()
	if deleted {
		delete(c.servers, id)
	}
	return scheduled, err
}

// CreateServer makes a server that Deliver brings to ready.
func (c *Cloud) CreateServer(ctx context.Context, zone string, order cloud.ServerOrder) (string, error) {
	id := ""
	err := c.do(ctx, "CreateServer", "", order.Name, func() error {
		c.created++
		id = fmt.Sprintf("00000000-0000-4000-8000-%012d", c.created)
		if c.servers == nil {
			c.servers, c.passwords = map[string]cloud.Server{}, map[string]string{}
		}
		c.servers[id] = cloud.Server{
			ID: id, Zone: zone, Name: order.Name, Type: order.Type, Status: cloud.StatusStarting,
			IP: fmt.Sprintf("51.159.9.%d", c.created), SSHUser: "m1",
		}
		c.passwords[id] = fmt.Sprintf("delivered%d", c.created)
		return nil
	})
	return id, err
}

// Deliver makes an ordered server ready.
func (c *Cloud) Deliver(id string) {
	c.Change(id, func(s *cloud.Server) { s.Status, s.Delivered = cloud.StatusReady, true })
}

// RebootServer starts a reboot; Finish ends it.
func (c *Cloud) RebootServer(ctx context.Context, _, id string) error {
	return c.do(ctx, "RebootServer", id, "", c.on(id, func(s *cloud.Server) error {
		if s.Status != cloud.StatusReady {
			return Err(cloud.KindTransient)
		}
		s.Status = cloud.StatusRebooting
		return nil
	}))
}

// ServerTypes returns Types.
func (c *Cloud) ServerTypes(ctx context.Context, zone string) ([]cloud.ServerType, error) {
	var types []cloud.ServerType
	err := c.do(ctx, "ServerTypes", "", zone, func() error {
		types = slices.Clone(c.Types)
		return nil
	})
	return types, err
}

// StartDiagnostic names a diagnostic after its server.
func (c *Cloud) StartDiagnostic(ctx context.Context, _, id string) (string, error) {
	return id, c.do(ctx, "StartDiagnostic", id, "", c.on(id, func(*cloud.Server) error { return nil }))
}

// GetDiagnostic returns Diagnostic.
func (c *Cloud) GetDiagnostic(ctx context.Context, _, diagnosticID string) (cloud.Diagnostic, error) {
	var out cloud.Diagnostic
	err := c.do(ctx, "GetDiagnostic", diagnosticID, "", func() error {
		out = c.Diagnostic
		return nil
	})
	return out, err
}

// FindOS looks into Images.
func (c *Cloud) FindOS(ctx context.Context, _, family, serverType string) (cloud.OS, error) {
	var os cloud.OS
	err := c.do(ctx, "FindOS", "", family+" "+serverType, func() error {
		found := false
		if os, found = c.Images[family]; !found {
			return Err(cloud.KindNotFound)
		}
		return nil
	})
	return os, err
}

// EnsureSSHKey remembers the key.
func (c *Cloud) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	return c.do(ctx, "EnsureSSHKey", "", name, func() error {
		same := func(k cloud.SSHKey) bool { return k.Name == name && k.PublicKey == publicKey }
		if !slices.ContainsFunc(c.keys, same) {
			c.keys = append(c.keys, cloud.SSHKey{ID: fmt.Sprintf("key-%d", len(c.keys)), Name: name, PublicKey: publicKey})
		}
		return nil
	})
}

// ListSSHKeys returns the keys that were registered and not taken away.
func (c *Cloud) ListSSHKeys(ctx context.Context) ([]cloud.SSHKey, error) {
	var keys []cloud.SSHKey
	err := c.do(ctx, "ListSSHKeys", "", "", func() error {
		keys = slices.Clone(c.keys)
		return nil
	})
	return keys, err
}

// DeleteSSHKey forgets a key.
func (c *Cloud) DeleteSSHKey(ctx context.Context, id string) error {
	return c.do(ctx, "DeleteSSHKey", id, "", func() error {
		before := len(c.keys)
		c.keys = slices.DeleteFunc(c.keys, func(k cloud.SSHKey) bool { return k.ID == id })
		if len(c.keys) == before {
			return Err(cloud.KindNotFound)
		}
		return nil
	})
}
