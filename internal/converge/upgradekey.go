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
	"github.com/macfleet/macfleet/internal/converge/macos"
	"github.com/macfleet/macfleet/internal/converge/step"
)

// keyType is the type of the PEM block that holds the 32 bytes of the key.
const keyType = "MACFLEET UPGRADE KEY"

// installUpgradeKey installs the fleet's key, which proves instructions and new builds. It is called
// before the disk is marked only, so that a later document cannot bring another key.
func (d diskMarker) installUpgradeKey(ctx context.Context) error {
	if len(d.Desired.UpgradeKey) == 0 {
		return d.Mac.Files.Remove(document.UpgradeKeyFile)
	}
	return step.Write(ctx, d.Mac.Files, step.File{Path: document.UpgradeKeyFile, Data: encodeKey(d.Desired.UpgradeKey), Attr: step.RootAttr(0o600)})
}

func encodeKey(key []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: key})
}

// upgradeKeyNote says which key wins when the document brings another than the installed.
func (d diskMarker) upgradeKeyNote() string {
	if len(d.Desired.UpgradeKey) == 0 {
		return ""
	}
	data, err := step.Read(d.Mac.Files, document.UpgradeKeyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no upgrade key was installed when this epoch began; the manager can tell this Mac nothing until it is reinstalled"
	case err == nil && !bytes.Equal(data, encodeKey(d.Desired.UpgradeKey)):
		return "the document brings another upgrade key, which is ignored: the first of an epoch stays"
	}
	return ""
}

// upgradeKey is the installed key.
func upgradeKey(files macos.Files) (ed25519.PublicKey, error) {
	data, err := step.Read(files, document.UpgradeKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, step.Fail(document.Human, "no upgrade key is installed on this Mac: the manager's instructions cannot be proved: reinstall it")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the upgrade key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != keyType || len(block.Bytes) != ed25519.PublicKeySize {
		return nil, step.Fail(document.Human, "%s holds no upgrade key: reinstall this Mac", document.UpgradeKeyFile)
	}
	return block.Bytes, nil
}
