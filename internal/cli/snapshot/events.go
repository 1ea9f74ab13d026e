package snapshot

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AddEvents reads the events about objects of these names, of whatever kind and namespace.
func (s *Snapshot) AddEvents(ctx context.Context, c client.Reader, names ...string) error {
	lists := make([]corev1.EventList, len(names))
	errs := make([]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			errs[i] = c.List(ctx, &lists[i], client.MatchingFields{"involvedObject.name": name})
		})
	}
	all.Wait()
	for i := range names {
		if errs[i] == nil {
			s.Events = append(s.Events, lists[i].Items...)
			continue
		}
		missing, err := missingOf(Events, "", errs[i])
		if err != nil {
			return err
		}
		s.Missing = append(s.Missing, missing)
		break // the others fail alike
	}
	return nil
}

// AddPodsOn reads the Pods of one Node, of all namespaces.
func (s *Snapshot) AddPodsOn(ctx context.Context, c client.Reader, node string) error {
	var list corev1.PodList
	err := c.List(ctx, &list, client.MatchingFields{"spec.nodeName": node})
	if err == nil {
		s.Pods = append(s.Pods, list.Items...)
		return nil
	}
	missing, err := missingOf(Pods, "", err)
	if err == nil {
		s.Missing = append(s.Missing, missing)
	}
	return err
}

// Read says whether a kind was asked for and could be read.
func (s *Snapshot) Read(kind Kind) bool {
	_, read := s.versions[kind]
	return read
}

// Lacks says why a kind is not there; empty: it is.
func (s *Snapshot) Lacks(kind Kind) string {
	for _, m := range s.Missing {
		if m.Kind == kind {
			return m.Why
		}
	}
	return ""
}
