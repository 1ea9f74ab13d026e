package document

import (
	"cmp"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// FieldError names a field of a document that cannot be applied.
type FieldError struct {
	// Document is which one; empty: the desired one.
	Document string
	Field    string
	Reason   string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %s %s", cmp.Or(e.Document, "desired document"), e.Field, e.Reason)
}

const (
	// MinMaxVMs and MaxMaxVMs bound Node.MaxVMs: Apple's licence allows two
	// macOS guests on a Mac.
	MinMaxVMs = 1
	// MaxMaxVMs is the licence's two.
	MaxMaxVMs = 2
	// maxName is the length of a DNS subdomain, RFC 1123.
	maxName = 253
	maxPort = 65535
	// MinGuestQuota is room for one guest and its image, in bytes.
	MinGuestQuota = 40e9
)

var (
	nameShape = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	userShape = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,30}$`)
	hashShape = regexp.MustCompile(`^[0-9a-f]{64}$`)
	// teamShape becomes part of a code requirement.
	teamShape = regexp.MustCompile(`^[0-9A-Z]{10}$`)
	// versionShape becomes part of a path.
	versionShape = regexp.MustCompile(`^[0-9][0-9A-Za-z.-]{0,30}$`)
)

// IsSHA256 reports whether s is a SHA-256 in lower-case hex.
func IsSHA256(s string) bool { return hashShape.MatchString(s) }

// Validate reports the first field that cannot be applied, as a *FieldError.
//
// It passes over the labels and taints of the Node on purpose. A profile with one that cannot
// be, or that a node may not set, is refused in one line before there is a document: see
// rollout.Check. No step on a Mac applies them; the agent looks at the labels again when it
// starts. So `macfleet host accept` has a release fail to start after all steps before that
// went well, as a bad release would, and sees converge go back. Other fields fail in a step,
// or, as a port that is taken, leave the Mac otherwise than before.
func (d Desired) Validate() error {
	for _, check := range []struct {
		ok     bool
		field  string
		reason string
	}{
		{len(d.Host.Name) <= maxName && nameShape.MatchString(d.Host.Name), "host.name", "is not a DNS subdomain"},
		{d.Host.ProviderID != "", "host.providerID", "is empty"},
		{d.Host.Epoch > 0, "host.epoch", "is not positive"},
		{userShape.MatchString(d.Host.User), "host.user", "is not a user name"},
		{!systemAccount(d.Host.User), "host.user", "is an account of the system: guests need the session of a person's"},
		{IsSHA256(d.Agent.SHA256), "agent.sha256", "is not a SHA-256 in lower-case hex"},
		{d.Host.SSHPort >= 0 && d.Host.SSHPort <= maxPort, "host.sshPort", "is not a port"},
		{len(d.Restart) <= maxName, "restart", "is too long"},
		{d.Node.MaxVMs >= MinMaxVMs && d.Node.MaxVMs <= MaxMaxVMs, "node.maxVMs", "is not 1 or 2"},
	} {
		if !check.ok {
			return &FieldError{Field: check.field, Reason: check.reason}
		}
	}
	if err := validKeys("sshKeys", d.SSHKeys, maxFleetKeys); err != nil {
		return err
	}
	for _, part := range []interface{ validate() error }{d.Mac, d.Images, d.Pods, d.Kubelet} {
		if err := part.validate(); err != nil {
			return err
		}
	}
	if d.Secrets != nil && !usablePassword(d.Secrets.ConsolePassword) {
		return &FieldError{Field: "secrets.consolePassword", Reason: "is not a password"}
	}
	if n := len(d.UpgradeKey); n != 0 && n != ed25519.PublicKeySize {
		return &FieldError{Field: "upgradeKey", Reason: "is not an ed25519 public key"}
	}
	if d.Join == nil {
		return nil
	}
	return d.Join.validate()
}

// Sealed is what the vendor and macOS show in place of a password.
const Sealed = "<sealed>"

// usablePassword refuses what cannot be one: nothing, the mark of a sealed one, and
// what a line of input cannot hold.
func usablePassword(p string) bool {
	return p != "" && p != Sealed && !strings.ContainsAny(p, "\x00\n\r")
}

// systemAccount reports the accounts that macOS has for itself: nobody logs in as
// one of them, and root's would be root's whatever it is called. macOS does not
// tell upper from lower case in the names of users.
func systemAccount(user string) bool {
	switch strings.ToLower(user) {
	case "root", "daemon", "nobody":
		return true
	}
	return strings.HasPrefix(user, "_")
}

func (m Mac) validate() error {
	if t := m.Tart; t != nil {
		switch {
		case !versionShape.MatchString(t.Version):
			return &FieldError{Field: "mac.tart.version", Reason: "is not a version"}
		case !isHTTPS(t.URL):
			return &FieldError{Field: "mac.tart.url", Reason: "is not an https URL"}
		case !IsSHA256(t.SHA256):
			return &FieldError{Field: "mac.tart.sha256", Reason: "is not a SHA-256 in lower-case hex"}
		case t.TeamID != "" && !teamShape.MatchString(t.TeamID):
			return &FieldError{Field: "mac.tart.teamID", Reason: "is not a team ID: ten upper-case letters and digits"}
		}
	}
	if q := m.GuestQuotaBytes; q != 0 && q < MinGuestQuota {
		return &FieldError{Field: "mac.guestQuotaBytes", Reason: "is too small for one guest"}
	}
	if err := validKeys("mac.authorizedKeys", m.AuthorizedKeys, maxProfileKeys); err != nil {
		return err
	}
	return m.Network.validate()
}

func (n Network) validate() error {
	subnet, err := netip.ParsePrefix(n.Subnet)
	if err != nil || !subnet.Addr().Is4() || subnet.Bits() < 16 || subnet.Bits() > 29 || subnet != subnet.Masked() || !subnet.Addr().IsPrivate() {
		return &FieldError{Field: "mac.network.subnet", Reason: "is not a private IPv4 network of /16 to /29"}
	}
	for i, a := range n.Allow {
		if err := a.validate(fmt.Sprintf("mac.network.allow[%d]", i)); err != nil {
			return err
		}
	}
	for i, a := range n.HostAllow {
		field := fmt.Sprintf("mac.network.hostAllow[%d]", i)
		if err := a.validate(field); err != nil {
			return err
		}
		if len(a.Ports) == 0 {
			return &FieldError{Field: field + ".ports", Reason: "is empty: name the ports"}
		}
	}
	for i, from := range n.SSHFrom {
		if !isCIDR(from) {
			return &FieldError{Field: fmt.Sprintf("mac.network.sshFrom[%d]", i), Reason: "is not a CIDR"}
		}
	}
	return nil
}

func isHTTPS(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil
}

func (a Allow) validate(field string) error {
	if !isCIDR(a.CIDR) {
		return &FieldError{Field: field + ".cidr", Reason: "is not a CIDR"}
	}
	for _, port := range a.Ports {
		if port < 1 || port > maxPort {
			return &FieldError{Field: field + ".ports", Reason: "is not a port"}
		}
	}
	return nil
}

// isCIDR takes networks only: 10.0.0.1/8 is a mistake, not 10.0.0.0/8.
func isCIDR(s string) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p == p.Masked()
}

func (j *Join) validate() error {
	switch {
	case !strings.HasPrefix(j.Server, "https://"):
		return &FieldError{Field: "join.server", Reason: "is not an https URL"}
	case len(j.CA) == 0:
		return &FieldError{Field: "join.ca", Reason: "is empty"}
	case j.Token == "":
		return &FieldError{Field: "join.token", Reason: "is empty"}
	case j.Permit.ID == "":
		return &FieldError{Field: "join.permit.id", Reason: "is empty"}
	case j.Permit.NotAfter.IsZero():
		return &FieldError{Field: "join.permit.notAfter", Reason: "is not set"}
	}
	return nil
}
