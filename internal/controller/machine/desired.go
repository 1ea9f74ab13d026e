package machine

import (
	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/rollout"
)

// sshPort is where sshd listens, unless --ssh-port says otherwise.
const sshPort = 22

// desired is the one document that a Mac is converged to, for its first bootstrap
// and for each later run: what its profile asks of all its Macs, and what is this
// one's. It holds no join material.
func (r *Reconciler) desired(v *visit, profile *infrav1.MacNodeProfile) document.Desired {
	agent := r.Agent
	want := rollout.Desired(profile, document.Agent{SHA256: agent.SHA256, Version: agent.Version})
	want.Host = identity(v)
	want.Host.User = v.staged.user
	want.Host.Address = v.staged.address
	want.Host.Zone = v.host.Spec.Zone
	want.Host.ServerType = v.host.Status.Server.Type
	want.Host.Fleet = v.fleet()
	want.Host.TakeOver = host.TakesOver(v.machine)
	if r.SSHPort != sshPort {
		want.Host.SSHPort = r.SSHPort
	}
	want.Restart = v.wishedRestart()
	return want
}

// identity says which Mac is meant, and which installation of it.
func identity(v *visit) document.Host {
	return document.Host{Name: v.machine.Name, ProviderID: hostProviderID(v.host), Epoch: v.host.Spec.Record.InstallEpoch}
}

// hostProviderID is the providerID of a claimed host.
func hostProviderID(h *host.Host) string { return host.ProviderID(h.Spec.Zone, h.Spec.ServerID) }
