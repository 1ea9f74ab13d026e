package scaleway

import (
	"context"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"github.com/scaleway/scaleway-sdk-go/validation"

	"github.com/macfleet/macfleet/internal/cloud"
)

// CreateServer orders a server with the vendor's default commitment. Answers to
// writes are sealed; only the id is used.
func (c *Client) CreateServer(ctx context.Context, zone string, order cloud.ServerOrder) (string, error) {
	doing := "order server " + order.Name + " in " + zone
	if err := checkZone(doing, zone); err != nil {
		return "", err
	}
	if order.Name == "" || order.Type == "" {
		return "", &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "an order needs a name and a type"}
	}
	request := &applesilicon.CreateServerRequest{
		Zone: scw.Zone(zone), ProjectID: c.projectID, Name: order.Name, Type: order.Type,
		CommitmentType: applesilicon.CommitmentTypeDuration24h,
	}
	if order.OSID != "" {
		request.OsID = &order.OSID
	}
	var id string
	err := c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.CreateServer(request, with)
		if err == nil && (answer == nil || !validation.IsUUID(answer.ID)) {
			return noAnswer(doing, "the vendor's answer names no server")
		}
		if err == nil {
			id = answer.ID
		}
		return err
	})
	return id, err
}

// RebootServer asks for a power cycle. The answer is sealed and is not used.
func (c *Client) RebootServer(ctx context.Context, zone, id string) error {
	doing := "reboot server " + zone + "/" + id
	if err := checkTarget(doing, zone, id); err != nil {
		return err
	}
	return c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.RebootServer(&applesilicon.RebootServerRequest{Zone: scw.Zone(zone), ServerID: id}, with)
		return sameServer(doing, id, answer, err)
	})
}

// ServerTypes reads the zone's catalogue.
func (c *Client) ServerTypes(ctx context.Context, zone string) ([]cloud.ServerType, error) {
	doing := "list server types of zone " + zone
	if err := checkZone(doing, zone); err != nil {
		return nil, err
	}
	var types []cloud.ServerType
	err := c.call(ctx, read, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.ListServerTypes(&applesilicon.ListServerTypesRequest{Zone: scw.Zone(zone)}, with)
		if err == nil && (answer == nil || answer.ServerTypes == nil) {
			return noList(doing)
		}
		if err != nil {
			return err
		}
		for _, one := range answer.ServerTypes {
			if one != nil {
				types = append(types, serverType(one))
			}
		}
		return nil
	})
	return types, err
}

func serverType(t *applesilicon.ServerType) cloud.ServerType {
	out := cloud.ServerType{Name: t.Name}
	if t.CPU != nil {
		out.Chip, out.Cores = t.CPU.Name, int(t.CPU.CoreCount)
	}
	if t.Memory != nil {
		out.MemoryBytes = uint64(t.Memory.Capacity)
	}
	if t.Disk != nil {
		out.DiskBytes = uint64(t.Disk.Capacity)
	}
	return out
}
