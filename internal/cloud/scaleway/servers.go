package scaleway

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"github.com/scaleway/scaleway-sdk-go/validation"

	"github.com/macfleet/macfleet/internal/cloud"
)

// CheckAccess reads one page of one server: the cheapest call that needs valid
// credentials, the project and the zone.
func (c *Client) CheckAccess(ctx context.Context, zone string) error {
	doing := "check access to zone " + zone
	if err := checkZone(doing, zone); err != nil {
		return err
	}
	return c.call(ctx, read, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.ListServers(&applesilicon.ListServersRequest{
			Zone: scw.Zone(zone), ProjectID: &c.projectID, PageSize: scw.Uint32Ptr(1),
		}, with)
		if err == nil && (answer == nil || answer.Servers == nil) {
			return noList(doing)
		}
		return err
	})
}

// ListServers reads all pages. A server can be missed when another is deleted
// between two pages: absence from one list proves nothing.
func (c *Client) ListServers(ctx context.Context, zone string) ([]cloud.Server, error) {
	doing := "list servers of zone " + zone
	if err := checkZone(doing, zone); err != nil {
		return nil, err
	}
	var all []*applesilicon.Server
	err := c.call(ctx, list, doing, func(s *session, with scw.RequestOption) error {
		var err error
		all, err = c.pages(s, doing, zone, with)
		return err
	})
	if err != nil {
		return nil, err
	}
	return distinct(doing, zone, all)
}

// pages reads page after page. The SDK's own paging cannot tell an empty list
// from an answer that holds none, and the latter must not look like a project
// that lost all its servers. A later page that fails is asked for once more: the longer
// the list, the more often one of them fails, and each failure costs the whole list.
func (c *Client) pages(s *session, doing, zone string, with scw.RequestOption) ([]*applesilicon.Server, error) {
	var all []*applesilicon.Server
	for page := int32(1); page <= mostPages; page++ {
		request := &applesilicon.ListServersRequest{Zone: scw.Zone(zone), ProjectID: &c.projectID, Page: &page, PageSize: scw.Uint32Ptr(pageSize)}
		answer, err := s.servers.ListServers(request, with)
		if err != nil && page > 1 {
			answer, err = s.servers.ListServers(request, with)
		}
		switch {
		case err != nil:
			return nil, err
		case answer == nil || answer.Servers == nil:
			return nil, noList(doing)
		}
		all = append(all, answer.Servers...)
		if len(answer.Servers) == 0 || len(all) >= int(answer.TotalCount) {
			return all, nil
		}
	}
	return nil, noAnswer(doing, "the list does not end")
}

// noAnswer refuses what is no answer to the request. The request may have been
// carried out all the same.
func noAnswer(doing, message string) error {
	return &cloud.Error{Kind: cloud.KindUnavailable, Doing: doing, Message: message}
}

func noList(doing string) error {
	return noAnswer(doing, "the vendor's answer holds no list")
}

// distinct converts a list. The same server can be on two pages.
func distinct(doing, zone string, all []*applesilicon.Server) ([]cloud.Server, error) {
	seen := make(map[string]bool, len(all))
	servers := make([]cloud.Server, 0, len(all))
	for _, s := range all {
		if s == nil || !validation.IsUUID(s.ID) {
			return nil, noAnswer(doing, "the list holds a server without a usable id")
		}
		if !seen[s.ID] {
			seen[s.ID] = true
			servers = append(servers, server(s, zone))
		}
	}
	return servers, nil
}

// GetServer reads one server with its credentials.
func (c *Client) GetServer(ctx context.Context, zone, id string) (cloud.Server, cloud.Credentials, error) {
	doing := "get server " + zone + "/" + id
	if err := checkTarget(doing, zone, id); err != nil {
		return cloud.Server{}, cloud.Credentials{}, err
	}
	var got *applesilicon.Server
	err := c.call(ctx, read, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.GetServer(&applesilicon.GetServerRequest{Zone: scw.Zone(zone), ServerID: id}, with)
		got = answer
		return wholeServer(doing, id, answer, err)
	})
	if err != nil {
		return cloud.Server{}, cloud.Credentials{}, err
	}
	return server(got, zone), credentials(got), nil
}

// RenameServer asks for the name. The answer is sealed and is not used.
func (c *Client) RenameServer(ctx context.Context, zone, id, name string) error {
	doing := fmt.Sprintf("rename server %s/%s to %s", zone, id, name)
	if err := checkTarget(doing, zone, id); err != nil {
		return err
	}
	return c.update(ctx, doing, &applesilicon.UpdateServerRequest{Zone: scw.Zone(zone), ServerID: id, Name: &name})
}

