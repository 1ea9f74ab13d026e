package host

import "testing"

// A Secret from before sealed passwords were known holds the vendor's marker, or
// nothing: the password is asked for and staged again.
func TestRequirement003_ASealedPasswordInAStoredSecretIsStagedAgain(t *testing.T) {
	for _, stored := range []string{"<sealed>", " <sealed>\n", ""} {
		w := inUse(t)
		before := string(w.secret().Data["sudo-password"])
		secret := w.secret()
		secret.Data["sudo-password"] = []byte(stored)
		w.must(w.client.Update(w.ctx, secret))
		w.until("staged again", func() bool { return string(w.secret().Data["sudo-password"]) == before })
	}
}
