package host

import (
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/macfleet/macfleet/internal/cloud"
	"github.com/macfleet/macfleet/internal/host"
	"github.com/macfleet/macfleet/internal/tracing"
)

// Defaults of Options.
const (
	DefaultInventoryInterval = 30 * time.Second
	// defaultSettle covers the deadline of a rename, and as much again: one that
	// timed out may still land.
	defaultSettle      = 5 * time.Second
	DefaultConcurrency = 32
	// DefaultReclaimInterval lets two sweeps fit into half an hour of billing.
	DefaultReclaimInterval = 15 * time.Minute
	// DefaultReinstallTimeout is twice the 20 minutes that a slow wipe takes, and a little.
	DefaultReinstallTimeout = 45 * time.Minute
)

// Options of the host controllers. Cloud is required, the rest has defaults.
type Options struct {
	Cloud cloud.Cloud
	// Tracer makes spans of reconciles. Its zero value: none.
	Tracer tracing.Tracer
	// Rights takes down which writes the vendor refuses, those of others included that
	// write through it. Default: its own.
	Rights *cloud.Rights
	// Project is the vendor's that Cloud lists. Empty: it is not known, and Hosts are taken
	// for its own.
	Project string
	// Namespace whose Machines are this manager's. Empty: those of all namespaces. Hosts are of
	// none: what is claimed from another one is left to the manager there.
	Namespace string
	// InventoryInterval between two lists of a zone.
	InventoryInterval time.Duration
	// Settle is how long a new name must stay before the claim counts as shown.
	Settle time.Duration
	// Concurrency is the number of hosts worked on at once.
	Concurrency int
	// DefaultPoolPrefix of Machines that name none; empty: there is none.
	DefaultPoolPrefix string
	// NamespacePools are the prefixes that the Machines of a namespace may name
	// beside the default.
	NamespacePools map[string][]string
	// RefuseUnseen has hosts of the pool that were never seen wiped wiped once before
	// they can be claimed.
	RefuseUnseen bool
	// OrphanReclaimZones are listed beside the zones of Clusters and Machines.
	OrphanReclaimZones []string
	// ReclaimInterval between two sweeps for hosts that nobody owns.
	ReclaimInterval time.Duration
	// ReclaimAfter is how long a host must have been seen stray before it is taken
	// back. Default: host.DefaultReclaimAfter.
	ReclaimAfter time.Duration
	// ClaimNamePrefix starts the names of servers that the sweep may take back into
	// the pool. Empty: it only reports.
	ClaimNamePrefix string
	// ReportNamePrefix starts the names of servers that this cluster claims. It tells
	// stranded hosts from foreign ones where the sweep only reports.
	ReportNamePrefix string
	// ReinstallTimeout is how long a wipe may take before it is asked for again.
	ReinstallTimeout time.Duration
	// WatchFilter restricts the work to hosts whose label
	// cluster.x-k8s.io/watch-filter has this value, which new hosts get.
	WatchFilter string
	Clock       clock.Clock
	// NodeReader reads Nodes of the workload cluster, uncached; NodeWriter
	// deletes them. Default: the manager's own cluster.
	NodeReader client.Reader
	NodeWriter client.Writer
	// Registry takes the metrics. Default: the manager's; without a manager, none.
	Registry prometheus.Registerer
}

func (o Options) withDefaults() (Options, error) {
	if o.Cloud == nil {
		return o, errors.New("the host controllers need a vendor")
	}
	o.InventoryInterval = cmp.Or(max(o.InventoryInterval, 0), DefaultInventoryInterval)
	o.Settle = cmp.Or(max(o.Settle, 0), defaultSettle)
	o.Concurrency = cmp.Or(max(o.Concurrency, 0), DefaultConcurrency)
	o.ReclaimInterval = cmp.Or(max(o.ReclaimInterval, 0), DefaultReclaimInterval)
	o.ReinstallTimeout = cmp.Or(max(o.ReinstallTimeout, 0), DefaultReinstallTimeout)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Rights == nil {
		o.Rights = &cloud.Rights{Clock: o.Clock}
	}
	return o, nil
}

// pools are those known here, and whose they are.
func (o Options) pools() host.Pools {
	return host.Pools{Default: o.DefaultPoolPrefix, Of: o.NamespacePools}
}

// poll is how soon the vendor is asked again about something it refused: often
// enough for people to see progress, and in proportion to the inventory.
func (o Options) poll() time.Duration {
	return min(max(o.InventoryInterval/3, time.Second), 10*time.Second)
}
