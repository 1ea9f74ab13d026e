package scaleway

import (
	"context"
	"strings"

	applesilicon "github.com/scaleway/scaleway-sdk-go/api/applesilicon/v1alpha1"
	"github.com/scaleway/scaleway-sdk-go/scw"
	"github.com/scaleway/scaleway-sdk-go/validation"

	"github.com/macfleet/macfleet/internal/cloud"
)

// StartDiagnostic begins a connectivity diagnostic of a server.
func (c *Client) StartDiagnostic(ctx context.Context, zone, id string) (string, error) {
	doing := "diagnose server " + zone + "/" + id
	if err := checkTarget(doing, zone, id); err != nil {
		return "", err
	}
	var diagnosticID string
	err := c.call(ctx, write, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.StartConnectivityDiagnostic(&applesilicon.StartConnectivityDiagnosticRequest{Zone: scw.Zone(zone), ServerID: id}, with)
		if err == nil && (answer == nil || !validation.IsUUID(answer.DiagnosticID)) {
			return noAnswer(doing, "the vendor's answer names no diagnostic")
		}
		if err == nil {
			diagnosticID = answer.DiagnosticID
		}
		return err
	})
	return diagnosticID, err
}

// GetDiagnostic reads a diagnostic. One that ended in an error is done, and not healthy.
func (c *Client) GetDiagnostic(ctx context.Context, zone, diagnosticID string) (cloud.Diagnostic, error) {
	doing := "read diagnostic " + zone + "/" + diagnosticID
	if err := checkTarget(doing, zone, diagnosticID); err != nil {
		return cloud.Diagnostic{}, err
	}
	var out cloud.Diagnostic
	err := c.call(ctx, read, doing, func(s *session, with scw.RequestOption) error {
		answer, err := s.servers.GetConnectivityDiagnostic(&applesilicon.GetConnectivityDiagnosticRequest{Zone: scw.Zone(zone), DiagnosticID: diagnosticID}, with)
		if err != nil {
			return err
		}
		if answer == nil || !strings.EqualFold(answer.ID, diagnosticID) {
			return noAnswer(doing, "the vendor answered for another diagnostic")
		}
		out = diagnostic(answer)
		return nil
	})
	return out, err
}

func diagnostic(d *applesilicon.ConnectivityDiagnostic) cloud.Diagnostic {
	out := cloud.Diagnostic{Message: oneLine(d.ErrorMessage, "")}
	switch d.Status {
	case applesilicon.ConnectivityDiagnosticDiagnosticStatusCompleted:
		out.Done, out.Healthy = true, d.IsHealthy
	case applesilicon.ConnectivityDiagnosticDiagnosticStatusError:
		out.Done = true
	}
	for _, action := range d.SupportedActions {
		out.Advice = append(out.Advice, string(action))
	}
	return out
}
