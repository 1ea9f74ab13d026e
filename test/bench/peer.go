package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/macfleet/macfleet/internal/cloud"
)

// peer is a loop that adopts servers one after the other, as a process-wide lock
// has it: each adoption lists the zone, marks a server with a name of its own,
// reads it back, and names it for good.
type peer struct {
	Machines int     `json:"machines"`
	Adopted  int     `json:"adopted"`
	Ran      seconds `json:"ranSeconds"`
	// Took is what all Machines take: measured, or the mean of the adoptions for each.
	Took         seconds `json:"allAdoptedAfterSeconds"`
	Extrapolated bool    `json:"extrapolated"`
	CallsAHost   float64 `json:"vendorCallsAHost"`
}

// measurePeer runs the loop on a vendor of its own, no longer than it may.
func measurePeer(ctx context.Context, s settings) (*peer, error) {
	vendor, err := newVendor(ctx, s.hosts, s.latency)
	if err != nil {
		return nil, err
	}
	defer vendor.Close()
	api, err := connect(vendor)
	if err != nil {
		return nil, err
	}
	out := &peer{Machines: s.machines}
	began := time.Now()
	for out.Adopted < s.machines && time.Since(began) < s.peer {
		if err := adopt(ctx, api, fmt.Sprintf("builders-%05d", out.Adopted)); err != nil {
			return nil, fmt.Errorf("adopting: %w", err)
		}
		out.Adopted++
	}
	ran := time.Since(began)
	out.Ran, out.Extrapolated = seconds(ran.Seconds()), out.Adopted < s.machines
	out.Took = seconds(ran.Seconds() * float64(s.machines) / float64(out.Adopted))
	out.CallsAHost = float64(len(vendor.Journal(0))) / float64(out.Adopted)
	return out, nil
}

func adopt(ctx context.Context, api cloud.Cloud, name string) error {
	servers, err := api.ListServers(ctx, zone)
	if err != nil {
		return err
	}
	for _, server := range servers {
		if !strings.HasPrefix(server.Name, prefix) || !server.Delivered || server.Status != cloud.StatusReady {
			continue
		}
		marker := "claim-pending-" + server.ID
		if err := api.RenameServer(ctx, zone, server.ID, marker); err != nil {
			return err
		}
		marked, _, err := api.GetServer(ctx, zone, server.ID)
		if err != nil {
			return err
		}
		if marked.Name == marker {
			return api.RenameServer(ctx, zone, server.ID, name)
		}
	}
	return fmt.Errorf("no server is left for %s", name)
}
