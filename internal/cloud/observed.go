package cloud

import (
	"context"
	"time"
)

// Observe is told of each finished call: its name (the method's), how long it
// took and how it ended.
type Observe func(call string, took time.Duration, err error)

// Observed returns a Cloud that tells observe about every call of inner.
func Observed(inner Cloud, observe Observe) Cloud {
	return Surrounded(inner, func(ctx context.Context, call string) (context.Context, func(error)) {
		start := time.Now()
		return ctx, func(err error) { observe(call, time.Since(start), err) }
	})
}

// Around begins a call: its context, and what is told how it ended.
type Around func(ctx context.Context, call string) (_ context.Context, end func(error))

// Surrounded returns a Cloud that has around begin and end every call of inner.
func Surrounded(inner Cloud, around Around) Cloud { return &surrounded{inner, around} }

type surrounded struct {
	inner  Cloud
	around Around
}

func (s *surrounded) CheckAccess(ctx context.Context, zone string) error {
	ctx, end := s.around(ctx, "CheckAccess")
	err := s.inner.CheckAccess(ctx, zone)
	end(err)
	return err
}

func (s *surrounded) ListServers(ctx context.Context, zone string) ([]Server, error) {
	ctx, end := s.around(ctx, "ListServers")
	servers, err := s.inner.ListServers(ctx, zone)
	end(err)
	return servers, err
}

func (s *surrounded) GetServer(ctx context.Context, zone, id string) (Server, Credentials, error) {
	ctx, end := s.around(ctx, "GetServer")
	server, credentials, err := s.inner.GetServer(ctx, zone, id)
	end(err)
	return server, credentials, err
}

func (s *surrounded) RenameServer(ctx context.Context, zone, id, name string) error {
	ctx, end := s.around(ctx, "RenameServer")
	err := s.inner.RenameServer(ctx, zone, id, name)
	end(err)
	return err
}

func (s *surrounded) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	ctx, end := s.around(ctx, "ReinstallServer")
	err := s.inner.ReinstallServer(ctx, zone, id, osID)
	end(err)
	return err
}

func (s *surrounded) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	ctx, end := s.around(ctx, "DeleteServer")
	scheduled, err := s.inner.DeleteServer(ctx, zone, id)
	end(err)
	return scheduled, err
}

func (s *surrounded) FindOS(ctx context.Context, zone, family, serverType string) (OS, error) {
	ctx, end := s.around(ctx, "FindOS")
	os, err := s.inner.FindOS(ctx, zone, family, serverType)
	end(err)
	return os, err
}

func (s *surrounded) CreateServer(ctx context.Context, zone string, order ServerOrder) (string, error) {
	ctx, end := s.around(ctx, "CreateServer")
	id, err := s.inner.CreateServer(ctx, zone, order)
	end(err)
	return id, err
}

func (s *surrounded) RebootServer(ctx context.Context, zone, id string) error {
	ctx, end := s.around(ctx, "RebootServer")
	err := s.inner.RebootServer(ctx, zone, id)
	end(err)
	return err
}

func (s *surrounded) ServerTypes(ctx context.Context, zone string) ([]ServerType, error) {
	ctx, end := s.around(ctx, "ServerTypes")
	types, err := s.inner.ServerTypes(ctx, zone)
	end(err)
	return types, err
}

func (s *surrounded) StartDiagnostic(ctx context.Context, zone, id string) (string, error) {
	ctx, end := s.around(ctx, "StartDiagnostic")
	diagnosticID, err := s.inner.StartDiagnostic(ctx, zone, id)
	end(err)
	return diagnosticID, err
}

func (s *surrounded) GetDiagnostic(ctx context.Context, zone, diagnosticID string) (Diagnostic, error) {
	ctx, end := s.around(ctx, "GetDiagnostic")
	diagnostic, err := s.inner.GetDiagnostic(ctx, zone, diagnosticID)
	end(err)
	return diagnostic, err
}

func (s *surrounded) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	ctx, end := s.around(ctx, "EnsureSSHKey")
	err := s.inner.EnsureSSHKey(ctx, name, publicKey)
	end(err)
	return err
}

func (s *surrounded) ListSSHKeys(ctx context.Context) ([]SSHKey, error) {
	ctx, end := s.around(ctx, "ListSSHKeys")
	keys, err := s.inner.ListSSHKeys(ctx)
	end(err)
	return keys, err
}

func (s *surrounded) DeleteSSHKey(ctx context.Context, id string) error {
	ctx, end := s.around(ctx, "DeleteSSHKey")
	err := s.inner.DeleteSSHKey(ctx, id)
	end(err)
	return err
}
