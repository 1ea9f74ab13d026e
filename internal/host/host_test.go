package host_test

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
)

const (
	zone     = "fr-par-1"
	serverID = "11111111-2222-3333-4444-555555555555"
	prefix   = "tuist-pool-"
)

func noon() time.Time { return time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) }

func at(minutes int) *metav1.MicroTime {
	t := metav1.NewMicroTime(noon().Add(time.Duration(minutes) * time.Minute))
	return &t
}

// pooled is a host that can be claimed, with changes.
func pooled(changes ...func(*host.Host)) *host.Host {
	h := &host.Host{
		ObjectMeta: metav1.ObjectMeta{Name: host.ObjectName(zone, serverID)},
		Spec:       infrav1.ScalewayAppleSiliconHostSpec{ServerID: serverID, Zone: zone},
		Status: infrav1.ScalewayAppleSiliconHostStatus{Server: infrav1.ServerStatus{
			Name: prefix + "1", Status: "ready", Type: "M2-L", Delivered: true, OSFamily: "tahoe",
		}},
	}
	for _, change := range changes {
		change(h)
	}
	return h
}

func claimed(h *host.Host) {
	h.Spec.ClaimRef = &infrav1.ClaimReference{Namespace: "fleet", Name: "m-1", Token: "t-1", Cluster: "c"}
	h.Spec.Record.Wipe.RequiredSince = at(0)
	h.Status.Server.Name = "m-1"
}

// by is the object that made the claim.
func by(uid types.UID) func(*host.Host) {
	return func(h *host.Host) { h.Spec.ClaimRef.UID = uid }
}

func released(h *host.Host) {
	claimed(h)
	h.Spec.Release = &infrav1.Release{Token: "t-1", Policy: infrav1.Recycle, PoolPrefix: prefix, RequestedAt: *at(5)}
}

func wiping(h *host.Host) {
	released(h)
	h.Spec.Record.Wipe.RequestedAt, h.Spec.Record.Wipe.StartedAt = at(6), at(6)
}

func named(name string) func(*host.Host) {
	return func(h *host.Host) { h.Status.Server.Name = name }
}

func status(s cloud.Status) func(*host.Host) {
	return func(h *host.Host) { h.Status.Server.Status = string(s) }
}

func condition(kind string, value metav1.ConditionStatus, reason string) func(*host.Host) {
	return func(h *host.Host) {
		h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason})
	}
}

// bears reports that the host is claimed with the token, for whomever.
func bears(h *host.Host, token string) bool {
	return h.Spec.ClaimRef != nil && h.Spec.ClaimRef.Token == token
}