func (c *Client) update(ctx context.Context, doing string, request *applesilicon.UpdateServerRequest) error {
	return c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.UpdateServer(request, with)
		return sameServer(doing, request.ServerID, answer, err)
	})
}

// ReinstallServer asks for a wipe with the image, or the type's default.
func (c *Client) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	doing := "reinstall server " + zone + "/" + id
	if err := checkTarget(doing, zone, id); err != nil {
		return err
	}
	request := &applesilicon.ReinstallServerRequest{Zone: scw.Zone(zone), ServerID: id}
	if osID != "" {
		request.OsID = &osID
	}
	return c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.ReinstallServer(request, with)
		return sameServer(doing, id, answer, err)
	})
}

// DeleteServer deletes, or below the billing floor schedules the deletion.
func (c *Client) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	doing := "delete server " + zone + "/" + id
	if err := checkTarget(doing, zone, id); err != nil {
		return false, err
	}
	err := c.call(ctx, erase, doing, func(s *session, with scw.RequestOption) error {
		return s.servers.DeleteServer(&applesilicon.DeleteServerRequest{Zone: scw.Zone(zone), ServerID: id}, with)
	})
	if !cloud.IsFloor(err) {
		return false, err
	}
	err = c.update(ctx, "schedule deletion of server "+zone+"/"+id, &applesilicon.UpdateServerRequest{
		Zone: scw.Zone(zone), ServerID: id, ScheduleDeletion: scw.BoolPtr(true),
	})
	return err == nil, err
}

// checkZone and checkTarget refuse what must not get into a path: the SDK
// escapes nothing.
func checkZone(doing, zone string) error {
	if !validation.IsZone(zone) {
		return &cloud.Error{Kind: cloud.KindUnknownZone, Doing: doing, Message: "a zone looks like fr-par-1"}
	}
	return nil
}

func checkTarget(doing, zone, id string) error {
	if err := checkZone(doing, zone); err != nil {
		return err
	}
	if !validation.IsUUID(id) {
		return &cloud.Error{Kind: cloud.KindInvalid, Doing: doing, Message: "a server id is a UUID"}
	}
	return nil
}

// sameServer refuses an answer about another server: the SDK turns an empty
// answer into a server without an id, and no error.
func sameServer(doing, id string, answer *applesilicon.Server, err error) error {
	if err != nil {
		return err
	}
	if answer == nil || !strings.EqualFold(answer.ID, id) {
		return noAnswer(doing, "the vendor answered for another server")
	}
	return nil
}

// wholeServer is sameServer for a reading, whose name and status decide whose the server is
// and what is done to it: an answer without them tells of neither.
func wholeServer(doing, id string, answer *applesilicon.Server, err error) error {
	if err := sameServer(doing, id, answer, err); err != nil {
		return err
	}
	if answer.Name == "" || answer.Status == "" {
		return noAnswer(doing, "the vendor's answer lacks the server's name or status")
	}
	return nil
}

func server(s *applesilicon.Server, zone string) cloud.Server {
	out := cloud.Server{
		ID: strings.ToLower(s.ID), Zone: zone, Name: s.Name, Type: s.Type, Status: cloud.Status(s.Status),
		Delivered: s.Delivered, SSHUser: s.SSHUsername, DeletionScheduled: s.DeletionScheduled,
	}
	if s.IP != nil {
		out.IP = s.IP.String()
	}
	if s.Os != nil {
		out.OSName, out.OSFamily = s.Os.Name, strings.ToLower(s.Os.Family)
	}
	if s.DeletableAt != nil {
		out.DeletableAt = *s.DeletableAt
	}
	if s.Commitment != nil {
		out.Commitment = string(s.Commitment.Type)
	}
	return out
}

// credentials takes the password from sudo_password, else from within vnc_url.
func credentials(s *applesilicon.Server) cloud.Credentials {
	out := cloud.Credentials{SSHUser: s.SSHUsername}
	if password, ok := cloud.NewPassword(s.SudoPassword); ok {
		out.Password = password
		return out
	}
	if u, err := url.Parse(s.VncURL); err == nil && u.User != nil {
		text, _ := u.User.Password()
		out.Password, _ = cloud.NewPassword(text)
	}
	return out
}
