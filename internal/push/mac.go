package push

import (
	"context"
	"net/netip"

	"golang.org/x/crypto/ssh"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/converge/document"
)

// Dialer opens the way to a Mac.
type Dialer interface {
	Dial(ctx context.Context, target Target) (Mac, error)
}

// Target is a Mac to reach.
type Target struct {
	Address string
	// Addresses are others of the same Mac, tried where Address gives no connection.
	Addresses []string
	Port      int
	User      string
	Key       ssh.Signer
	// OtherKeys are offered after Key: those that the Mac may still know.
	OtherKeys []ssh.Signer
	// Pin is the host key of this install epoch. Nil before its first contact.
	Pin *infrav1.HostKey
	// FirstUse records the key that is seen at the epoch's first contact, before
	// anything is sent; an error refuses it.
	FirstUse func(ctx context.Context, shown infrav1.HostKey) error
}

// Mac is one open connection to a Mac. Its failures are *Failure where they say
// more than "try again".
type Mac interface {
	// HostKey is the key the Mac proved itself with; its epoch is not set.
	HostKey() infrav1.HostKey
	Probe(ctx context.Context) (Facts, error)
	Grant(ctx context.Context, password cloud.Password) error
	Receive(ctx context.Context, agent Agent) error
	// Converge runs the build that the document names, installed or received. The
	// Mac takes both only as signed. A report comes with a failure, too, where the
	// Mac gave one.
	Converge(ctx context.Context, desired document.Desired, signer *document.Signer) (document.Report, error)
	// Plan says what Converge would change, and changes nothing.
	Plan(ctx context.Context, desired document.Desired) (document.Report, error)
	// Leave has the Mac stop its agent and forget its credentials, as signed.
	Leave(ctx context.Context, signer *document.Signer) error
	Close() error
}

// Facts are what a probe tells that decides the next step.
type Facts struct {
	// Sudo works without a password: for anything, or for the agent's own verbs.
	Sudo bool
	// Installed is the build of the agent that runs there, by SHA-256; or empty.
	Installed string
	// Serial number of the Mac; empty when it shows none.
	Serial string
	// PlatformUUID of the board; empty when it shows none.
	PlatformUUID string
	// BootSession is another one after each boot.
	BootSession string
	// FileVault is on: nobody comes in after a boot before a person types a password.
	FileVault bool
	// VirtualMachine: it is a guest, not a Mac.
	VirtualMachine bool
	// Client is the address from which the Mac sees us come; not valid when it does
	// not say.
	Client netip.Addr
}
