// Package cloud is the seam to a vendor of Macs: what a server is, the few calls
// the provider makes, and the errors they end in. It leaves the protocol to its
// implementations and every decision to package host.
package cloud

import (
	"context"
	"time"
)

// Status of a server, in the vendor's words. Unknown words are kept as they are.
type Status string

// The statuses that decisions look at.
const (
	StatusStarting     Status = "starting"
	StatusReady        Status = "ready"
	StatusError        Status = "error"
	StatusRebooting    Status = "rebooting"
	StatusReinstalling Status = "reinstalling"
)

// Server is one Mac as the vendor shows it. It carries no credentials.
type Server struct {
	ID                string
	Zone              string
	Name              string
	Type              string
	Status            Status
	Delivered         bool
	OSName            string // image first installed, e.g. macos-tahoe-26.0
	OSFamily          string // e.g. tahoe
	IP                string
	SSHUser           string
	DeletableAt       time.Time
	DeletionScheduled bool
	Commitment        string
}

// Credentials of a server, from a GET only: answers to writes are sealed.
type Credentials struct {
	SSHUser  string
	Password Password
}

// OS is an image that can be installed.
type OS struct {
	ID     string
	Name   string
	Family string
}

// ServerType is a kind of server that can be ordered. Facts the vendor does not
// give are zero.
type ServerType struct {
	Name        string
	Chip        string // e.g. Apple M2 Pro
	Cores       int
	MemoryBytes uint64
	DiskBytes   uint64
}

// ServerOrder is what a new server is made from.
type ServerOrder struct {
	// Name of the server; the only handle on an order whose answer was lost.
	Name string
	// Type is the vendor's server type.
	Type string
	// OSID is the image; empty: the type's default.
	OSID string
}

// SSHKey is a public key that the vendor puts on the Macs that it installs.
type SSHKey struct {
	ID   string
	Name string
	// PublicKey is type and base64, without a comment.
	PublicKey string
	// Disabled: it is not put on Macs.
	Disabled bool
}

// Diagnostic is what the vendor found out about the way to a server.
type Diagnostic struct {
	// Done: the vendor has come to an end.
	Done bool
	// Healthy: the vendor found nothing wrong.
	Healthy bool
	// Advice is what the vendor says can be done, in its words, e.g.
	// reboot_server or reinstall_server.
	Advice []string
	// Message is the vendor's explanation, one line.
	Message string
}

// Cloud is a vendor project. Every method may fail with the errors of this
// package. Answers to writes are never trusted: read again.
type Cloud interface {
	// CheckAccess proves that the credentials work and the zone exists.
	CheckAccess(ctx context.Context, zone string) error
	// ListServers returns every server of the project in the zone, all pages.
	ListServers(ctx context.Context, zone string) ([]Server, error)
	// GetServer reads one server and its credentials.
	GetServer(ctx context.Context, zone, id string) (Server, Credentials, error)
	// RenameServer asks for another name; read it back.
	RenameServer(ctx context.Context, zone, id, name string) error
	// ReinstallServer asks for a wipe. An empty osID means the type's default.
	ReinstallServer(ctx context.Context, zone, id, osID string) error
	// DeleteServer gives the server back. Before the billing floor it asks the
	// vendor to delete it at the floor instead; scheduled says so.
	DeleteServer(ctx context.Context, zone, id string) (scheduled bool, err error)
	// FindOS returns the newest image of the family for the server type, or
	// IsNotFound when none is published.
	FindOS(ctx context.Context, zone, family, serverType string) (OS, error)
	// CreateServer orders a server and returns its id. A call that failed may still
	// have made one: look for its name before asking again.
	CreateServer(ctx context.Context, zone string, order ServerOrder) (id string, err error)
	// RebootServer cuts the power and starts the server again.
	RebootServer(ctx context.Context, zone, id string) error
	// ServerTypes returns the types that exist in the zone.
	ServerTypes(ctx context.Context, zone string) ([]ServerType, error)
	// StartDiagnostic asks the vendor to look at the way to a server.
	StartDiagnostic(ctx context.Context, zone, id string) (diagnosticID string, err error)
	// GetDiagnostic reads how a diagnostic went.
	GetDiagnostic(ctx context.Context, zone, diagnosticID string) (Diagnostic, error)
	// EnsureSSHKey registers the public key with the project under this name, unless
	// it is there already. The same key under another name is somebody else's, who may
	// take it away any day.
	EnsureSSHKey(ctx context.Context, name, publicKey string) error
	// ListSSHKeys returns every key of the project, all pages.
	ListSSHKeys(ctx context.Context) ([]SSHKey, error)
	// DeleteSSHKey takes one away. Macs that have it keep it until they are installed
	// anew. IsNotFound: it is gone already.
	DeleteSSHKey(ctx context.Context, id string) error
}
