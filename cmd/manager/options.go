package main

import (
	hostcontroller "github.com/macfleet/macfleet/internal/controller/host"
	"github.com/macfleet/macfleet/internal/controller/machine"
)

// hostOptions are what the flags say to the host controllers.
func (s *settings) hostOptions() hostcontroller.Options {
	return hostcontroller.Options{
		Project: s.vendor.ProjectID, Namespace: s.namespace, InventoryInterval: s.inventoryInterval, Concurrency: s.hostConcurrency,
		DefaultPoolPrefix: s.defaultPoolPrefix, NamespacePools: s.namespacePools, RefuseUnseen: !s.trustUnseen,
		OrphanReclaimZones: s.parsedReclaimZones, ReclaimInterval: s.reclaimInterval, ReclaimAfter: s.reclaimAfter,
		ClaimNamePrefix: s.claimNamePrefix, ReportNamePrefix: s.reportNamePrefix, ReinstallTimeout: s.reinstallTimeout, WatchFilter: s.watchFilter,
	}
}

// machineOptions are what the flags say to the machine controller.
func (s *settings) machineOptions() machine.Options {
	return machine.Options{
		DefaultPoolPrefix: s.defaultPoolPrefix, NamespacePools: s.namespacePools, RefuseUnseen: !s.trustUnseen, SSHPort: s.sshPort,
		Concurrency: s.machineConcurrency, ConvergeConcurrency: s.convergeConcurrency, WatchFilter: s.watchFilter,
		RebootAfter: s.rebootAfter, MaxAttempts: s.maxAttempts, RecoverAfter: s.recoverAfter, DriftCheckInterval: s.driftCheckInterval,
	}
}
