package mac

import (
	"fmt"
	"os"
	"path/filepath"

	propertylist "howett.net/plist"

	"github.com/macfleet/macfleet/sandbox/mac/session"
	"github.com/macfleet/macfleet/sandbox/mac/wire"
)

// Quirks are departures of a Mac from the common case.
type Quirks = wire.Quirks

// plantAutoLogin sets up an image that logs its user in by itself.
func plantAutoLogin(root string, a account) error {
	if !a.autoLogin {
		return nil
	}
	preference, err := propertylist.Marshal(map[string]any{"autoLoginUser": a.username}, propertylist.BinaryFormat)
	if err != nil {
		return fmt.Errorf("encoding autoLoginUser: %w", err)
	}
	for path, f := range map[string]systemFile{
		"Library/Preferences/com.apple.loginwindow.plist": {string(preference), 0o644},
		"private/etc/kcpassword":                          {string(session.Encode(a.password)), 0o600},
	} {
		if err := os.WriteFile(filepath.Join(root, path), []byte(f.text), f.mode); err != nil {
			return fmt.Errorf("writing /%s: %w", path, err)
		}
	}
	return nil
}
