package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	infrav1 "github.com/macfleet/macfleet/api/infrastructure/v1alpha1"
	"github.com/macfleet/macfleet/internal/cli/snapshot"
	"github.com/macfleet/macfleet/internal/cli/timeline"
	"github.com/macfleet/macfleet/internal/converge/document"
	"github.com/macfleet/macfleet/internal/remote"
)

// ofMac reads what a Machine's Mac has on record of its last converge, by SSH.
func (v *macVerb) ofMac(ctx context.Context, s *snapshot.Snapshot, m *infrav1.ScalewayAppleSiliconMachine) ([]timeline.Entry, error) {
	if m == nil {
		return nil, errors.New("no Machine has it, whose fleet's key would open it")
	}
	c, err := v.cluster.Client()
	if err != nil {
		return nil, err
	}
	target, err := v.targetIn(ctx, c, s, m)
	if err != nil {
		return nil, err
	}
	session, err := remote.Dial(ctx, target)
	if err != nil {
		return nil, behindPort(err, target)
	}
	defer func() { _ = session.Close() }()
	report, err := readReport(ctx, session)
	if err != nil {
		return nil, err
	}
	return reported(report), nil
}

// reported are the steps of a converge, each at its end by the Mac's clock; those that found all
// as it should be are counted.
func reported(r document.Report) []timeline.Entry {
	entry := func(at time.Time, what, says string) timeline.Entry {
		return timeline.Entry{At: at, Source: "report", Object: "mac", What: what, Says: says}
	}
	entries := []timeline.Entry{entry(r.Started, r.Verb+" began", fmt.Sprintf("build %.12s, revision %.12s", r.Build, r.Revision))}
	at, unchanged := r.Started, 0
	for _, s := range r.Steps {
		at = at.Add(time.Duration(s.Millis) * time.Millisecond)
		switch s.Outcome {
		case document.Unchanged:
			unchanged++
		case document.Failed:
			entries = append(entries, entry(at, fmt.Sprintf("step %s failed (%s)", s.Name, s.Class), s.Detail))
		default:
			entries = append(entries, entry(at, fmt.Sprintf("step %s: %s", s.Name, s.Outcome), s.Detail))
		}
	}
	return append(entries, entry(r.Finished, r.Verb+" "+reportEnd(r), fmt.Sprintf("found as it should be: %d of %d steps", unchanged, len(r.Steps))))
}
