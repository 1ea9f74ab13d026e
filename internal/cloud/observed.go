package cloud

import (
	"context"
	"time"
)

// Observe is told of each finished call: its name (the method's), how long it
// took and how it ended.
type Observe func(call string, took time.Duration, err error)

// Observed returns a Cloud that tells observe about every call of inner.
func Observed(inner Cloud, observe Observe) Cloud { return &observed{inner: inner, observe: observe} }

type observed struct {
	inner   Cloud
	observe Observe
}

func (o *observed) tell(call string, start time.Time, err error) {
	o.observe(call, time.Since(start), err)
}

func (o *observed) CheckAccess(ctx context.Context, zone string) error {
	start := time.Now()
	err := o.inner.CheckAccess(ctx, zone)
	o.tell("CheckAccess", start, err)
	return err
}

func (o *observed) ListServers(ctx context.Context, zone string) ([]Server, error) {
	start := time.Now()
	servers, err := o.inner.ListServers(ctx, zone)
	o.tell("ListServers", start, err)
	return servers, err
}

func (o *observed) GetServer(ctx context.Context, zone, id string) (Server, Credentials, error) {
	start := time.Now()
	server, credentials, err := o.inner.GetServer(ctx, zone, id)
	o.tell("GetServer", start, err)
	return server, credentials, err
}

func (o *observed) RenameServer(ctx context.Context, zone, id, name string) error {
	start := time.Now()
	err := o.inner.RenameServer(ctx, zone, id, name)
	o.tell("RenameServer", start, err)
	return err
}

func (o *observed) ReinstallServer(ctx context.Context, zone, id, osID string) error {
	start := time.Now()
	err := o.inner.ReinstallServer(ctx, zone, id, osID)
	o.tell("ReinstallServer", start, err)
	return err
}

func (o *observed) DeleteServer(ctx context.Context, zone, id string) (bool, error) {
	start := time.Now()
	scheduled, err := o.inner.DeleteServer(ctx, zone, id)
	o.tell("DeleteServer", start, err)
	return scheduled, err
}

func (o *observed) FindOS(ctx context.Context, zone, family, serverType string) (OS, error) {
	start := time.Now()
	os, err := o.inner.FindOS(ctx, zone, family, serverType)
	o.tell("FindOS", start, err)
	return os, err
}

func (o *observed) CreateServer(ctx context.Context, zone string, order ServerOrder) (string, error) {
	start := time.Now()
	id, err := o.inner.CreateServer(ctx, zone, order)
	o.tell("CreateServer", start, err)
	return id, err
}

func (o *observed) RebootServer(ctx context.Context, zone, id string) error {
	start := time.Now()
	err := o.inner.RebootServer(ctx, zone, id)
	o.tell("RebootServer", start, err)
	return err
}

func (o *observed) ServerTypes(ctx context.Context, zone string) ([]ServerType, error) {
	start := time.Now()
	types, err := o.inner.ServerTypes(ctx, zone)
	o.tell("ServerTypes", start, err)
	return types, err
}

func (o *observed) StartDiagnostic(ctx context.Context, zone, id string) (string, error) {
	start := time.Now()
	diagnosticID, err := o.inner.StartDiagnostic(ctx, zone, id)
	o.tell("StartDiagnostic", start, err)
	return diagnosticID, err
}

func (o *observed) GetDiagnostic(ctx context.Context, zone, diagnosticID string) (Diagnostic, error) {
	start := time.Now()
	diagnostic, err := o.inner.GetDiagnostic(ctx, zone, diagnosticID)
	o.tell("GetDiagnostic", start, err)
	return diagnostic, err
}

func (o *observed) EnsureSSHKey(ctx context.Context, name, publicKey string) error {
	start := time.Now()
	err := o.inner.EnsureSSHKey(ctx, name, publicKey)
	o.tell("EnsureSSHKey", start, err)
	return err
}

func (o *observed) ListSSHKeys(ctx context.Context) ([]SSHKey, error) {
	start := time.Now()
	keys, err := o.inner.ListSSHKeys(ctx)
	o.tell("ListSSHKeys", start, err)
	return keys, err
}

func (o *observed) DeleteSSHKey(ctx context.Context, id string) error {
	start := time.Now()
	err := o.inner.DeleteSSHKey(ctx, id)
	o.tell("DeleteSSHKey", start, err)
	return err
}
