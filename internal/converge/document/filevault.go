package document

import "strings"

// FileVaultOn judges what fdesetup says of FileVault, on however many lines; not known:
// it says nothing of it. What is not clearly off counts as on: a disk that is being
// encrypted asks for a password at the next boot, and a deferred FileVault is turned on by
// the next login or logout of its user, as those that converge brings about.
func FileVaultOn(said string) (on, known bool) {
	said = strings.Join(strings.Fields(said), " ")
	coming := strings.Contains(said, "in progress") || strings.Contains(said, "Deferred enablement")
	off := strings.HasPrefix(said, "FileVault is Off.") && !coming
	return !off, strings.HasPrefix(said, "FileVault is ")
}
