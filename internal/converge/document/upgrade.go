package document

import (
	"crypto/ed25519"
	"fmt"
	"io"
)

// UpgradeSchema is the version of Upgrade.
const UpgradeSchema = "macfleet.dev/upgrade/v1"

// Upgrade is what the verb of that name reads: one line of JSON. The build itself
// was staged before.
type Upgrade struct {
	Schema string `json:"schema"`
	// SHA256 of the staged build, lower-case hex.
	SHA256 string `json:"sha256"`
	// Signature of the build by the fleet's key: SignBuild.
	Signature []byte `json:"signature"`
}

// signed is what a signature covers. The prefix keeps a signature made for
// anything else from being one of a build.
func signed(sha256 string) []byte { return []byte("macfleet agent build v1\n" + sha256 + "\n") }

// SignBuild signs a build, named by its SHA-256, for Macs that trust the key's
// public half.
func SignBuild(key ed25519.PrivateKey, sha256 string) []byte {
	return ed25519.Sign(key, signed(sha256))
}

// BuildSigned reports whether the signature is the key's for this build.
func BuildSigned(key ed25519.PublicKey, sha256 string, signature []byte) bool {
	return len(key) == ed25519.PublicKeySize && IsSHA256(sha256) && ed25519.Verify(key, signed(sha256), signature)
}

// EncodeUpgrade returns the one encoding of u.
func EncodeUpgrade(u Upgrade) ([]byte, error) {
	u.Schema = UpgradeSchema
	return encode(u)
}

// DecodeUpgrade reads one Upgrade and nothing after it.
func DecodeUpgrade(r io.Reader) (Upgrade, error) {
	data, err := readBounded(r)
	if err != nil {
		return Upgrade{}, fmt.Errorf("reading the upgrade: %w", err)
	}
	if err := checkSchema(data, UpgradeSchema); err != nil {
		return Upgrade{}, fmt.Errorf("decoding the upgrade: %w", err)
	}
	var u Upgrade
	if err := decodeStrict(data, &u); err != nil {
		return Upgrade{}, fmt.Errorf("decoding the upgrade: %w", err)
	}
	if !IsSHA256(u.SHA256) {
		return Upgrade{}, &FieldError{Field: "sha256", Reason: "is not a SHA-256 in lower-case hex"}
	}
	return u, nil
}
