package document

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
)

// How many keys may log in, and how long one may be.
const (
	maxFleetKeys   = 4
	maxProfileKeys = 16
	maxKey         = 2048
)

// keyTypes are the types of public keys that may log in, as sshd names them.
// Certificates and DSA are not among them.
func keyTypes() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSA,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
	}
}

// parseKey reads one line of authorized_keys: a type, a key, and perhaps a comment.
// Options before the type are refused, since some of them run commands.
func parseKey(line string) (ssh.PublicKey, error) {
	if len(line) > maxKey || strings.ContainsAny(line, "\r\n\x00") {
		return nil, fmt.Errorf("is no single line of %d characters at most", maxKey)
	}
	key, _, options, _, err := ssh.ParseAuthorizedKey([]byte(line))
	switch {
	case err != nil:
		return nil, fmt.Errorf("is no SSH public key: write its line, such as ssh-ed25519 AAAA… name")
	case len(options) > 0:
		return nil, fmt.Errorf("has options before the key: write the key alone")
	case !slices.Contains(keyTypes(), key.Type()):
		return nil, fmt.Errorf("is of type %s: take one of %s", key.Type(), strings.Join(keyTypes(), ", "))
	}
	return key, nil
}

func validKeys(field string, lines []string, most int) error {
	if len(lines) > most {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has more than %d keys", most)}
	}
	for i, line := range lines {
		if _, err := parseKey(line); err != nil {
			return &FieldError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: err.Error()}
		}
	}
	return nil
}

// AuthorizedKeys are the lines of all that may log in: the fleet's keys first, each
// key once, without the comments that people gave them.
func (d Desired) AuthorizedKeys() []string {
	var lines []string
	for _, line := range slices.Concat(d.SSHKeys, d.Mac.AuthorizedKeys) {
		key, err := parseKey(line)
		if err != nil {
			continue // the document was validated
		}
		text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		if !slices.Contains(lines, text) {
			lines = append(lines, text)
		}
	}
	return lines
}
