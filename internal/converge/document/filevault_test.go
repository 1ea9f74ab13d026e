package document

import "testing"

// A Mac says it on several lines, and the manager's look at it puts them on one.
func TestAFileVaultThatIsNotClearlyOffCountsAsOn(t *testing.T) {
	for said, want := range map[string]struct{ on, known bool }{
		"FileVault is Off.\n": {false, true},
		"FileVault is On.\n":  {true, true},
		"FileVault is Off. FileVault master keychain appears to be installed.":         {false, true},
		"FileVault is Off.\nFileVault master keychain appears to be installed.\n":      {false, true},
		"FileVault is Off.\nEncryption in progress: Percent completed = 3\n":           {true, true},
		"FileVault is Off. Encryption in progress: Percent completed = 1":              {true, true},
		"FileVault is Off.\nDeferred enablement appears to be active for user 'm1'.\n": {true, true},
		"FileVault is Off. Deferred enablement appears to be active for user 'm1'.":    {true, true},
		"FileVault is Off. It will be enabled at the next restart.":                    {true, true},
		"FileVault is Off, but will be enabled after the next restart.\n":              {true, true},
		"FileVault is On.\nDecryption in progress: Percent completed = 90\nwhatever\n": {true, true},
		"FileVault is Busy.":                     {true, true},
		"fdesetup: command not understood":       {true, false},
		"not yet, but soon: FileVault is Off.\n": {true, false},
		"":                                       {true, false},
	} {
		if on, known := FileVaultOn(said); on != want.on || known != want.known {
			t.Errorf("%q: on %t, known %t", said, on, known)
		}
	}
}
