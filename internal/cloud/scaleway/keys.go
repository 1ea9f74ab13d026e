package scaleway

import (
	"context"
	"strings"

	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"github.com/scaleway/scaleway-sdk-go/validation"

	"github.com/macfleet/macfleet/internal/cloud"
)

// EnsureSSHKey lists before it creates: the vendor takes the same key twice. It
// drops a key's comment, so type and base64 are what is compared, and the name. Two
// managers at once can still make a duplicate, which does no harm.
func (c *Client) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	doing := "register SSH key " + name
	wanted := keyHalf(publicKey)
	if wanted == "" || name == "" {
		return &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "the public key has no name, or no type and base64 part"}
	}
	keys, err := c.listKeys(ctx, doing)
	if err != nil {
		return err
	}
	for _, key := range keys {
		// A disabled key is not put on servers: it counts as absent.
		if !key.Disabled && key.Name == name && keyHalf(key.PublicKey) == wanted {
			return nil
		}
	}
	return c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.keys.CreateSSHKey(&iam.CreateSSHKeyRequest{
			Name: name, PublicKey: strings.TrimSpace(publicKey), ProjectID: c.projectID,
		}, with)
		if err == nil && (answer == nil || answer.ID == "") {
			return noAnswer(doing, "the vendor's answer names no key")
		}
		return err
	})
}

// ListSSHKeys asks with the project: without it, the vendor shows those of all
// projects that the credentials see.
func (c *Client) ListSSHKeys(ctx context.Context) ([]cloud.SSHKey, error) {
	return c.listKeys(ctx, "list SSH keys")
}

func (c *Client) listKeys(ctx context.Context, doing string) ([]cloud.SSHKey, error) {
	var keys []cloud.SSHKey
	err := c.call(ctx, list, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.keys.ListSSHKeys(&iam.ListSSHKeysRequest{
			ProjectID: &c.projectID, PageSize: scw.Uint32Ptr(pageSize),
		}, scw.WithAllPages(), with)
		if err != nil {
			return err
		}
		for _, key := range answer.SSHKeys {
			if key == nil || key.ID == "" || key.ProjectID != "" && !strings.EqualFold(key.ProjectID, c.projectID) {
				continue
			}
			keys = append(keys, cloud.SSHKey{ID: key.ID, Name: key.Name, PublicKey: keyHalf(key.PublicKey), Disabled: key.Disabled})
		}
		return nil
	})
	return keys, err
}

// DeleteSSHKey deletes by the vendor's id. Unlike a server, a key that is gone
// answers 404.
func (c *Client) DeleteSSHKey(ctx context.Context, id string) error {
	doing := "delete SSH key " + id
	if !validation.IsUUID(id) { // it becomes part of a path, and the SDK escapes nothing
		return &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "a key's id is a UUID"}
	}
	return c.call(ctx, erase, doing, func(s *session, with scw.RequestOption) error {
		return s.keys.DeleteSSHKey(&iam.DeleteSSHKeyRequest{SSHKeyID: id}, with)
	})
}

// keyHalf is type and base64 of a public key, without its comment.
func keyHalf(publicKey string) string {
	parts := strings.Fields(publicKey)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + " " + parts[1]
}
