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
	KeyHardware         = "hardware"
	KeyPasswordAttempts = "password-attempts"

	// KeyTokenID mirrors record.bootstrap.tokenID, to end the token of a Host that was
	// lost. It entitles to nothing: people may write this Secret.
	KeyTokenID = "token-id"
)

// BootstrapSecretName is the Secret of an infra machine, in its namespace.
func BootstrapSecretName(machine string) string { return machine + "-bootstrap" }
