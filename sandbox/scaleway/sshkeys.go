package scaleway

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/ssh"
)

// sshKey is one key of a project; the vendor's lock guards it.
type sshKey struct {
	id, name, project string
	publicKey         string // without a comment
	fingerprint       string
	created, updated  time.Time
	disabled          bool
}

// keyring is the SSH keys of projects.
type keyring struct {
	*world
	keys []*sshKey
}

func (r *keyring) renderKey(k *sshKey) sshKeyBody {
	return sshKeyBody{
		ID: k.id, Name: k.name, PublicKey: k.publicKey, Fingerprint: k.fingerprint,
		CreatedAt: date(k.created), UpdatedAt: date(k.updated),
		OrganizationID: r.opts.OrganizationID, ProjectID: k.project, Disabled: k.disabled,
	}
}

// enabledKeys are the keys that a project's hosts get. Callers hold the lock.
func (r *keyring) enabledKeys(project string) []string {
	keys := []string{}
	for _, k := range r.keys {
		if k.project == project && !k.disabled && !slices.Contains(keys, k.publicKey) {
			keys = append(keys, k.publicKey)
		}
	}
	return keys
}

// withKey gives a handler its key. Unlike a server, a missing key is 404 (recorded).
func (r *keyring) withKey(handle func(*call, *sshKey) reply) handler {
	return func(c *call) reply {
		if uuid.Validate(c.id) != nil {
			return notUUID("ssh_key_id") // INF
		}
		at := slices.IndexFunc(r.keys, func(k *sshKey) bool { return k.id == c.id })
		if at < 0 {
			return notFound("ssh_key", c.id)
		}
		return handle(c, r.keys[at])
	}
}

func (r *keyring) getSSHKey(_ *call, k *sshKey) reply { return ok(r.renderKey(k)) }

// createSSHKey drops the comment and takes the same key any number of times: both recorded.
func (r *keyring) createSSHKey(c *call) reply {
	var request struct {
		Name      string `json:"name"`
		PublicKey string `json:"public_key"`
		ProjectID string `json:"project_id"`
	}
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if uuid.Validate(request.ProjectID) != nil {
		return notUUID("project_id")
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(request.PublicKey))
	if err != nil {
		return invalidArgument("public_key", "format", "value must be a valid SSH public key") // INF
	}
	k, err := r.storeKey(request.ProjectID, request.Name, key)
	if err != nil {
		r.log.Error("storing a key failed", "name", request.Name, "error", err)
		return internalError()
	}
	return ok(r.renderKey(k))
}

// storeKey adds a key to a project. Callers hold the lock.
func (r *keyring) storeKey(project, name string, key ssh.PublicKey) (*sshKey, error) {
	id, err := r.newID()
	if err != nil {
		return nil, err
	}
	now := r.now()
	k := &sshKey{
		id: id, name: name, project: project,
		publicKey:   strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))),
		fingerprint: fingerprint(key),
		created:     now, updated: now,
	}
	r.keys = append(r.keys, k)
	return k, nil
}

// AddSSHKey registers a key in the vendor's default project, as it may have been
// before the sandbox began: pool servers added later accept it.
func (r *keyring) AddSSHKey(name, publicKey string) error {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(publicKey))
	if err != nil {
		return fmt.Errorf("adding SSH key %q: %w", name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.storeKey(r.opts.ProjectID, name, key); err != nil {
		return fmt.Errorf("adding SSH key %q: %w", name, err)
	}
	return nil
}

func (r *keyring) updateSSHKey(c *call, k *sshKey) reply {
	var request struct {
		Name     *string `json:"name"`
		Disabled *bool   `json:"disabled"`
	}
	if refused, fine := c.decode(&request); !fine {
		return refused
	}
	if request.Name != nil {
		k.name = *request.Name
	}
	if request.Disabled != nil {
		k.disabled = *request.Disabled
	}
	k.updated = r.now()
	return ok(r.renderKey(k))
}

func (r *keyring) deleteSSHKey(_ *call, k *sshKey) reply {
	r.keys = slices.DeleteFunc(r.keys, func(other *sshKey) bool { return other == k })
	return noContent()
}

func (r *keyring) listSSHKeys(c *call) reply {
	matching := slices.DeleteFunc(slices.Clone(r.keys), func(k *sshKey) bool { return !r.keyWanted(c, k) })
	refused := sorted(c, matching, map[string]func(a, b *sshKey) int{
		"created_at": func(a, b *sshKey) int { return a.created.Compare(b.created) },
		"updated_at": func(a, b *sshKey) int { return a.updated.Compare(b.updated) },
		"name":       func(a, b *sshKey) int { return strings.Compare(a.name, b.name) },
	})
	if refused != nil {
		return *refused
	}
	shown, refused := page(r.world, c, matching)
	if refused != nil {
		return *refused
	}
	list := sshKeyListBody{SSHKeys: []sshKeyBody{}, TotalCount: len(matching)}
	for _, k := range shown {
		list.SSHKeys = append(list.SSHKeys, r.renderKey(k))
	}
	return ok(list)
}

// keyWanted applies the list's filters. The name is compared whole (INF: the
// recorded filter would fit a part as well).
func (r *keyring) keyWanted(c *call, k *sshKey) bool {
	wants := func(name, value string) bool {
		return !c.query.Has(name) || c.query.Get(name) == value
	}
	return wants("project_id", k.project) && wants("name", k.name) &&
		wants("organization_id", r.opts.OrganizationID) &&
		wants("disabled", fmt.Sprint(k.disabled))
}

// fingerprint is in the recorded form: "256 MD5:6b:cd:… (ssh-ed25519)".
func fingerprint(key ssh.PublicKey) string {
	return fmt.Sprintf("%d MD5:%s (%s)", keyBits(key), ssh.FingerprintLegacyMD5(key), key.Type())
}

func keyBits(key ssh.PublicKey) int {
	crypto, fine := key.(ssh.CryptoPublicKey)
	if !fine {
		return 0
	}
	switch public := crypto.CryptoPublicKey().(type) {
	case *rsa.PublicKey:
		return public.N.BitLen()
	case *ecdsa.PublicKey:
		return public.Curve.Params().BitSize
	default:
		return 256 // ed25519
	}
}
