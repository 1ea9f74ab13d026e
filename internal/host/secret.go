package host

// Keys of the Secret <machine>-bootstrap. The host controller writes the first
// five for a claim, the machine controller mirrors the others there.
const (
	KeySudoPassword = "sudo-password"
	KeySSHUsername  = "ssh-username"
	KeyAddress      = "host"
	KeyInstallEpoch = "install-epoch"
	KeyClaimToken   = "claim-token"

	KeyHostKey          = "host-key"
	KeyPasswordAttempts = "password-attempts"

	// KeyTokenID names the bootstrap token made for the Machine; it is written
	// before the token exists, and whoever asks for a first certificate must bear it.
	KeyTokenID = "token-id"
)

// BootstrapSecretName is the Secret of an infra machine, in its namespace.
func BootstrapSecretName(machine string) string { return machine + "-bootstrap" }
