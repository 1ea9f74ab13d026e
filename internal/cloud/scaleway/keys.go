package scaleway

import (
	"context"
	"strings"

	iam "github.com/scaleway/scaleway-sdk-go/api/iam/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"

	"github.com/macfleet/macfleet/internal/cloud"
)

// EnsureSSHKey lists before it creates: the vendor takes the same key twice. It
// drops a key's comment, so type and base64 are what is compared. Two managers
// at once can still make a duplicate, which does no harm.
func (c *Client) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	doing := "register SSH key " + name
	wanted := keyHalf(publicKey)
	if wanted == "" {
		return &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "the public key has no type and base64 part"}
	}
	found, err := c.hasKey(ctx, doing, wanted)
	if err != nil || found {
		return err
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

func (c *Client) hasKey(ctx context.Context, doing, wanted string) (bool, error) {
	found := false
	err := c.call(ctx, list, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.keys.ListSSHKeys(&iam.ListSSHKeysRequest{
			ProjectID: &c.projectID, PageSize: scw.Uint32Ptr(pageSize),
		}, scw.WithAllPages(), with)
		if err != nil {
			return err
		}
		for _, key := range answer.SSHKeys {
			// A disabled key is not put on servers: it counts as absent.
			found = found || (key != nil && !key.Disabled && keyHalf(key.PublicKey) == wanted)
		}
		return nil
	})
	return found, err
}

// keyHalf is type and base64 of a public key, without its comment.
func keyHalf(publicKey string) string {
	parts := strings.Fields(publicKey)
	if len(parts) < 2 {
		return ""
	}
	return parts[0] + " " + parts[1]
}
