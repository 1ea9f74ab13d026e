package main

import (
	"fmt"
	"strings"

	"github.com/macfleet/macfleet/internal/host"
)

// checkPools reads the pools of namespaces, and keeps their names apart from those
// of claimed servers.
func (s *settings) checkPools() error {
	pools, err := host.ParsePools(s.poolPrefixes, s.defaultPoolPrefix)
	if err != nil {
		return fmt.Errorf("--pool-prefixes: %w", err)
	}
	s.namespacePools = pools.Of
	if s.claimNamePrefix == "" {
		return nil
	}
	for _, prefix := range pools.Known(nil) {
		if prefix == "" || prefix == s.defaultPoolPrefix {
			continue // said of its own flag
		}
		if strings.HasPrefix(prefix, s.claimNamePrefix) || strings.HasPrefix(s.claimNamePrefix, prefix) {
			return fmt.Errorf("--pool-prefixes: names of the pool %q and those of claimed servers, which begin with %q, could be taken for one another", prefix, s.claimNamePrefix)
		}
	}
	return nil
}
