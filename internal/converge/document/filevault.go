package document

import (
	"slices"
	"strings"
)

// FileVaultOn judges what fdesetup says of FileVault, on however many lines; not known:
// it says nothing of it. What is not clearly off counts as on: a disk that is being
// encrypted asks for a password at the next boot, and a deferred FileVault is turned on by
// the next login or logout of its user, as those that converge brings about.
func FileVaultOn(said string) (on, known bool) {
	said = strings.Join(strings.Fields(said), " ")
	coming := func(words string) bool { return strings.Contains(said, words) }
	off := strings.HasPrefix(said, "FileVault is Off.") && !slices.ContainsFunc([]string{"in progress", "Deferred enablement", "will be"}, coming)
	return !off, strings.HasPrefix(said, "FileVault is ")
}
