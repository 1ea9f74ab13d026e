package document

// Mac is what a Mac should be beneath its Node, the same for all Macs of a
// profile.
type Mac struct {
	// Tart to install. Nil: what the image has.
	Tart *Tart `json:"tart,omitempty"`
	// AutoLogin keeps a console session of the user alive: macOS guests cannot
	// start without one.
	AutoLogin bool `json:"autoLogin"`
	// ScreenSharing keeps macOS' Screen Sharing on. Off means Remote Management, too.
	ScreenSharing bool `json:"screenSharing,omitempty"`
	// AuthorizedKeys are the profile's own SSH keys, beside the fleet's: a line of
	// authorized_keys each.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// GuestQuotaBytes is the ceiling of the volume that guests and images live on.
	// 0: there is none, and they live in the user's home.
	GuestQuotaBytes int64   `json:"guestQuotaBytes,omitempty"`
	Network         Network `json:"network"`
	// ProofReboot reboots the Mac once an install epoch, before it joins, to see
	// that everything comes back by itself.
	ProofReboot bool `json:"proofReboot"`
}

// Tart is the release of tart to install.
type Tart struct {
	Version string `json:"version"`
	// URL, https, of a .tar.gz that holds tart.app, and its SHA-256 in lower-case hex.
	URL    string `json:"url"`
	SHA256 string `json:"sha256"`
	// TeamID of Apple's developer program that must have signed it. Empty: any.
	TeamID string `json:"teamID,omitempty"`
}

// Network is what guests may reach, and who may reach the Mac.
type Network struct {
	// Subnet of the guests, IPv4 CIDR; the Mac has its first address.
	Subnet string `json:"subnet"`
	// DenyPrivate keeps guests from private, carrier-grade, link-local and other
	// special addresses.
	DenyPrivate bool `json:"denyPrivate"`
	// Allow are exceptions from DenyPrivate.
	Allow []Allow `json:"allow,omitempty"`
	// SSHFrom are the CIDRs that may reach the Mac's SSH. Empty: everybody.
	SSHFrom []string `json:"sshFrom,omitempty"`
	// HostAllow is who may open connections to which ports of the Mac, beside SSH and
	// the kubelet's. All else that comes in is dropped.
	HostAllow []Allow `json:"hostAllow,omitempty"`
}

// Allow is something that may be reached, or who may reach it.
type Allow struct {
	// CIDR, IPv4 or IPv6.
	CIDR string `json:"cidr"`
	// Ports, TCP and UDP. Empty: all.
	Ports []int `json:"ports,omitempty"`
}

// DefaultSubnet is what vmnet's shared mode gives guests unless told otherwise.
const DefaultSubnet = "192.168.64.0/24"

// Secrets are kept in memory and in the files that need them, and shown nowhere.
type Secrets struct {
	// ConsolePassword is the console user's, for auto-login.
	ConsolePassword string `json:"consolePassword,omitempty"`
}

// String hides the password.
func (Secrets) String() string { return redacted }

// GoString hides the password.
func (Secrets) GoString() string { return redacted }

// Verbs of hostd: a closed set.
const (
	// HostdStatus asks how things are.
	HostdStatus = "status"
	// HostdArm proves the firewall now, mending it first when that is needed. A
	// guest may start after an answer without Error only.
	HostdArm = "arm"
)

// HostdRequest is what is asked of hostd: one line of JSON.
type HostdRequest struct {
	Verb string `json:"verb"`
}

// HostdAnswer is what hostd says to every verb.
type HostdAnswer struct {
	// Error is why the verb failed, for people; empty when it did not.
	Error string `json:"error,omitempty"`
	// Health says which build answers.
	Health Health `json:"health"`
	// BootSession is this boot.
	BootSession string `json:"bootSession"`
	// FirewallProvedAt is when the firewall was last seen whole, RFC 3339 UTC; empty
	// when it never was in this boot.
	FirewallProvedAt string `json:"firewallProvedAt,omitempty"`
	// Session says that the console user has a session.
	Session bool `json:"session"`
	// Troubles are what hostd cannot mend by itself, for people.
	Troubles []string `json:"troubles,omitempty"`
}
