package converge

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"

	"github.com/macfleet/macfleet/internal/converge/document"
)

// keyType is the type of the PEM block that holds the 32 bytes of the key.
const keyType = "MACFLEET UPGRADE KEY"

// trust installs the fleet's key, which proves instructions and new builds. It is asked before the disk is marked only, so
// that whoever pushes a document later cannot bring a key of their own.
func (t *target) trust(ctx context.Context) error {
	if len(t.desired.UpgradeKey) == 0 {
		return t.Mac.Files.Remove(document.UpgradeKeyFile)
	}
	return write(ctx, t.Mac.Files, file{document.UpgradeKeyFile, encodeKey(t.desired.UpgradeKey), rootFile})
}

func encodeKey(key []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: key})
}

// trusts says which key wins when the document brings another than the installed.
func (t *target) trusts() string {
	if len(t.desired.UpgradeKey) == 0 {
		return ""
	}
	data, err := read(t.Mac.Files, document.UpgradeKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no upgrade key was installed when this epoch began; the manager can tell this Mac nothing until it is reinstalled"
	case err == nil && !bytes.Equal(data, encodeKey(t.desired.UpgradeKey)):
		return "the document brings another upgrade key, which is ignored: the first of an epoch stays"
	}
	return ""
}

// upgradeKey is the installed key.
func (t *target) upgradeKey() (ed25519.PublicKey, error) {
	data, err := read(t.Mac.Files, document.UpgradeKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fail(document.Human, "no upgrade key is installed on this Mac: the manager's instructions cannot be proved: reinstall it")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the upgrade key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != keyType || len(block.Bytes) != ed25519.PublicKeySize {
		return nil, fail(document.Human, "%s holds no upgrade key: reinstall this Mac", document.UpgradeKeyFile)
	}
	return block.Bytes, nil
}
